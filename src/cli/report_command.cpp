// SPDX-License-Identifier: Apache-2.0
// Implements espalier report PLAN.json: the plan as one HTML file that opens anywhere.
#include "base/document.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/search_hooks.h"
#include "espalier/explain.h"
#include "espalier/report.h"

namespace espalier::cli {
namespace {

struct ReportFlags {
  std::string path, out = "report.html", measured;
  bool no_search = false;
  int threads = 0;
  std::optional<double> time_limit_s;
};

/// Returns the result that `plan` wrote about this plan, in the document or next to it, if it is from this build;
/// null without one.
std::unique_ptr<PlannerResult> written(const std::string& path, LoadedPlan& loaded) {
  auto result = std::move(loaded.result);
  if (!result || !searched(result->search.reason)) {
    if (auto beside = result_beside(path, loaded.plan)) result = std::move(beside);
  }
  return result && result->made_by == this_build() ? std::move(result) : nullptr;
}

PlannerOptions options_of(Context& context, const ReportFlags& flags) {
  PlannerOptions options;
  options.threads = flags.threads;
  options.time_limit_s = flags.time_limit_s;
  options.keep_searched = true;
  return hooked(context, options);
}

/// Adds the plans of a search of the same space, as it was requested. Where that search fails, the page has no such
/// plans, and a note gives the reason.
void search_again(Context& context, const ReportFlags& flags, Job job, PlannerResult& result) {
  const SearchRequest& asked = result.search.asked;
  job.search = asked.space;
  PlannerOptions options = options_of(context, flags);
  options.node_limit = asked.node_limit;
  options.disabled_rules = asked.disabled_rules;
  options.left_out_phases = asked.left_out_phases;
  options.exhaustive = asked.exhaustive;
  options.alternatives = 0;
  auto again = plan(job, options);
  clear_progress(context);
  if (!again)
    return note(context,
                "the page shows no other plans of the search, because searching again failed: " + again.error().message());
  result.searched = std::move(again->searched);
}

/// Returns the plan with everything known about it. The job gets the network under which the plan was predicted.
Result<PlannerResult> result_of(Context& context, const ReportFlags& flags, LoadedPlan& loaded, Job& job) {
  if (auto result = written(flags.path, loaded)) {
    if (result->prediction.network) job.network = NetworkKind::flow;
    if (!flags.no_search && searched(result->search.reason)) search_again(context, flags, job, *result);
    return std::move(*result);
  }
  auto result = simulate(job, loaded.plan);
  if (!result || flags.no_search) return result;
  note(context, "no result.json of this build next to the plan: searching the whole space of " + loaded.plan.engine + " again");
  const auto whole = report::job_to_explain(loaded.plan);
  if (!whole) return whole.error();
  auto searched_result = report::with_search(*whole, std::move(*result), options_of(context, flags));
  clear_progress(context);
  return searched_result;
}

Result<std::optional<MeasuredStep>> measured_of(const std::string& path) {
  if (path.empty()) return std::optional<MeasuredStep>();
  const auto text = base::read_file(path);
  if (!text) return text.error();
  auto step = read_measured_step(*text, path);
  if (!step) return step.error();
  return std::optional<MeasuredStep>(std::move(*step));
}

int run_report(Context& context, const ReportFlags& flags) {
  auto loaded = load_plan_file(context, flags.path);
  if (!loaded) return fail(context, loaded.error());
  const auto measured = measured_of(flags.measured);
  if (!measured) return fail(context, measured.error());
  auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, in_file(flags.path, job.error()));
  const auto result = result_of(context, flags, *loaded, *job);
  if (!result) return fail(context, in_file(flags.path, result.error()));
  if (context.interrupted()) return kInterrupted;  // half a search must not pass for a whole one
  note_all(context, result->notes);
  const auto data = report::page_data(*job, *result, *measured ? &**measured : nullptr, {});
  if (!data) return fail(context, in_file(flags.measured.empty() ? flags.path : flags.measured, data.error()));
  constexpr std::size_t kColumns = 110;
  if (context.json) {
    print_json(context, *data);
    return kOk;
  }
  const std::string out = report::file_or_in_folder(flags.out, "report.html");
  if (Status status = report::write_file(out, report::page(*data, result->brief(kColumns))); !status.ok())
    return fail(context, status.error());
  context.out << "wrote " << out << "\n";
  return kOk;
}

}  // namespace

void add_report_command(Command& app, Context& context) {
  Command* command =
      app.add_subcommand("report", "write the plan as one HTML file: figures, timeline, memory, search, cluster, what-if");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("plan", flags->path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
  command->add_option("-o,--out", flags->out, "write the page here")->type_name("FILE")->show_default();
  command
      ->add_option("--timeline", flags->measured,
                   "file that `run --timeline` wrote for this plan: show measured over predicted times")
      ->type_name("STEP.json");
  command->add_flag("--no-search", flags->no_search, "do not search the space again for other simulated plans");
  command->add_option("--threads", flags->threads, "threads of that search")->range(0, 4096)->type_name("N");
  command
      ->add_option("--time-limit", flags->time_limit_s,
                   "stop that search after S seconds: the page shows what it simulated until then (0: no limit)")
      ->non_negative()
      ->type_name("S");
  add_common_flags(*command, context);
  command->callback([&context, flags] { context.exit_code = run_report(context, *flags); });
}

}  // namespace espalier::cli
