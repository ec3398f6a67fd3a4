// SPDX-License-Identifier: Apache-2.0
// Checks structure, rules, program and claims in this order. A part is checked only if everything it relies on
// passed.
#include "check/check.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "check/arithmetic.h"
#include "check/claims.h"
#include "check/configuration_rules.h"
#include "check/own_cluster.h"
#include "check/payload.h"
#include "check/pipelines.h"
#include "check/plan_structure.h"
#include "check/program_check.h"
#include "check/rank_kinds.h"
#include "check/verdict.h"
#include "check/view.h"
#include "plan/engine.h"

namespace espalier {

bool CheckReport::ok() const {
  return !findings.empty() && std::all_of(findings.begin(), findings.end(), [](const Finding& f) { return f.ok; });
}

}  // namespace espalier

namespace espalier::check {
namespace {

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

/// Appends the findings about one pipeline and puts the pipeline's number in front of their texts.
void append_of(CheckReport& all, std::size_t pipeline, CheckReport more) {
  for (Finding& finding : more.findings) finding.text = say("pipeline ", pipeline, ": ", finding.text);
  append(all.findings, std::move(more.findings));
}

/// Checks structure and rules of a plan with one pipeline.
CheckReport check_one_sound(const Plan& plan, const Model& model, const Cluster& cluster, PlanPart part,
                            const EngineModel* engine) {
  CheckReport report{check_structure(plan, model, cluster, part)};
  if (report.ok()) append(report.findings, check_rules(make_view(plan, model, cluster, part, engine)));
  return report;
}

/// Checks a plan with one pipeline. `part` states whether it belongs to a plan with several, whose claims about the
/// step are checked jointly.
CheckReport check_one(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program, const Claims* claims,
                      PlanPart part, const EngineModel* engine) {
  CheckReport report = check_one_sound(plan, model, cluster, part, engine);
  if (!report.ok()) return report;
  const View view = make_view(plan, model, cluster, part, engine);
  ProgramCheck checked = check_program(view, program);
  const bool tables = !checked.findings.empty() && checked.findings.front().ok;  // findings.front() is program-shape
  append(report.findings, std::move(checked.findings));
  if (tables) append(report.findings, check_payload(view, program));
  if (claims == nullptr) return report;
  const bool kinds = !view.group_of_stage.empty() && has_rank_kinds(*view.pipeline, cluster);
  append(report.findings, kinds ? check_claims_of_kinds(view, program, checked.readable, *claims)
                                : check_claims(view, program, checked.readable, *claims));
  return report;
}

/// Checks every pipeline by itself, then the conditions that hold between them.
CheckReport check_several(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program,
                          const Claims* claims, const EngineModel* engine) {
  CheckReport report{check_pipelines(plan, cluster)};
  report.findings.push_back(check_parts(plan, program));
  if (!report.ok()) return report;
  for (std::size_t k = 0; const Plan& own : plans_alone(plan)) {
    const Program part = part_of(program, k);
    const std::optional<Claims> said = claims == nullptr ? std::nullopt : std::optional(part_of(*claims, plan, k));
    CheckReport of_part = check_one(own, model, cluster, part, said ? &*said : nullptr, PlanPart::of_several, engine);
    append_of(report, k++, std::move(of_part));
  }
  if (!report.ok()) return report;
  report.findings.push_back(check_meetings(plan, program));
  if (claims != nullptr && report.ok())
    append(report.findings, check_claims_of_several(plan, model, cluster, program, *claims, engine));
  return report;
}

}  // namespace

CheckReport check_sound(const Plan& plan, const Model& model, const Cluster& cluster, const EngineModel* engine) {
  if (plan.pipelines.size() == 1) return check_one_sound(plan, model, cluster, PlanPart::whole, engine);
  CheckReport report{check_pipelines(plan, cluster)};
  for (std::size_t k = 0; const Plan& own : plans_alone(plan))
    if (report.ok()) append_of(report, k++, check_one_sound(own, model, cluster, PlanPart::of_several, engine));
  return report;
}

CheckReport check_plan(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program, const Claims* claims,
                       const EngineModel* engine) {
  if (const auto own = own_cluster(plan, cluster))
    return check_one(own->plan, model, own->cluster, counted_from(program, own->first), claims, PlanPart::whole, engine);
  if (plan.pipelines.size() == 1) return check_one(plan, model, cluster, program, claims, PlanPart::whole, engine);
  return check_several(plan, model, cluster, program, claims, engine);
}

}  // namespace espalier::check
