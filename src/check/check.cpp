// SPDX-License-Identifier: Apache-2.0
// Structure, rules, program, claims: each part is checked only when what it stands on was found sound.
#include "check/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "check/claims.h"
#include "check/payload.h"
#include "check/program_check.h"
#include "check/rules.h"
#include "check/structure.h"
#include "check/view.h"

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

}  // namespace

CheckReport check_plan(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program,
                       const Claims* claims) {
  CheckReport report{check_structure(plan, model, cluster)};
  if (!report.ok()) return report;
  const View view = make_view(plan, model, cluster);
  append(report.findings, check_rules(view));
  if (!report.ok()) return report;
  ProgramCheck checked = check_program(view, program);
  const bool tables = !checked.findings.empty() && checked.findings.front().ok;  // the program's shape
  append(report.findings, std::move(checked.findings));
  if (tables) append(report.findings, check_payload(view, program));
  if (claims != nullptr) append(report.findings, check_claims(view, program, checked.readable, *claims));
  return report;
}

}  // namespace espalier::check
