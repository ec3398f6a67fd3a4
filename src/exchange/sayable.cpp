// SPDX-License-Identifier: Apache-2.0
#include "exchange/sayable.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "exchange/leave_out.h"
#include "plan/engine.h"
#include "planner/runs_on.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr int kMostSteps = 32;  // each removes a fault; no plan breaks so many rules

std::string named(const std::vector<ExportFault>& faults) {
  std::string out;
  for (const ExportFault& f : faults) out += cat(out.empty() ? "" : "; ", f.rule, ": ", f.found);
  return out;
}

std::string rules_of(const std::vector<ExportFault>& faults) {
  std::vector<std::string> names;
  for (const ExportFault& f : faults)
    if (std::find(names.begin(), names.end(), f.rule) == names.end()) names.push_back(f.rule);
  return base::joined(names);
}

std::string legal_values(const std::vector<ExportFault>& faults) {
  std::vector<std::string> values;
  for (const ExportFault& f : faults)
    if (!f.expected.empty() && std::find(values.begin(), values.end(), f.expected) == values.end()) values.push_back(f.expected);
  return base::joined(values, "; ");
}

Error refused(const Exporter& format, const Job& job, const Plan& plan, const std::vector<ExportFault>& faults,
              const std::string& more) {
  const WhoRuns who = who_runs(job, plan);
  const std::string legal = legal_values(faults);
  std::string hint = cat("espalier plan --engine ", format.engine, " finds what it can run; this plan can go to ",
                         who.can.empty() ? "none of the engines" : who.can);
  if (!who.cannot.empty()) hint += cat(", not to ", who.cannot);
  return {ErrorKind::check_failed, "$", named(faults),
          cat("a plan that ", format.engine, " can run and ", format.name, " can say", legal.empty() ? "" : ": ", legal),
          hint + more};
}

/// The plan with one fault left out, and how it reads in the list of what was lost.
bool leave_one_out(const Job& job, const std::vector<ExportFault>& faults, SayablePlan& out) {
  const auto at = std::find_if(faults.begin(), faults.end(), [](const ExportFault& f) { return f.leave_out != nullptr; });
  if (at == faults.end()) return false;
  at->leave_out(job, out.plan);
  out.lost.push_back(cat(at->rule, ": ", at->found, ": written as ", at->instead));
  return true;
}

}  // namespace

std::vector<ExportFault> faults_of(const Exporter& format, const Job& job, const Plan& plan) {
  std::vector<ExportFault> out;
  if (!format.engine.empty()) {
    const EngineModel& engine = *find_engine(format.engine);
    for (const RuleViolation& v : planner::broken_rules(engine, job, plan)) out.push_back(fault_of(engine, job, plan, v));
  }
  if (format.faults != nullptr)
    for (ExportFault& fault : format.faults(job, plan)) out.push_back(std::move(fault));
  return out;
}

Result<SayablePlan> sayable(const Exporter& format, const Job& job, const Plan& plan, bool allow_lossy) {
  SayablePlan out{plan, {}};
  for (int step = 0; step < kMostSteps; ++step) {
    const std::vector<ExportFault> faults = faults_of(format, job, out.plan);
    if (faults.empty()) return out;
    if (!allow_lossy) return refused(format, job, plan, faults, "; --allow-lossy writes what can be said, where something can be left out");
    if (!leave_one_out(job, faults, out)) {
      const std::string more = cat("; --allow-lossy does not help: ", rules_of(faults), " cannot be left out");
      return refused(format, job, plan, faults, more);
    }
  }
  return refused(format, job, plan, faults_of(format, job, plan), "; --allow-lossy does not help");
}

WhoRuns who_runs(const Job& job, const Plan& plan) {
  WhoRuns out;
  for (const Exporter& format : exporters()) {
    if (format.engine.empty()) continue;
    const std::vector<ExportFault> faults = faults_of(format, job, plan);
    std::string& list = faults.empty() ? out.can : out.cannot;
    list += cat(list.empty() ? "" : ", ", format.name, faults.empty() ? "" : cat(" (", rules_of(faults), ")"));
  }
  return out;
}

}  // namespace espalier::exchange
