// SPDX-License-Identifier: Apache-2.0
// Represents the uniform space as a tree: each dimension's values depend on the dimensions chosen before it.
//
// A configuration is legal iff it breaks no rule of plan/rules.h, the job's search section admits every value, and
// the engine can run it. The tree chooses dimensions group by group. A rule is applied at the first group where all
// dimensions it reads are known:
//   layer group      tp cp pp dp sp cp_kind ep etp order overlap_tp offload micro_batch. It decides the time of a
//                    layer. Where partitions are offered, it holds one of them or none, and where the job allows
//                    sets of recomputed modules, one of those or none.
//   schedule group   schedule vpp. It decides bubbles and chunks.
//   shard group      zero shard. It decides static memory and gradient traffic.
//   overlap group    overlap_grad overlap_param overlap_p2p
//   recompute group  recompute recompute_layers, unless the layer group chose modules.
// Within the layer group, only pp, micro-batches and data ranks affect which values of the last four groups are
// legal. For engines with rules of their own, the schedule and tp, cp, sp, ep and offload matter as well. Leaves are
// therefore counted as products, which tests compare with plain enumeration.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/plan.h"
#include "espalier/search_space.h"
#include "plan/engine_fwd.h"
#include "plan/engine_rules.h"
#include "plan/rules.h"

namespace espalier::search {

struct Configuration {
  Strategy strategy;
  Schedule schedule;
  bool operator==(const Configuration&) const = default;
};
/// Orders configurations by canonical text.
inline bool canonical_less(const Configuration& a, const Configuration& b) {
  return canonical_compare(a.strategy, a.schedule, b.strategy, b.schedule) < 0;
}

/// Applies the choice of an overlap group; overlap.tp keeps the value of the layer group.
inline void take_overlap(const Overlap& choice, Strategy& s) {
  const bool tp = s.overlap.tp;
  s.overlap = choice;
  s.overlap.tp = tp;
}

/// Holds the operator partitions offered for one (tp, samples of a micro-batch in the tensor group); see
/// partition_choices.h.
struct PartitionOffer {
  std::vector<BlockPartition> partitions;  ///< Strategy::partition
  /// Holds the least time of a block over all partitions, forward and backward, by layer kind.
  std::vector<std::int64_t> least_block_ns;
  std::int32_t solved = 0;   ///< number of operator searches
  std::int32_t inexact = 0;  ///< number of these that gave a bound in place of the least time
};
struct PartitionChoices {
  std::map<std::pair<std::int32_t, std::int32_t>, PartitionOffer> offers;  ///< by (tp, micro-batch)
  /// Lower bound of every configuration with any partition, offered or not.
  std::int64_t lower_bound_ns = INT64_MAX;
  /// Bounds configurations where every layer has its own strategy in the same way.
  std::int64_t layered_lower_bound_ns = INT64_MAX;
  std::int64_t solved = 0, inexact = 0;  ///< sums over the offers
  /// Returns the partitions offered for a choice of the layer group; null if there are none.
  [[nodiscard]] const std::vector<BlockPartition>* of(const Configuration& c) const;
};
/// Returns whether the degrees of a strategy allow an operator partition.
bool takes_partition(const Strategy& s);

class Space {
 public:
  /// `partitions` are offered in addition to plain tensor parallelism and must outlive the space. `at_least` bounds
  /// steps of at least the global batch (RuleFacts::at_least).
  Space(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine, const SearchSpace& space,
        const PartitionChoices* partitions = nullptr, bool at_least = false);

  using Visit = std::function<void(const Configuration&)>;
  /// Visits every legal choice of the layer group; the other groups hold their plainest values.
  void layer_group(const Visit& visit) const;
  void schedule_group(const Configuration& base, const Visit& visit) const;
  void shard_group(const Configuration& base, const Visit& visit) const;
  void overlap_group(const Configuration& base, const Visit& visit) const;
  /// Visits the choices in the order none, selective, full with 1, 2, … layers.
  void recompute_group(const Configuration& base, const Visit& visit) const;
  /// Visits every legal configuration by plain enumeration.
  void for_each(const Visit& visit) const;

