// SPDX-License-Identifier: Apache-2.0
// espalier check FILE: a plan verified again from its embedded inputs by code that shares nothing with the search, and its engine's rules
// (or those of --engine) by name. Of a result.json every figure too; with --search the search is run again and compared.
#include <set>

#include "base/document.h"
#include "base/format.h"
#include "cli/command.h"
#include "plan/engine.h"
#include "plan/program.h"
#include "planner/claims.h"
#include "planner/legality.h"
#include "planner/runs_on.h"
#include "report/brief_text.h"
#include "report/result_check.h"

namespace espalier::cli {
namespace {

/// What the planner says about the plan, re-derived by check/. Predictions that fail are a finding, not an abort.
check::Report check_against_claims(const Job& job, const Plan& plan) {
  const auto claims = claims_of(job, plan);
  const Program program = lower(plan, job.model, true);
  check::Report report = check::check_plan(plan, job.model, job.cluster, program, claims ? &*claims : nullptr);
  if (!claims) report.findings.push_back({"claims", false, claims.error().message()});
  return report;
}

/// The schedule as the rules of a uniform plan see it: a layer-wise plan's micro-batch is that of its first layers.
Schedule schedule_of(const Plan& plan, const Strategy& s) {
  Schedule schedule = plan.schedule;
  if (!plan.uniform()) schedule.micro_batch = static_cast<std::int32_t>(plan.samples_per_microbatch() / s.dp);
  return schedule;
}

/// Each distinct strategy against the engine's rules, as if all layers had it; and whether layers may differ in what they do.
void add_engine_findings(const EngineModel& engine, const Job& job, const Plan& plan, check::Report& report) {
  const std::size_t before = report.findings.size();
  const bool uniform = plan.uniform();
  for (const RuleViolation& v : engine_plan_violations(engine, job.model, plan))
    report.findings.push_back({v.rule, false, v.text});
  std::vector<Strategy> strategies{plan.strategy()};
  if (!uniform) {
    strategies.clear();
    for (const StrategyCount& c : strategy_counts(plan)) strategies.push_back(c.strategy);
  }
  std::set<std::string> known;
  for (const Strategy& s : strategies) {
    const std::string whose = uniform ? "" : label(s) + ": ";
    for (const RuleViolation& v : engine_violations(engine, job.model, job.cluster, job.training, s, schedule_of(plan, s))) {
      const std::string sentence = v.hint.empty() ? v.text : v.text + "; " + v.hint;
      if (known.insert(v.rule + sentence).second) report.findings.push_back({v.rule, false, whose + sentence});
    }
  }
  if (report.findings.size() > before) return;
  report.findings.push_back({"engine", true,
                             has_rules(engine)
                                 ? engine.name + " can run this plan"
                                 : "unknown whether " + engine.name + " can run this plan: Espalier has no rules of it"});
}

std::string report_json(const std::string& path, const check::Report& report) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.check/1");
  w.key("plan").value(path);
  w.key("ok").value(report.ok());
  w.key("findings").begin_array();
  for (const check::Finding& f : report.findings) {
    w.compact_next().begin_object();
    w.key("name").value(f.name);
    w.key("ok").value(f.ok);
    w.key("text").value(f.text);
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

std::string report_text(const Plan& plan, const check::Report& report) {
  std::string out = base::cat(plan.label(), report.ok() ? ": every check holds\n" : ": CHECKS FAILED\n");
  std::vector<std::vector<std::string>> rows;
  for (const check::Finding& f : report.findings) rows.push_back({f.ok ? "ok" : "FAILED", f.name, f.text});
  return out + report::table(rows, {1, 2});
}

const EngineModel* engine_by_name(const std::string& name, Status& error) {
  if (const EngineModel* engine = find_engine(name)) return engine;
  std::vector<std::string> names;
  for (const EngineModel& e : engine_catalogue()) names.push_back(e.name);
  std::string list;
  for (const std::string& n : names) list.append(list.empty() ? "" : ", ").append(n);
  const std::string close = base::suggestion(name, names);
  error = Error{ErrorKind::usage, "--engine", base::cat("\"", name, "\""), base::cat("one of ", list),
                close.empty() ? "choose one of these words" : close};
  return nullptr;
}

struct CheckFlags {
  std::string path, engine;
  bool search = false;
};

void append(check::Report& report, std::vector<check::Finding> findings) {
  for (check::Finding& f : findings) report.findings.push_back(std::move(f));
}

/// What a result says beside its plan. The figures of another build are not compared.
void check_figures(Context& context, const CheckFlags& flags, const Job& job, const LoadedPlan& loaded, check::Report& report) {
  append(report, report::check_result(loaded.text, job, *loaded.result));
  const bool ours = loaded.result->made_by == this_build();
  if (!flags.search || !ours) return;
  PlannerOptions how;
  how.interrupted = context.surroundings.interrupted;
  append(report, report::check_search(loaded.text, job, *loaded.result, how));
}

int run_check(Context& context, const CheckFlags& flags) {
  Status usage;
  const EngineModel* engine = flags.engine.empty() ? nullptr : engine_by_name(flags.engine, usage);
  if (usage) return fail(context, *usage);
  auto loaded = load_plan_file(context, flags.path);
  if (!loaded) return fail(context, loaded.error());
  if (flags.search && !loaded->result)
    return fail(context,
                {ErrorKind::usage, "--search", flags.path + ", a plan", "a result.json: a plan says nothing of a search", ""});
  const Plan& plan = loaded->plan;
  auto job = job_of_plan(plan);
  if (!job) return fail(context, job.error());
  note_all(context, job->notes);
  check::Report report;
  if (Status broken = validate(plan)) {
    report.findings.push_back({"structure", false, broken->message()});
  } else {
    if (engine == nullptr) engine = find_engine(plan.engine);
    report = check_against_claims(*job, plan);
    report.findings.insert(report.findings.begin(), report::check_summaries(*job, plan));
    if (engine != nullptr) add_engine_findings(*engine, *job, plan, report);
    if (loaded->result) check_figures(context, flags, *job, *loaded, report);
  }
  if (context.json)
    print_json(context, report_json(flags.path, report));
  else
    print_answer(context, report_text(plan, report));
  return context.interrupted() ? kInterrupted : report.ok() ? kOk : kCheckFailed;
}

}  // namespace

void add_check_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("check", "re-verify a plan or a result, and the rules of its engine or of another");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("plan", flags->path, "plan.json or result.json; - for stdin")->required()->type_name("FILE");
  command->add_option("--engine", flags->engine, "check this engine's rules (default: the plan's own)")->type_name("NAME");
  command->add_flag("--search", flags->search, "of a result.json: search again and compare");
  add_common_flags(*command, context);
  command->callback([&context, flags] { context.exit_code = run_check(context, *flags); });
}

}  // namespace espalier::cli
