// SPDX-License-Identifier: Apache-2.0
// Lays out a plan in pipeline order, for the checks that run after the structure was found sound.
//
// Pipeline chunk c of p·v is on stage: GPipe, 1F1B, ZB-H1 (v = 1): c; interleaved: c mod p (chunk k of stage i is
// k·p + i); ZB-V (v = 2): c for c < p, else 2p − 1 − c.
#pragma once

#include <cstdint>
#include <vector>

#include "check/figures.h"
#include "check/listed.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine.h"

namespace espalier::check {

/// States whether a plan of one pipeline is whole, or one of several. In the latter case its stages are judged by
/// themselves, and the other devices belong to other pipelines.
enum class PlanPart : std::uint8_t { whole, of_several };

struct View {
  const Plan* plan = nullptr;
  const Pipeline* pipeline = nullptr;  ///< the pipeline that is laid out
  bool one_strategy = false;           ///< all chunks are one range of it
  const Model* model = nullptr;
  const Cluster* cluster = nullptr;
  EngineModel engine;
  Figures figures = figures_for("", std::nullopt);  ///< for the engine
  Strategy strategy;                                ///< shared by all layers of a uniform plan; a range's in view_of
  std::int32_t micro_batch = 1;                     ///< samples a rank takes at a time under that strategy
  std::int64_t samples = 1;                         ///< samples of a micro-batch in all replicas
  std::int32_t stages = 1;                          ///< p
  std::int32_t microbatches = 1;                    ///< m
  std::vector<Chunk> chunks;                        ///< p·v, in pipeline order
  std::vector<std::int32_t> stage_of;               ///< stage of each pipeline chunk
  /// Holds the node group of each stage if stages differ in number, kind or speed of their devices. Everything is
  /// then derived as if all stages were on group `group`, once for each group, and the results of that group's stages
  /// count. Empty: all stages are alike.
  std::vector<std::size_t> group_of_stage;
  std::size_t group = 0;
  std::vector<double> speed_of_stage;  ///< its slowest device relative to the kind; as long as group_of_stage
  double speed = 1.0;                  ///< relative speed for which everything is derived
  /// Holds, for one kind of ranks (rank_kinds.h), the samples of a micro-batch per replica of each stage (0: as for
  /// all ranks). The second vector holds a replica's part of what ZeRO shards, relative to an equal one. Both are as
  /// long as group_of_stage, or empty.
  std::vector<std::int64_t> samples_of_stage;
  std::vector<double> states_of_stage;
  std::int64_t replica_samples = 0;  ///< for which everything is derived; 0: samples / dp
  bool free_network = false;         ///< communication takes no time
  PlanPart part = PlanPart::whole;
  /// Holds the devices of each stage if they are in an order of the plan's own; else null.
  std::shared_ptr<const Listed> listed;
};

std::int32_t stage_of_chunk(const Schedule& schedule, std::int32_t chunk);
/// Returns the pipeline position of the k-th chunk of a stage.
std::int32_t chunk_of_stage(const Schedule& schedule, std::int32_t stage, std::int32_t k);
/// Returns whether weight gradients are computed later than input gradients.
bool weights_late(ScheduleKind kind);
/// Returns the largest number of micro-batches of a stage that have gone forward and not yet back, with one chunk a
/// stage.
std::int64_t passes_ahead(const Schedule& schedule, std::int64_t stage);
/// Returns the stage that device `id` belongs to under the strategy's rank order.
std::int64_t stage_of_device(const Strategy& strategy, std::int64_t stages, std::int64_t id);
std::int64_t device_count(const Cluster& cluster);
/// Returns the tokens that a sample brings to a layer of this kind.
std::int64_t layer_tokens(const LayerKind& kind, const Sequence& sequence);
/// Returns how many of those tokens the attention of one token can reach. Images do not attend to each other.
std::int64_t reachable_tokens(const LayerKind& kind, const Sequence& sequence);
/// Returns the tokens of a sample's stream; 0 for the fixed one, which every layer defines itself.
std::int64_t stream_tokens(TokenStream stream, const Sequence& sequence);
bool has_experts(const Model& model);
/// Makes the view of a plan that check_structure accepts. `engine`: null for the values shipped for the plan's
/// engine.
View make_view(const Plan& plan, const Model& model, const Cluster& cluster, PlanPart part = PlanPart::whole,
               const EngineModel* engine = nullptr);
/// Returns whether stages of a pipeline of sound structure differ in number or kind of their devices.
bool unlike_stages(const Pipeline& pipeline, const Cluster& cluster, PlanPart part);
/// Returns whether every chunk is one range, and all have one strategy.
bool one_strategy(const Pipeline& pipeline);
/// Return the node group of a device, and the first device of a group.
std::size_t group_of_device(const Cluster& cluster, std::int64_t device);
std::int64_t first_device_of(const Cluster& cluster, std::size_t group);
/// Returns the host time of a kernel of eager PyTorch in launches of the engine; 0 if graphs launch.
inline double eager_share(const View& view) {
  const double each = view.engine.kernels.host_launches;
  return each > 0 ? view.figures.eager_kernel_launches / each : 0;
}
/// Returns the devices for which everything is derived.
const NodeGroup& nodes_of(const View& view);
/// Returns the same plan as if all its stages were on the devices of one.
View view_on(const View& plan, std::size_t stage);
/// Calls visit(view, counts) once if stages are alike, else for each group and speed of some stage. counts(stage)
/// returns whether the stage has that group and speed.
template <class Visit>
void each_group(const View& plan, const Visit& visit) {
  if (plan.group_of_stage.empty()) return visit(plan, [](std::size_t) { return true; });
  const auto alike = [&plan](std::size_t a, std::size_t b) {
    if (!plan.samples_of_stage.empty() && plan.samples_of_stage[a] != plan.samples_of_stage[b]) return false;
    if (!plan.states_of_stage.empty() && plan.states_of_stage[a] != plan.states_of_stage[b]) return false;
    return plan.group_of_stage[a] == plan.group_of_stage[b] && plan.speed_of_stage[a] == plan.speed_of_stage[b];
  };
  for (std::size_t s = 0; s < plan.group_of_stage.size(); ++s) {
    bool seen = false;
    for (std::size_t before = 0; before < s; ++before) seen = seen || alike(before, s);
    if (!seen) visit(view_on(plan, s), [&alike, s](std::size_t stage) { return alike(stage, s); });
  }
}
/// Returns the same plan under the strategy of one of its ranges.
View view_of(const View& plan, const Strategy& strategy);
/// Returns the strategies of the plan, each once, in the order of the document.
std::vector<Strategy> strategies_of(const View& view);

}  // namespace espalier::check
