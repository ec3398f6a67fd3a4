// SPDX-License-Identifier: Apache-2.0
// Bounds the time of plans with several pipelines, one on each of several node groups, for any split of the samples
// of a step among them (multi_pipeline.h).
//
// Such a plan takes no less than any of its pipelines alone with its own samples, because the gradients are also
// reduced across pipelines. Let r_g(T) be the most samples that a uniform plan on group g, or on some of its nodes,
// trains in time T. A plan that takes T or less has n_g ≤ r_g(T) samples on each group. So no plan is faster than the
// least T with
//   Σ_g r_g(T) ≥ B.
// The reduction of a step's gradients across pipelines takes at least R, because runs of layers queue on a stage. No
// gradient is complete before the forward passes of its pipeline are. Such a plan therefore takes no less than R and
// the forward part of all work.
//
// r_g(T) ≥ n if and only if some uniform plan with n samples or more takes at most T. One branch and bound decides
// this, over micro-batches of every size with the fewest micro-batches that hold n samples (RuleFacts::at_least).
// This suffices since a step with more micro-batches never takes less. Packed samples of unequal lengths are the
// exception: more micro-batches may each take less. For these, r_g is unknown.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "search/search.h"
#include "search/work_bound.h"

namespace espalier::search {

/// Decides whether a group trains a number of samples in a given time. Results are cached; the problem and evaluator
/// must outlive this object.
class GroupReach {
 public:
  GroupReach(const Problem& problem, Evaluator& evaluator, const Options& options);

  /// Returns the most samples that the group trains in `ns`, at most those of the batch. Returns the whole batch
  /// where this is unknown.
  std::int64_t samples(std::size_t group, std::int64_t ns);
  /// Returns the samples of all groups together.
  std::int64_t samples(std::int64_t ns);
  /// Returns whether the results come from branch and bound. False: samples are packed, devices have unequal speed,
  /// or the limit was reached.
  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] std::int64_t simulations() const { return simulations_; }

 private:
  bool trains(std::size_t group, std::int64_t samples, std::int64_t ns);
  bool trains_on(std::size_t group, std::int64_t nodes, std::int64_t samples, std::int64_t ns);

  const Problem& problem_;
  Evaluator& evaluator_;
  const Options& options_;
  const WorkBound work_;
  bool known_ = true;
  std::int64_t choices_ = 0, simulations_ = 0;
  /// Holds by group and samples a time that is too short, and one that is enough.
  std::map<std::pair<std::size_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>> times_;
};

/// Returns R: the least time, over pairs of groups, of an all-reduce of two members. A rank reduces its part of all
/// trained parameters, at least the share of a device of the smaller group, over the link between the groups at full
/// rate. If less, R is the time in which all bytes leave the nodes of each side once (cost/scattered_stages.h). Over
/// named links the slower side counts, each device at the most that links and interfaces give one. Only the cost that
/// grows with the bytes counts.
std::int64_t meeting_floor_ns(const Problem& problem);
/// Returns a bound of plans of two or more pipelines: the larger of all work, and R plus the forward part of it.
std::int64_t pipelines_floor_ns(const Problem& problem);

/// Returns the least T in (low, high] at which `samples(T)` reaches the batch, to the resolution of kSplitRounds
/// halvings. Returns `high` if no lower T reaches it.
std::int64_t least_time(std::int64_t low, std::int64_t high, std::int64_t batch,
                        const std::function<std::int64_t(std::int64_t)>& samples);

/// Returns a time that no plan of two or more pipelines beats; at most `best_ns`.
std::int64_t splits_bound_ns(const Problem& problem, GroupReach& reach, std::int64_t best_ns);
std::int64_t splits_bound_ns(const Problem& problem, Evaluator& evaluator, std::int64_t best_ns, const Options& options);

}  // namespace espalier::search
