// SPDX-License-Identifier: Apache-2.0
#include "search/group_judge.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/bound.h"
#include "cost/offload.h"
#include "search/layered_candidate.h"
#include "search/layered_rules.h"
#include "search/plan_prints.h"

namespace espalier::search {

bool GroupJudge::over() {
  const bool spent = patience_.budget > 0 && static_cast<std::int64_t>(result_.simulated.size()) >= patience_.budget;
  if (spent || (patience_.stop && patience_.stop())) result_.complete = false;
  return !result_.complete;
}

std::vector<Overlap> GroupJudge::overlaps() const {
  const SearchSpace& space = tools_.problem.space;
  const auto may = [&](Dimension dimension, int value) { return space.admits(dimension, value); };
  const bool named = space.allowed.count(Dimension::overlap_tp) > 0 || space.forbidden.count(Dimension::overlap_tp) > 0;
  std::vector<Overlap> all;
  for (const int tp : {1, 0}) {
    if (named ? !may(Dimension::overlap_tp, tp) : tp == 1) continue;
    for (const int p2p : {1, 0}) {
      if (tools_.group.stages == 1 ? p2p == 1 : !may(Dimension::overlap_p2p, p2p)) continue;
      for (const int grad : {1, 0})
        for (const int param : {1, 0})
          if (may(Dimension::overlap_grad, grad) && may(Dimension::overlap_param, param))
            all.push_back({grad == 1, param == 1, p2p == 1, tp == 1});
    }
  }
  return all;
}

std::vector<std::int64_t> GroupJudge::judge(const Schedule& schedule, const Assignment& a, const std::vector<Overlap>& overlaps) {
  const GroupTools& t = tools_;
  const Model& model = *t.problem.model;
  ESPALIER_CHECK(a.options.size() == model.layers.size() && schedule.stages == t.group.stages);
  std::vector<std::int64_t> excess(static_cast<std::size_t>(t.group.stages), 0);
  ProgramStructure structure;
  cost::Costs costs;
  last_ = std::numeric_limits<double>::infinity();
  for (const Overlap& overlap : overlaps) {
    if (over()) return excess;
    LayeredCandidate c;
    c.options = a.options;
    c.configuration = layered_configuration(model, t.table, schedule, t.group.samples, a.first, a.options, overlap);
    if (!layered_fault(model, t.space, c.configuration).empty()) continue;
    assemble(t.book.context(), c.configuration, t.group.samples, structure, costs);
    ESPALIER_CHECK(costs.fits(structure));
    const std::vector<std::int64_t> now = excess_bytes(structure, costs);
    if (*std::max_element(now.begin(), now.end()) > 0) {
      excess = now;
      continue;
    }
    c.peak_bytes = t.evaluator.peak_bytes(structure, costs, t.worker);
    if (c.peak_bytes > t.book.memory_limit()) continue;
    if (!cost::host_fits(*t.problem.cluster, costs)) {
      hosts_lacked_ = true;
      continue;
    }
    const CandidatePlan plan{t.problem, t.book.context(), c.configuration.schedule, nullptr, &c.configuration.chunks};
    c.iteration_ns = t.evaluator.iteration_ns(structure, costs, plan, t.worker);
    result_.simulated.push_back(print_of(model, c.configuration));
    const auto ns = static_cast<double>(c.iteration_ns);
    if (ns < last_) {
      last_ = ns;
      last_overlap_ = overlap;
    }
    if (ns >= best_) continue;
    best_ = ns;
    ESPALIER_CHECK(c.iteration_ns > 0 && c.peak_bytes <= t.book.memory_limit());
    result_.candidates.push_back(std::move(c));
  }
  return excess;
}

std::vector<std::int64_t> GroupJudge::excess_bytes(const ProgramStructure& structure, const cost::Costs& costs) {
  const std::int64_t limit = tools_.book.memory_limit();
  const Schedule& s = structure.schedule;
  const bool exact = s.kind == ScheduleKind::one_f_one_b;  // the bound of activations is the peak
  std::int64_t fullest = 0;
  if (!exact) fullest = tools_.evaluator.peak_bytes(structure, costs, tools_.worker);
  std::vector<std::int64_t> excess;
  for (std::int32_t i = 0; i < s.stages; ++i) {
    const std::int64_t peak =
        exact ? cost::peak_bytes(costs.stages[StageId(static_cast<std::int32_t>(i))].memory.total(),
                                 cost::activations_lower_bound_bytes(costs, structure, i), costs.allocator_reserve)
              : fullest;
    const double reserve = 1.0 + costs.allocator_reserve;
    excess.push_back(peak <= limit ? 0 : static_cast<std::int64_t>(static_cast<double>(peak - limit) / reserve) + 2);
  }
  return excess;
}

}  // namespace espalier::search
