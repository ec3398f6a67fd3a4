// SPDX-License-Identifier: Apache-2.0
// The plan laid out in pipeline order, for the checks that come after the structure was found sound.
//
// Pipeline chunk c of p·v lies on stage: GPipe, 1F1B, ZB-H1 (v = 1): c; interleaved: c mod p (chunk k of stage i is k·p
// + i); ZB-V (v = 2): c for c < p, else 2p − 1 − c.
#pragma once

#include <cstdint>
#include <vector>

#include "check/listed.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine.h"

namespace espalier::check {

/// Whether a plan of one pipeline is all there is, or one of several beside each other: its stages are then judged by
/// themselves, and other devices are other pipelines'.
enum class PlanPart : std::uint8_t { whole, of_several };

struct View {
  const Plan* plan = nullptr;
  const Pipeline* pipeline = nullptr;  ///< the one that is laid out
  bool one_strategy = false;           ///< all chunks are one range of it
  const Model* model = nullptr;
  const Cluster* cluster = nullptr;
  EngineModel engine;
  Strategy strategy;                   ///< of all layers of a uniform plan; of a range in a view_of
  std::int32_t micro_batch = 1;        ///< samples a rank takes at a time under that strategy
  std::int64_t samples = 1;            ///< of a micro-batch in all replicas together
  std::int32_t stages = 1;             ///< p
  std::int32_t microbatches = 1;       ///< m
  std::vector<Chunk> chunks;           ///< p·v, in pipeline order
  std::vector<std::int32_t> stage_of;  ///< of each pipeline chunk
  /// Where stages are not all alike, in number or kind or speed of their devices: the node group of each. Everything is
  /// then derived as if all stages lay on group `group`, once for each, and of what comes out the stages of that group
  /// count. Empty: all stages are alike.
  std::vector<std::size_t> group_of_stage;
  std::size_t group = 0;
  std::vector<double> speed_of_stage;  ///< of its slowest device, relative to the kind; as long as group_of_stage
  double speed = 1.0;                  ///< at which everything is derived
  /// Of a view of one kind of ranks (rank_kinds.h), as long as group_of_stage, else empty: samples of a micro-batch
  /// that a replica of each stage takes (0: what all take), and its part of what ZeRO shards, relative to an equal one.
  std::vector<std::int64_t> samples_of_stage;
  std::vector<double> states_of_stage;
  std::int64_t replica_samples = 0;  ///< under which everything is derived; 0: samples / dp
  bool free_network = false;         ///< communication takes no time
  PlanPart part = PlanPart::whole;
  std::shared_ptr<const Listed> listed;  ///< devices of each stage, where they are in an order of the plan's own; else
                                         ///< null
};

std::int32_t stage_of_chunk(const Schedule& schedule, std::int32_t chunk);
/// Pipeline position of the k-th chunk of a stage.
std::int32_t chunk_of_stage(const Schedule& schedule, std::int32_t stage, std::int32_t k);
/// Says whether gradients of weights come later than those of inputs.
bool weights_late(ScheduleKind kind);
/// Counts the micro-batches of a stage that have gone forward and not yet back, at most; one chunk a stage.
std::int64_t passes_ahead(const Schedule& schedule, std::int64_t stage);
/// The stage that device `id` belongs to under the strategy's rank order.
std::int64_t stage_of_device(const Strategy& strategy, std::int64_t stages, std::int64_t id);
std::int64_t device_count(const Cluster& cluster);
/// Tokens a sample brings to a layer of this kind.
std::int64_t layer_tokens(const LayerKind& kind, const Sequence& sequence);
/// Of those, the ones that one token's attention can reach: images are apart from each other.
std::int64_t reachable_tokens(const LayerKind& kind, const Sequence& sequence);
/// Tokens of a sample's stream; 0 of the fixed one, which every layer says for itself.
std::int64_t stream_tokens(TokenStream stream, const Sequence& sequence);
bool has_experts(const Model& model);
/// Requires a plan that check_structure accepts.
/// `engine`: null: what ships for the plan's engine.
View make_view(const Plan& plan, const Model& model, const Cluster& cluster, PlanPart part = PlanPart::whole,
               const EngineModel* engine = nullptr);
/// Says whether stages of a pipeline of sound structure differ in number or kind of their devices.
bool unlike_stages(const Pipeline& pipeline, const Cluster& cluster, PlanPart part);
/// Whether every chunk is one range, and all have one strategy.
bool one_strategy(const Pipeline& pipeline);
/// The node group of a device, and the first device of a group.
std::size_t group_of_device(const Cluster& cluster, std::int64_t device);
std::int64_t first_device_of(const Cluster& cluster, std::size_t group);
/// The devices that everything is derived for.
const NodeGroup& nodes_of(const View& view);
/// The same plan as if all its stages lay on the devices of one.
View view_on(const View& plan, std::size_t stage);
/// Calls visit(view, counts) once where stages are alike, else for each group and speed that some stage has;
/// counts(stage) says whether the stage has these.
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
/// The same plan seen under the strategy of one of its ranges.
View view_of(const View& plan, const Strategy& strategy);
/// The strategies of the plan, each once, in the order of the document.
std::vector<Strategy> strategies_of(const View& view);

}  // namespace espalier::check
