// SPDX-License-Identifier: Apache-2.0
#include "search/leaf_judge.h"

#include <algorithm>
#include <set>

#include "base/invariant.h"
#include "base/parallel.h"
#include "cost/offload.h"
#include "search/pipeline_floor.h"

namespace espalier::search {

LeafVerdict LeafJudge::memory_of(const Configuration& c, Workspace& w, int worker) {
  price_layers(frame_.book, c, w);
  assemble(frame_.book, c, w);
  LeafVerdict v;
  v.judged = true;
  v.peak_bytes = evaluator_.peak_bytes(w.structure, w.costs, worker);
  v.fits = v.peak_bytes <= frame_.book.memory_limit() && cost::host_fits(*frame_.problem.cluster, w.costs);
  return v;
}

std::int64_t LeafJudge::time_of(const Configuration& c, Workspace& w, int worker) {
  const CandidatePlan plan{frame_.problem, frame_.book.context(), c.schedule, &c.strategy, nullptr};
  return evaluator_.iteration_ns(w.structure, w.costs, plan, worker);
}

LeafVerdict LeafJudge::verdict(const Configuration& c, int worker) {
  Workspace& w = work_[static_cast<std::size_t>(worker)];
  LeafVerdict v = memory_of(c, w, worker);
  if (v.fits) v.iteration_ns = time_of(c, w, worker);
  return v;
}

LeafVerdict LeafJudge::verdict(const Leaf& leaf, int worker) {
  if (frame_.beaten(Pruning::bound, leaf.bound_ns)) return {};
  Workspace& w = work_[static_cast<std::size_t>(worker)];
  LeafVerdict v = memory_of(leaf.configuration, w, worker);
  if (!v.fits) return v;
  v.floor_beats = floor_beats(leaf.configuration, w, worker);
  if (v.floor_beats) return v;
  v.iteration_ns = time_of(leaf.configuration, w, worker);
  v.latest_pass_ends = latest_pass_ends(w, v.iteration_ns);
  return v;
}

/// Returns whether the pipeline alone takes longer than the incumbent, and longer than a simulated sibling. A
/// runner-up that may be reported is the fastest of its schedule choice, and keeps its simulated time.
bool LeafJudge::floor_beats(const Configuration& c, Workspace& w, int worker) {
  if (!frame_.out.pruning.enabled(Pruning::pipeline_floor) || frame_.options.preference || !frame_.out.best) return false;
  const auto sibling = fastest_.find(schedule_choice_of(c));
  const auto timed = timed_pipelines_.find(pipeline_of(c));
  const bool alone = frame_.options.carried != nullptr;
  if ((sibling == fastest_.end() && !alone) || timed == timed_pipelines_.end()) return false;
  const auto beats = [&](std::int64_t floor) { return frame_.exceeds(floor) && (alone || sibling->second < floor); };
  return beats(floor_of_ends(w, timed->second)) && beats(pipeline_floor_ns(evaluator_, w, worker));
}

void LeafJudge::take(const Leaf& leaf, const LeafVerdict& v) {
  if (!v.judged) {
    frame_.out.pruning.count(Pruning::bound, 1);
  } else if (!v.fits) {
    frame_.out.pruning.count(Pruning::memory, 1);
  } else if (v.floor_beats) {
    frame_.out.pruning.count(Pruning::pipeline_floor, 1);
  } else {
    ESPALIER_CHECK(frame_.options.preference || leaf.bound_ns <= v.iteration_ns);  // the certificate relies on this
    ++frame_.out.simulations;
    const Candidate found{leaf.configuration, v.iteration_ns, v.peak_bytes};
    frame_.out.simulated.push_back(found);
    frame_.improve(found);
    const auto [at, is_new] = fastest_.try_emplace(schedule_choice_of(found.configuration), v.iteration_ns);
    at->second = std::min(at->second, v.iteration_ns);
    note_pipeline(found.configuration, v.latest_pass_ends);
  }
}

void LeafJudge::note_pipeline(const Configuration& c, const std::vector<std::int64_t>& latest_ends) {
  const auto [at, is_new] = timed_pipelines_.try_emplace(pipeline_of(c), latest_ends);
  for (std::size_t i = 0; i < latest_ends.size(); ++i) at->second[i] = std::min(at->second[i], latest_ends[i]);
}

void LeafJudge::judge_all(const std::vector<const Leaf*>& leaves) {
  std::vector<LeafVerdict> verdicts(leaves.size());
  base::parallel_for(leaves.size(), static_cast<int>(work_.size()), 1,
                     [&](std::size_t i, int worker) { verdicts[i] = verdict(*leaves[i], worker); });
  for (std::size_t i = 0; i < leaves.size(); ++i) take(*leaves[i], verdicts[i]);
}

void LeafJudge::judge(const std::vector<Leaf>& leaves, std::size_t begin, std::size_t end) {
  std::vector<const Leaf*> first, others;
  std::set<Configuration, ByText> met;
  for (std::size_t i = begin; i < end; ++i) {
    const Configuration pipeline = pipeline_of(leaves[i].configuration);
    const bool is_new = !timed_pipelines_.contains(pipeline) && met.insert(pipeline).second;
    (is_new ? first : others).push_back(&leaves[i]);
  }
  judge_all(first);
  judge_all(others);
}

}  // namespace espalier::search
