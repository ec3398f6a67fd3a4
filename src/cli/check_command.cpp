// SPDX-License-Identifier: Apache-2.0
// espalier check PLAN.json: the plan verified again from its embedded inputs by code that shares nothing with the search; with
// --engine, that engine's rules by name.
#include <set>

#include "base/document.h"
#include "cli/command.h"
#include "plan/engine.h"
#include "plan/program.h"
#include "planner/brief_text.h"
#include "planner/claims.h"
#include "planner/reasons.h"

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

/// Each distinct strategy against the engine's rules, as if all layers had it; and whether the engine runs several at all.
void add_engine_findings(const EngineModel& engine, const Job& job, const Plan& plan, check::Report& report) {
  const std::size_t before = report.findings.size();
  const bool uniform = plan.uniform();
  if (!uniform) {
    if (const Status refused = layerwise_engine(engine))
      report.findings.push_back({"layer-wise", false, engine.name + " runs one strategy for all layers"});
  }
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
  if (report.findings.size() == before) report.findings.push_back({"engine", true, engine.name + " can run this plan"});
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
  std::string out = text::cat(plan.label(), report.ok() ? ": every check holds\n" : ": CHECKS FAILED\n");
  std::vector<std::vector<std::string>> rows;
  for (const check::Finding& f : report.findings) rows.push_back({f.ok ? "ok" : "FAILED", f.name, f.text});
  return out + text::table(rows, {1, 2});
}

const EngineModel* engine_by_name(const std::string& name, Status& error) {
  if (const EngineModel* engine = find_engine(name)) return engine;
  std::vector<std::string> names;
  for (const EngineModel& e : engine_catalogue()) names.push_back(e.name);
  std::string list;
  for (const std::string& n : names) list.append(list.empty() ? "" : ", ").append(n);
  const auto close = base::did_you_mean(name, names);
  error = Error{ErrorKind::usage, "--engine", text::cat("\"", name, "\""), text::cat("one of ", list),
                close ? text::cat("did you mean ", *close) : ""};
  return nullptr;
}

int run_check(Context& context, const std::string& path, const std::string& engine_name) {
  Status usage;
  const EngineModel* engine = engine_name.empty() ? nullptr : engine_by_name(engine_name, usage);
  if (usage) return fail(context, *usage);
  auto loaded = load_plan_file(path);
  if (!loaded) return fail(context, loaded.error());
  auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, job.error());
  check::Report report;
  if (Status broken = validate(loaded->plan))
    report.findings.push_back({"structure", false, broken->message()});
  else
    report = check_against_claims(*job, loaded->plan);
  if (engine && report.findings.front().name != "structure") add_engine_findings(*engine, *job, loaded->plan, report);
  if (context.json)
    print_json(context, report_json(path, report));
  else
    print_answer(context, report_text(loaded->plan, report));
  return report.ok() ? kOk : kCheckFailed;
}

}  // namespace

void add_check_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("check", "re-verify a plan; with an engine, check that engine's rules by name");
  auto path = std::make_shared<std::string>();
  auto engine = std::make_shared<std::string>();
  command->add_option("plan", *path, "plan.json or result.json")->required()->type_name("PLAN.json");
  command->add_option("--engine", *engine, "check this engine's rules")->type_name("NAME");
  add_common_flags(*command, context);
  command->callback([&context, path, engine] { context.exit_code = run_check(context, *path, *engine); });
}

}  // namespace espalier::cli
