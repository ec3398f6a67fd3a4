// SPDX-License-Identifier: Apache-2.0
// Implements check_plan and check_result: the independent check, the summaries of the inputs, the rules of the
// engine, and the figures of a result.
#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "check/check.h"
#include "cost/cluster_costs.h"
#include "espalier/check.h"
#include "espalier/engines.h"
#include "plan/engine.h"
#include "plan/engine_faults.h"
#include "plan/program.h"
#include "planner/legality.h"
#include "planner/plan_claims.h"
#include "planner/runs_on.h"
#include "report/brief_text.h"
#include "report/change_check.h"
#include "report/result_check.h"

namespace espalier::report {
namespace {

/// Compares the planner's claims about the plan with those derived by check/. Predictions that fail are a finding,
/// not an abort.
CheckReport check_against_claims(const Job& job, const Plan& plan) {
  const auto claims = planner::claims_of(job, plan);
  const Program program = lower(plan, job.model, true);
  CheckReport report =
      check::check_plan(plan, job.model, job.cluster, program, claims ? &*claims : nullptr, job.engine_model.get());
  if (!claims) report.findings.push_back({"claims", false, claims.error().message()});
  return report;
}

/// Returns whether the only fault is the order in which stages list devices. Such plans have no price and are
/// rejected by name.
bool placed_unevenly(const CheckReport& report) {
  return std::all_of(report.findings.begin(), report.findings.end(),
                     [](const Finding& f) { return f.ok || f.name == "device-order"; });
}

/// Returns where the rule is described.
std::string anchor_of(const std::string& id) { return "docs/engine-rules.md#" + base::lower(id); }

void add_engine_findings(const EngineModel& engine, const Job& job, const Plan& plan, CheckReport& report) {
  const std::size_t before = report.findings.size();
  for (const RuleViolation& v : engine_faults(engine, job.model, job.cluster, job.training, plan))
    report.findings.push_back(
        {v.rule, false, base::cat(v.text, v.hint.empty() ? "" : "; ", v.hint, "; see ", anchor_of(v.rule))});
  if (report.findings.size() > before) return;
  report.findings.push_back({"engine", true,
                             planner::has_rules(engine)
                                 ? engine.name + " can run this plan"
                                 : "unknown whether " + engine.name + " can run this plan: Espalier has no rules for it"});
}

/// Returns the engine whose rules are requested; null where the plan names an unknown one.
Result<const EngineModel*> engine_for(const CheckOptions& options, const Plan& plan) {
  if (options.engine.empty()) return find_engine(plan.engine);
  if (const EngineModel* engine = find_engine(options.engine)) return engine;
  const std::vector<std::string> names = engine_names();
  const std::string close = base::suggestion(options.engine, names);
  return Error{ErrorKind::usage, "--engine", base::cat("\"", options.engine, "\""), base::cat("one of ", base::joined(names)),
               close.empty() ? "choose one of these words" : close};
}

void append(CheckReport& report, std::vector<Finding> findings) {
  for (Finding& f : findings) report.findings.push_back(std::move(f));
}

}  // namespace

Result<CheckReport> check_plan(const Job& job, const Plan& plan, const CheckOptions& options) {
  const auto engine = engine_for(options, plan);
  if (!engine) return engine.error();
  // The structure comes first: only a plan of this model on this cluster can be lowered and priced.
  if (Status status = validate(plan); !status.ok()) return CheckReport{{{"structure", false, status.error().message()}}};
  if (Status status = unsupported(plan); !status.ok()) return status.error();
  CheckReport sound = check::check_sound(plan, job.model, job.cluster, job.engine_model.get());
  if (!sound.ok() && !placed_unevenly(sound)) return sound;
  if (!cost::on_unlike_devices(plan, job.cluster))
    if (Status status = unpriced_placement(plan, job.model, job.cluster); !status.ok()) return status.error();
  if (!sound.ok()) return sound;
  CheckReport report = check_against_claims(job, plan);
  report.findings.insert(report.findings.begin(), check_summaries(job, plan));
  if (*engine != nullptr) add_engine_findings(**engine, job, plan, report);
  return report;
}

Result<CheckReport> check_result(const Job& job, const PlannerResult& claimed, std::string_view text,
                                 const CheckOptions& options) {
  auto report = check_plan(job, claimed.plan, options);
  if (!report || !validate(claimed.plan).ok()) return report;
  // An unsound plan has no figures to compare with.
  if (!check::check_sound(claimed.plan, job.model, job.cluster, job.engine_model.get()).ok()) return report;
  append(*report, check_result(text, job, claimed));
  const bool ours = claimed.made_by == this_build();
  if (options.search_again && ours) append(*report, check_search(text, job, claimed, options.how));
  return report;
}

std::string to_json(const CheckReport& report, const std::string& name) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.check/1");
  w.key("plan").value(name);
  w.key("ok").value(report.ok());
  w.key("findings").begin_array();
  for (const Finding& f : report.findings) {
    w.compact_next().begin_object();
    w.key("name").value(f.name);
    w.key("ok").value(f.ok);
    w.key("text").value(f.text);
    w.end_object();
  }
  w.end_array();
  w.key("not_verified").compact_next().begin_array();
  for (const std::string& what : report.not_verified) w.value(what);
  w.end_array();
  w.end_object();
  return w.text();
}

bool is_answer_to_change(std::string_view text) { return is_change_document(text); }

Result<CheckReport> check_answer_to_change(std::string_view text, const std::string& where) {
  const auto claimed = read_claims(text, where);
  if (!claimed) return claimed.error();
  auto findings = check_change(*claimed);
  if (!findings) return findings.error();
  return CheckReport{std::move(*findings), claimed->not_verified};
}

std::string to_text(const CheckReport& report, const Plan& plan) { return to_text(report, plan.label()); }

std::string to_text(const CheckReport& report, const std::string& title) {
  std::string out = base::cat(title, report.ok() ? ": every check holds\n" : ": CHECKS FAILED\n");
  std::vector<std::vector<std::string>> rows;
  for (const Finding& f : report.findings) rows.push_back({f.ok ? "ok" : "FAILED", f.name, f.text});
  for (const std::string& what : report.not_verified) rows.push_back({"", "not verified", what});
  return out + table(rows, {1, 2});
}

}  // namespace espalier::report
