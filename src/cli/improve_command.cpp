// SPDX-License-Identifier: Apache-2.0
// espalier improve --from NAME FILE --cluster FILE: what a present configuration costs, and what would be better.
#include <filesystem>

#include "base/format.h"
#include "cli/command.h"
#include "cli/imported.h"
#include "cli/search_hooks.h"
#include "espalier/improve.h"

namespace espalier::cli {
namespace {

struct ImproveFlags {
  ImportedFlags imported;
  PlannerOptions options;
  std::string folder;
};

/// plan.json and result.json of the best plan, job.yaml, and present.json where the present configuration runs.
Status write_files(const Context& context, const ImproveFlags& flags, const Job& job, const Improvement& answer,
                   std::vector<std::string>& files) {
  const std::string& folder = flags.folder;
  if (answer.best) {
    auto written = write_answer(folder, *answer.best, "", plan_schema_of(context));
    if (!written) return written.error();
    files = std::move(*written);
  }
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const auto add = [&](const char* name, const std::string& text) {
    files.push_back((std::filesystem::path(folder) / name).string());
    return write_file(files.back(), text);
  };
  // With the margin that was searched with, so that `plan` of this job finds the same plan.
  const auto text = job_file(job, flags.imported, answer.margin_of_present ? std::optional(answer.memory_margin) : std::nullopt);
  if (!text) return text.error();
  if (Status error = add("job.yaml", *text)) return error;
  if (!answer.present) return {};
  return add("present.json", to_json(answer.present->plan, plan_schema_of(context)) + "\n");
}

int run(Context& context, const ImproveFlags& flags) {
  auto imported = read_imported(context, flags.imported);
  if (!imported) return fail(context, imported.error());
  const auto [strategy, schedule] = completed_configuration(imported->job, imported->configuration);
  const Strategy asked = asked_strategy(imported->job, imported->configuration);
  const PresentConfiguration present{strategy, schedule, plan_of(imported->job, imported->configuration), asked.zero,
                                     asked.overlap};
  const auto answer = improve(imported->job, present, hooked(context, flags.options));
  clear_progress(context);
  if (!answer) return fail(context, answer.error());
  std::vector<std::string> files;
  if (!flags.folder.empty())
    if (Status error = write_files(context, flags, imported->job, *answer, files)) return fail(context, *error);
  if (context.json) {
    print_json(context, to_json(*answer, keys_json(imported->configuration, flags.imported.format), plan_schema_of(context)));
  } else {
    print_answer(context, to_text(*answer, context.width()));
    for (const std::string& file : files) context.out << "wrote " << file << "\n";
  }
  return answer->best ? exit_code_of(context, answer->best->search) : context.interrupted() ? kInterrupted : kInfeasible;
}

}  // namespace

void add_improve_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("improve", "what a present configuration costs, and what would be better");
  auto flags = std::make_shared<ImproveFlags>();
  add_imported_flags(*command, "--from,--format", flags->imported);
  command->add_option("--threads", flags->options.threads, "threads of the search; never changes the answer (0: all)")
      ->range(0, 4096)
      ->type_name("N");
  command->add_option("--node-limit", flags->options.node_limit, "simulate at most so many configurations (0: no limit)")
      ->non_negative()
      ->type_name("N");
  command
      ->add_option("--time-limit", flags->options.time_limit_s,
                   "stop the search after so many seconds; such answers may differ from run to run (0: no limit)")
      ->non_negative()
      ->type_name("S");
  command->add_option("-o,--out", flags->folder, "write the best plan, the present one and the job into this folder")
      ->type_name("DIR");
  add_plan_schema_flag(*command, context);
  add_common_flags(*command, context);
  command->callback([&context, flags] { context.exit_code = run(context, *flags); });
}

}  // namespace espalier::cli
