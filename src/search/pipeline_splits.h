// SPDX-License-Identifier: Apache-2.0
// The least time of plans with several pipelines, one on each of several node groups, however the samples of a step are
// split among them (multi_pipeline.h).
//
// Such a plan takes no less than any of its pipelines alone with its own samples, because the gradients also meet
// between pipelines. Let r_g(T) be the most samples that a uniform plan on group g, or on some of its nodes, trains in
// time T. A plan that takes T or less has n_g ≤ r_g(T) samples on each group, so that no plan is faster than the least
// T with
//     Σ_g r_g(T) ≥ B.
// The gradients of a step take at least R to meet, one run of layers after another on the queue of a stage. None of
// them is complete before the forward passes of its pipeline are, so that such a plan takes no less than R and the
// forward part of all work.
//
// r_g(T) ≥ n if and only if some uniform plan with n samples or more takes at most T. One branch and bound answers
// that: over micro-batches of every size with the fewest micro-batches that hold n samples (RuleFacts::at_least), since
// a step with more micro-batches never takes less. (Packed samples of unequal lengths are the exception: a micro-batch
// takes less where there are more of them. Nothing is known of those.)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "search/search.h"
#include "search/work_bound.h"

namespace espalier::search {

/// Whether a group trains so many samples in a time. Remembers what it was asked; the problem and evaluator live
/// longer.
class GroupReach {
 public:
  GroupReach(const Problem& problem, Evaluator& evaluator, const Options& options);

  /// Most samples of a step, at most those of the batch, that the group trains in `ns`; the whole batch where that is
  /// not known.
  std::int64_t samples(std::size_t group, std::int64_t ns);
  /// Of all groups together.
  std::int64_t samples(std::int64_t ns);
  /// Whether the answers are those of branch and bound; false: packed samples, or devices of unequal speed, or the
  /// limit was reached.
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
  /// By group and samples: a time that is too short, and one that is enough.
  std::map<std::pair<std::size_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>> times_;
};

/// R: the least over pairs of groups of an all-reduce of two members. A rank answers for its part of all trained
/// parameters, at least the share of a device of the smaller group, over the link between the groups at full rate, or
/// where that is less, all bytes leave the nodes of each side once (cost/scattered_stages.h); over named links the
/// slower side counts, each device at the most that links and interfaces give one. Only what grows with the bytes
/// counts.
std::int64_t meeting_floor_ns(const Problem& problem);
/// No plan of two or more pipelines takes less than all work, nor than R and the forward part of it.
std::int64_t pipelines_floor_ns(const Problem& problem);

/// The least T in (low, high], to the nearest of kSplitRounds halvings below, at which `samples(T)` reaches the batch;
/// `high` where it does not below.
std::int64_t least_time(std::int64_t low, std::int64_t high, std::int64_t batch,
                        const std::function<std::int64_t(std::int64_t)>& samples);

/// No plan of two or more pipelines takes less; at most `best_ns`.
std::int64_t splits_bound_ns(const Problem& problem, GroupReach& reach, std::int64_t best_ns);
std::int64_t splits_bound_ns(const Problem& problem, Evaluator& evaluator, std::int64_t best_ns, const Options& options);

}  // namespace espalier::search
