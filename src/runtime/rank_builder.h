// SPDX-License-Identifier: Apache-2.0
// Builds a RankModel: the groups of the whole plan (rank_builder.cpp), the states of this rank (rank_states.cpp), and
// its layers over them. Internal to rank_model.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "espalier/plan.h"
#include "plan/block_tiles.h"
#include "plan/engine.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

using Members = std::vector<int>;

/// Returns whether an operator is a table of tokens, whose rows tensor parallelism divides.
bool is_table(const Operator& op);
/// Returns whether an operator is a norm of each head, whose one scale all heads share.
bool is_head_norm(const Operator& op);
/// Returns the number of key/value heads of a layer kind; 0 without attention.
std::int64_t key_heads(const LayerKind& kind);
/// Returns the members of a tensor group that hold the same key/value head as member `t`.
Members sharing_heads(const Members& tensor, std::int64_t heads, std::int64_t t);
/// Returns a purpose that separates gradients by when they travel. Gradients that ZeRO scatters in every micro-batch
/// travel between computations. The others travel on the stream of data parallelism, concurrently with computations.
std::string purpose_of(const char* what, ZeroStage zero);
/// Return whether layers of a kind are mixtures of experts, and whether they have norms of heads.
bool has_experts(const LayerKind& kind);
bool has_head_norms(const LayerKind& kind);
/// Returns whether gradients of weights that tensor parallelism does not split are partial, because each rank has its
/// own tokens.
bool sums_partial(const Strategy& s);
/// Returns whether the operators of a layer are partitioned one by one.
bool partitions(const Strategy& s, const LayerKind& kind);
/// Returns the members of a tensor group that an indicator joins with the member at `place`.
Members indicated(const Members& tensor, int place, partition::GroupIndicator indicator);

class RankModel::Builder {
 public:
  Builder(const RankView& view, const Program& program, Groups& groups, RankModel& out)
      : view_(view),
        model_(*view.model),
        program_(program),
        groups_(groups),
        out_(out),
        engine_(*find_engine(view.plan->engine)),
        rank_(rank_class(program, view.device)) {}

  void build();

 private:
  /// Holds the groups that share a unit of states.
  struct Sharing {
    bool experts = false;
    [[nodiscard]] GroupKind shard() const { return experts ? GroupKind::expert_shard : GroupKind::data_shard; }
    [[nodiscard]] GroupKind replica() const { return experts ? GroupKind::expert_replica : GroupKind::data_replica; }
    [[nodiscard]] const char* shard_purpose() const { return experts ? "expert_shard" : "shard"; }
    [[nodiscard]] const char* replica_purpose() const { return experts ? "expert_replica" : "replica"; }
  };

  void make_groups(const std::vector<Holding>& holdings);
  void make_groups_of(const Holding& holding);
  void make_tensor_groups(const Holding& holding);
  void make_expert_groups(const Holding& holding);
  void make_partition_groups(const Holding& holding);
  void add_states(const Holding& holding, std::int64_t position);
  StateShape shape_of(const Holding& holding, std::int64_t position, const StateUnit& unit) const;
  void find_sums(const Holding& holding, std::int64_t position, const LayerKind& kind, const Intervals& elements,
                 StateShape& shape) const;
  void find_partition_sums(const Holding& holding, std::int64_t position, const LayerKind& kind, StateShape& shape) const;
  /// Returns a partitioned block. `samples` counts those of a micro-batch in the tensor group; 1 where they do not
  /// matter.
  SpreadBlock block_of(const LayerKind& kind, const Strategy& s, std::int64_t samples = 0) const;
  std::unique_ptr<Layer> partitioned(const LayerKind& kind, const std::vector<Parameters>& parameters, std::vector<State*> states,
                                     const WorkRange& range, std::int32_t layer, std::int64_t position, bool recomputed) const;
  std::vector<float> initial_of(std::int32_t layer, const Intervals& held) const;
  void add_layer(const WorkRange& range, std::int32_t index, std::int64_t position, bool recomputed);
  Parameters parameters_of(std::int32_t layer, const Operator& op, std::int64_t first, std::vector<State*>& used) const;
  OperatorPlace place_of(const Strategy& s, std::int64_t position, bool experts) const;
  void settle();

  /// Returns the group of this kind that a rank is in.
  Members group_of(GroupKind kind, const Strategy& s, const std::vector<std::int64_t>& devices) const;
  Members ranks_of(const std::vector<std::int64_t>& devices) const;

  const RankView& view_;
  const Model& model_;
  const Program& program_;
  Groups& groups_;
  RankModel& out_;
  const EngineModel& engine_;
  const RankClass& rank_;
  std::vector<std::int64_t> stage_devices_;            // devices of this rank's stage
  std::map<std::int32_t, std::vector<State*>> units_;  // by layer; a table copy: layer 0
  bool embedding_here_ = false;
};

}  // namespace espalier::runtime
