// SPDX-License-Identifier: Apache-2.0
#include "report/beside_check.h"

#include <cmath>

#include "base/format.h"
#include "check/verdict.h"
#include "espalier/engines.h"
#include "planner/memory_margin.h"

namespace espalier::report {
namespace {

using check::say;
using check::Verdict;

/// Returns whether `ratio` is a / b − 1.
bool follows(double ratio, std::int64_t a, std::int64_t b) {
  return b > 0 && std::abs(ratio - (static_cast<double>(a) / static_cast<double>(b) - 1)) <= 1e-12 * (1 + std::abs(ratio));
}

void check_losses(const PlannerResult& r, Verdict& v) {
  const std::int64_t time = r.prediction.iteration_ns;
  const auto engine = [&](const EngineAnswer& e) {
    const bool none = e.label.empty() && e.iteration_ns == 0 && e.loss == 0;
    v.require(none || follows(e.loss, e.iteration_ns, time),
              [&] { return say(e.engine, ": a loss of ", e.loss, ", and a step of ", e.iteration_ns, " ns"); });
  };
  if (r.search.asked.simple) return;  // the answer is the simplest plan, losses are those of the fastest
  if (r.runnable) engine(*r.runnable);
  for (const EngineAnswer& e : r.engines) engine(e);
  if (r.simplest)
    v.require(follows(r.simplest->loss, r.simplest->iteration_ns, time) && r.simplest->loss <= r.simplest->within + 1e-9,
              [&] { return say("simplest: a loss of ", r.simplest->loss, ", and a step of ", r.simplest->iteration_ns, " ns"); });
  for (const OptionAnswer& o : r.options)
    v.require(follows(-o.gain, o.iteration_ns, time) && o.options.size() == o.losses.size(),
              [&] { return say(o.engine, ": a gain of ", o.gain, ", and a step of ", o.iteration_ns, " ns"); });
  if (r.restriction && !r.restriction->label.empty())
    v.require(follows(r.restriction->price, time, r.restriction->iteration_ns), [&] {
      return say("restriction: a price of ", r.restriction->price, ", and a step of ", r.restriction->iteration_ns, " ns");
    });
}

}  // namespace

std::vector<Finding> check_beside(const Job& job, const PlannerResult& r) {
  std::vector<Finding> out;
  Verdict beside("beside");
  if (r.runs_on) {
    const std::vector<std::string> found = engines_that_run(job, r.plan);
    beside.require(*r.runs_on == found, [&] {
      return say("runs_on: claimed ", base::joined(*r.runs_on), "; engines that accept the plan: ", base::joined(found));
    });
  }
  check_losses(r, beside);
  out.push_back(beside.finding("runs_on and losses agree with the plan"));
  if (!searched(r.search.reason)) return out;
  Verdict margin("memory-margin");
  const planner::MemoryMargin found = planner::memory_margin_of(job);
  margin.require(r.search.memory_margin == found.share && r.search.memory_margin_basis == found.basis, [&] {
    return say("claimed ", r.search.memory_margin, " (", r.search.memory_margin_basis, "), derived ", found.share, " (",
               found.basis, ")");
  });
  out.push_back(margin.finding("the margin of the search equals that of the job"));
  return out;
}

}  // namespace espalier::report
