// SPDX-License-Identifier: Apache-2.0
// Implements espalier improve --from NAME FILE --cluster FILE: the cost of a present configuration, and better ones.
#include <filesystem>
#include <optional>

#include "base/format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/imported.h"
#include "cli/search_hooks.h"
#include "espalier/configuration_diff.h"
#include "espalier/improve.h"

namespace espalier::cli {
namespace {

struct ImproveFlags {
  ImportedFlags imported;
  PlannerOptions options;
  std::string out;
};

/// Returns the overrides for the searched space, so that `plan` of this job finds the same plan.
std::vector<std::string> searched_with(const adapt::Improvement& answer) {
  std::vector<std::string> out;
  if (answer.margin_of_present) out.push_back(base::cat("search.memory_margin=", base::shortest(answer.memory_margin)));
  for (const auto& [dimension, values] : answer.widened) {
    std::string list;
    for (const std::string& value : values) list += base::cat(list.empty() ? "" : ", ", value);
    out.push_back(base::cat("search.allow.", dimension, "=[", list, "]"));
  }
  return out;
}

/// Writes plan.json and result.json of the best plan, job.yaml, present.json where the present configuration runs,
/// and the changed file.
Status write_folder(const Context& context, const ImproveFlags& flags, const Job& job, const adapt::Improvement& answer,
                    const std::optional<exchange::ConfigurationDiff>& diff, std::vector<std::string>& files) {
  const std::string& folder = flags.out;
  if (answer.best) {
    auto written = report::write_answer(folder, *answer.best, "", plan_schema_of(context));
    if (!written) return written.error();
    files = std::move(*written);
  }
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const auto add = [&](const std::string& name, const std::string& text) {
    files.push_back((std::filesystem::path(folder) / name).string());
    return report::write_file(files.back(), text);
  };
  const auto text = job_file(job, flags.imported, searched_with(answer));
  if (!text) return text.error();
  if (Status status = add("job.yaml", *text); !status.ok()) return status;
  const std::string name = std::filesystem::path(flags.imported.path).filename().string();
  if (diff && !diff->text.empty() && diff->differs.empty() && flags.imported.path != "-" && name != "job.yaml")
    if (Status status = add(name, diff->text); !status.ok()) return status;
  if (!answer.present) return {};
  return add("present.json", to_json(answer.present->plan, plan_schema_of(context)) + "\n");
}

/// Returns whether a path is a folder: one that exists, or a name without an extension.
bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) || !std::filesystem::path(path).has_extension();
}

Status write_out(const Context& context, const ImproveFlags& flags, const Job& job, const adapt::Improvement& answer,
                 const std::optional<exchange::ConfigurationDiff>& diff, std::vector<std::string>& files) {
  if (is_folder(flags.out)) return write_folder(context, flags, job, answer, diff, files);
  if (!diff || diff->text.empty())
    return Error{ErrorKind::check_failed, flags.out, diff ? diff->why : "no plan", "a plan that the file can express",
                 "-o DIR writes plan.json, result.json and job.yaml"};
  if (!diff->differs.empty())
    return Error{ErrorKind::check_failed, flags.out, base::cat("changes that yield a different plan: ", diff->differs),
                 "a file that yields the best plan",
                 "without -o the changes are listed; -o DIR writes plan.json, result.json and job.yaml"};
  files.push_back(flags.out);
  return report::write_file(flags.out, diff->text);
}

void print_improvement(const Context& context, const ImproveFlags& flags, const ImportedJob& imported,
                       const adapt::Improvement& answer, const std::optional<exchange::ConfigurationDiff>& diff) {
  print_either(
      context,
      [&] {
        return to_json(answer, keys_json(imported.configuration, flags.imported.format), plan_schema_of(context),
                       diff ? to_json(*diff) : std::string());
      },
      [&] { return to_text(answer, context.width(), diff ? to_text(*diff, imported.request.name) : std::string()); });
}

int run(Context& context, const ImproveFlags& flags) {
  auto imported = read_imported(context, flags.imported);
  if (!imported) return fail(context, imported.error());
  const auto [strategy, schedule] = exchange::completed_configuration(imported->job, imported->configuration);
  const Strategy asked = exchange::asked_strategy(imported->job, imported->configuration);
  const adapt::PresentConfiguration present{strategy, schedule, plan_of(imported->job, imported->configuration), asked.zero,
                                            asked.overlap};
  const auto answer = adapt::improve(imported->job, present, hooked(context, flags.options));
  clear_progress(context);
  if (!answer) return fail(context, answer.error());
  std::optional<exchange::ConfigurationDiff> diff;
  if (answer->best && answer->best_from != adapt::Improvement::From::present) {
    auto made = exchange::configuration_diff(imported->request, flags.imported.format, imported->job,
                                             answer->present ? &answer->present->plan : nullptr, answer->best->plan);
    if (!made) return fail(context, made.error());
    diff = std::move(*made);
  }
  std::vector<std::string> files;
  if (!flags.out.empty() && answer->best)
    if (Status status = write_out(context, flags, imported->job, *answer, diff, files); !status.ok())
      return fail(context, status.error());
  print_improvement(context, flags, *imported, *answer, diff);
  for (const std::string& file : files)
    if (!context.json) context.out << "wrote " << file << "\n";
  return answer->best ? exit_code_of(context, answer->best->search) : context.interrupted() ? kInterrupted : kInfeasible;
}

}  // namespace

void add_improve_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("improve", "predict what a present configuration costs, and find a better one");
  auto flags = std::make_shared<ImproveFlags>();
  add_imported_flags(*command, "--from,--format", flags->imported);
  command->add_option("--threads", flags->options.threads, "threads of the search; never changes the answer (0: all)")
      ->range(0, 4096)
      ->type_name("N");
  command->add_option("--node-limit", flags->options.node_limit, "simulate at most N configurations (0: no limit)")
      ->non_negative()
      ->type_name("N");
  command
      ->add_option("--time-limit", flags->options.time_limit_s,
                   "stop the search after S seconds; such answers may differ from run to run (0: no limit)")
      ->non_negative()
      ->type_name("S");
  command
      ->add_option("-o,--out", flags->out,
                   "write FILE with the changes; a folder (no extension) also gets the best plan, the present one and the job")
      ->type_name("PATH");
  add_plan_schema_flag(*command, context);
  add_common_flags(*command, context);
  command->callback([&context, flags] { context.exit_code = run(context, *flags); });
}

}  // namespace espalier::cli
