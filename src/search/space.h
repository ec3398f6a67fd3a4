// SPDX-License-Identifier: Apache-2.0
// The uniform space as a tree: which values each dimension may take once the ones before it are chosen.
//
// A configuration is legal iff no rule of plan/rules.h is broken, the job's search part admits every value, and the
// engine can run it. The tree chooses dimensions group by group; a rule is applied at the first group where all
// dimensions it reads are known:
//   layer group     tp cp pp dp sp cp_kind ep etp order overlap_tp offload micro_batch    decides the time of a layer
//                   and, where partitions are offered, none or one of them
//   schedule group  schedule vpp                                                  decides bubbles and chunks
//   shard group     zero shard                                                    decides static memory and gradient traffic
//   overlap group   overlap_grad overlap_param overlap_p2p
//   recompute group recompute recompute_layers
// Whether a value of one of the last four groups is legal does not depend on the layer group beyond pp, micro-batches
// and data ranks (for engines with rules of their own: beyond these, the schedule and tp, cp, sp, ep, offload), so
// leaves are counted as products (tested against plain enumeration).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
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
/// The order of canonical text.
inline bool canonical_less(const Configuration& a, const Configuration& b) {
  return canonical_compare(a.strategy, a.schedule, b.strategy, b.schedule) < 0;
}

/// Takes the choice of an overlap group; overlap.tp stays as the layer group has it.
inline void take_overlap(const Overlap& choice, Strategy& s) {
  const bool tp = s.overlap.tp;
  s.overlap = choice;
  s.overlap.tp = tp;
}

/// Operator partitions of one (tp, samples of a micro-batch in the tensor group); see partition_choices.h.
struct PartitionOffer {
  std::vector<BlockPartition> partitions;    ///< Strategy::partition
  std::vector<std::int64_t> least_block_ns;  ///< by layer kind: no partition of a block is faster, forward and backward
  bool certified = true;                     ///< of the operator searches
  std::int32_t solved = 0;
};
struct PartitionChoices {
  std::map<std::pair<std::int32_t, std::int32_t>, PartitionOffer> offers;  ///< by (tp, micro-batch)
  std::int64_t lower_bound_ns = INT64_MAX;          ///< no configuration with any partition, offered or not, takes less
  std::int64_t layered_lower_bound_ns = INT64_MAX;  ///< nor any where every layer has a strategy of its own
  std::int64_t solved = 0;                          ///< operator searches
  bool certified = true;
  /// Of a choice of the layer group; nullptr: none.
  [[nodiscard]] const std::vector<BlockPartition>* of(const Configuration& c) const;
};
/// Whether a strategy may take an operator partition, by its degrees.
bool takes_partition(const Strategy& s);

class Space {
 public:
  /// `partitions`: offered beside plain tensor parallelism; must outlive the space.
  /// `at_least`: steps of as many samples as the batch has or more (RuleFacts::at_least).
  Space(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine, const SearchSpace& space,
        const PartitionChoices* partitions = nullptr, bool at_least = false);

  using Visit = std::function<void(const Configuration&)>;
  /// Every legal choice of the layer group; the other groups hold their plainest values.
  void layer_group(const Visit& visit) const;
  void schedule_group(const Configuration& base, const Visit& visit) const;
  void shard_group(const Configuration& base, const Visit& visit) const;
  void overlap_group(const Configuration& base, const Visit& visit) const;
  /// In order none, selective, full with 1, 2, … layers.
  void recompute_group(const Configuration& base, const Visit& visit) const;
  /// Every legal configuration, plainly.
  void for_each(const Visit& visit) const;

  /// Legal configurations below a choice of the layer group. Remembers products and choices: not thread-safe.
  double leaves(const Configuration& layer_choice);
  /// Legal configurations below a choice of layer group and schedule; thread-safe once `leaves` has met the layer
  /// choice.
  [[nodiscard]] double leaves_of_schedule(const Configuration& schedule_choice) const;
  /// The same choices as schedule_group's, and as shard_group's with those of overlap_group below each, remembered by
  /// what their legality depends on; thread-safe once `leaves` has met the layer choice.
  struct ScheduleChoice {
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    std::int32_t virtual_stages = 1;
    std::int32_t microbatches = 1;  ///< those of the layer choice, unless the batch is a least one
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
  /// Those of recompute_group, in its order.
  [[nodiscard]] const std::vector<Recompute>& recomputes(const Configuration& schedule_choice) const;
  /// Whether one configuration belongs to the space.
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
  std::vector<Admitted> admitted_;                  // by Dimension
  std::vector<std::vector<const Rule*>> rules_at_;  // by position in the order of choice
  std::vector<std::vector<const EngineRule*>> engine_rules_at_;
  std::vector<std::int64_t> expert_divisors_;
  /// What the legality of the later groups may depend on.
  using Key = std::array<std::int64_t, 10>;
  [[nodiscard]] Key shard_key(const Configuration& schedule_choice) const;
  /// Stages, chunks of one, with a partition, offload.
  using RecomputeKey = std::array<std::int32_t, 4>;
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
  std::map<Key, Shards> shards_;                                ///< legal (zero, shard, overlap) choices
  std::map<RecomputeKey, std::vector<Recompute>> recomputes_;   ///< recomputation choices
  std::map<std::pair<Key, std::int64_t>, Schedules> products_;  ///< by what the legality of schedules depends on
};

}  // namespace espalier::search