  /// Counts the legal configurations below a choice of the layer group. Caches products and choices, so it is not
  /// thread-safe.
  double leaves(const Configuration& layer_choice);
  /// Counts the legal configurations below a choice of layer group and schedule. It is thread-safe once `leaves` was
  /// called with the layer choice.
  [[nodiscard]] double leaves_of_schedule(const Configuration& schedule_choice) const;
  /// Holds a choice of schedule_group. `schedules` and `shards` return the choices of schedule_group and shard_group,
  /// the latter with the choices of overlap_group below each. They are cached by the dimensions that their legality
  /// depends on. Both are thread-safe once `leaves` was called with the layer choice.
  struct ScheduleChoice {
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    std::int32_t virtual_stages = 1;
    std::int32_t microbatches = 1;  ///< micro-batches of the layer choice, unless the batch is a lower limit
    void take(Schedule& schedule) const {
      schedule.kind = kind;
      schedule.virtual_stages = virtual_stages;
      schedule.microbatches = microbatches;
    }
  };
  struct ShardChoice {
    ZeroStage zero = ZeroStage::none;
    std::int32_t shard = 1;
    std::vector<Overlap> overlaps;  ///< overlap.tp belongs to the layer group and is not set here
  };
  [[nodiscard]] const std::vector<ScheduleChoice>& schedules(const Configuration& layer_choice) const;
  [[nodiscard]] const std::vector<ShardChoice>& shards(const Configuration& schedule_choice) const;
  /// Returns the choices of recompute_group, in its order.
  [[nodiscard]] const std::vector<Recompute>& recomputes(const Configuration& schedule_choice) const;
  /// Returns layer_recomputes of the problem.
  [[nodiscard]] const std::vector<Recompute>& layer_recomputes() const { return layer_recomputes_; }
  /// Returns whether a configuration belongs to the space. The modules of selective recomputation may be left out or
  /// named; any other set is one of layer_recomputes.
  [[nodiscard]] bool contains(const Configuration& c) const;
  [[nodiscard]] const RuleFacts& facts() const { return facts_; }
  [[nodiscard]] const EngineModel& engine() const { return *engine_; }

 private:
  struct Admitted {
    std::vector<std::int64_t> allow, forbid;
    bool restricted = false;
    std::int64_t limit = INT64_MAX;
    [[nodiscard]] bool operator()(std::int64_t v) const;
  };
  void descend(std::size_t depth, std::size_t end, Configuration& c, const Visit& visit) const;
  void values(Dimension d, const Configuration& c, std::vector<std::int64_t>& out) const;
  [[nodiscard]] bool decided_rules_hold(std::size_t depth, const Configuration& c) const;

  const EngineModel* engine_;
  const PartitionChoices* partitions_;
  RuleFacts facts_;
  std::vector<Recompute> layer_recomputes_;
  RecomputeModules selective_;                      ///< modules of selective recomputation where none are named
  std::vector<Admitted> admitted_;                  // by Dimension
  std::vector<std::vector<const Rule*>> rules_at_;  // by position in the order of choice
  std::vector<std::vector<const EngineRule*>> engine_rules_at_;
  std::vector<std::int64_t> expert_divisors_;
  /// Holds the dimensions that the legality of the later groups may depend on.
  using Key = std::array<std::int64_t, 10>;
  [[nodiscard]] Key shard_key(const Configuration& schedule_choice) const;
  /// Holds the stages, the chunks of one stage, whether there is a partition, the offload, and the modules that the
  /// layer choice names for recomputation.
  using RecomputeKey = std::array<std::int32_t, 5>;
  [[nodiscard]] static RecomputeKey recompute_key(const Configuration& schedule_choice);
  struct Shards {
    double leaves = 0;  ///< overlap choices of all of them
    std::vector<ShardChoice> choices;
  };
  struct Schedules {
    double leaves = 0;  ///< configurations below all of them
    std::vector<ScheduleChoice> choices;
  };
  [[nodiscard]] Shards shards_below(const Configuration& schedule_choice) const;
  std::map<Key, Shards> shards_;                               ///< legal (zero, shard, overlap) choices
  std::map<RecomputeKey, std::vector<Recompute>> recomputes_;  ///< recomputation choices
  /// Holds schedules by the dimensions that their legality depends on.
  using ProductKey = std::tuple<Key, std::int32_t, RecomputeModules>;
  [[nodiscard]] ProductKey product_key(const Configuration& layer_choice) const;
  std::map<ProductKey, Schedules> products_;
};

}  // namespace espalier::search
