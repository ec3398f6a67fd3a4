// SPDX-License-Identifier: Apache-2.0
#include "cost/zero_buffers.h"

#include <algorithm>

#include "base/division.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/expert_shard.h"

namespace espalier::cost {
namespace {

std::int64_t of_stage(const ByStage& numbers, ZeroStage zero) { return numbers[static_cast<std::size_t>(zero)]; }

/// Returns the bytes of copies of one gradient. In fp32 a flattened gradient needs no copy in the type of the master
/// weights.
std::int64_t copies_of_gradient(const ZeroPolicy& zero, const StatePolicy& states, ZeroStage stage) {
  const std::int64_t bytes = of_stage(zero.update, stage);
  if (states.parameter < 4) return bytes;
  return stage == ZeroStage::none ? 0 : std::min<std::int64_t>(bytes, 4);
}

std::int64_t gathered_now(const ZeroPolicy& zero, const StatePolicy& states, const ParameterElements& all, std::int64_t largest) {
  if (!zero.keeps_gathered()) return 2 * largest;
  return std::min(gathered_bytes(all, states), std::max(zero.kept() * states.gather, largest));
}

/// Returns the bytes of gradients that wait for their reduction, or are just reduced.
std::int64_t reduced_now(const ZeroPolicy& zero, const StatePolicy& states, const Strategy& s, const ParameterElements& all,
                         std::int64_t largest) {
  if (zero.bucket == 0) return largest;
  if (s.data_ranks() == 1) return 0;
  const std::int64_t bytes = zero.bucket * states.reduce;
  const std::int64_t further = s.overlap.grad_reduce ? of_stage(zero.overlapped_buckets, s.zero) : 0;
  return (of_stage(zero.buckets, s.zero) + further) * bytes +
         of_stage(zero.bucket_copies, s.zero) * std::max(std::min(bytes, scattered_bytes(all, states)), largest) +
         of_stage(zero.whole, s.zero) * (all.dense + all.expert);
}

std::int64_t held_by_update(const ZeroPolicy& zero, const StatePolicy& states, const Strategy& s, const ParameterElements& all,
                            std::int64_t tensor) {
  if (offloads_optimizer(s.offload)) return 0;
  const std::int64_t shard = s.shards_optimizer() ? s.shard : 1;
  const std::int64_t own =
      s.shards_optimizer() ? ceil_div(all.dense, shard) + ceil_div(all.expert, expert_shard_of(s)) : all.dense + all.expert;
  const bool parts = s.shards_parameters() && zero.update_elements > 0;
  const std::int64_t copied = parts ? std::min(own, zero.update_elements) : own;
  // Stage 3 divides every tensor, the others cut the list of all tensors.
  const std::int64_t piece = s.shards_parameters() ? ceil_div(tensor, shard) : std::min(own, tensor);
  return std::max(copies_of_gradient(zero, states, s.zero) * copied, of_stage(zero.norm, s.zero) * piece);
}

bool fetches_layers(const Strategy& s) { return s.shards_parameters() || offloads_parameters(s.offload); }
bool scatters_layers(const Strategy& s) { return s.shards_gradients() || offloads_parameters(s.offload); }

}  // namespace

void LargestLayers::take(const ParameterElements& e, const StatePolicy& states, bool table) {
  gathered = std::max(gathered, gathered_bytes(e, states));
  scattered = std::max(scattered, scattered_bytes(e, states));
  if (table) tensor = std::max(tensor, e.dense);
}

ZeroBuffers& ZeroBuffers::operator+=(const ZeroBuffers& o) {
  gathered = std::max(gathered, o.gathered);
  reduced = std::max(reduced, o.reduced);
  held += o.held;
  return *this;
}

ZeroBuffers zero_buffers(const ZeroPolicy& zero, const StatePolicy& states, const Strategy& s, const ParameterElements& all,
                         const LargestLayers& largest) {
  ZeroBuffers out;
  if (fetches_layers(s)) out.gathered = gathered_now(zero, states, all, largest.gathered);
  if (scatters_layers(s) || zero.bucket > 0)
    out.reduced = reduced_now(zero, states, s, all, scatters_layers(s) ? largest.scattered : 0);
  out.held = held_by_update(zero, states, s, all, largest.tensor);
  ESPALIER_CHECK(out.gathered >= 0 && out.reduced >= 0 && out.held >= 0);
  return out;
}

std::int64_t least_zero_buffers(const ZeroPolicy& zero, const StatePolicy& states, const Strategy& s,
                                const ParameterElements& layer) {
  LargestLayers alone;
  alone.take(layer, states, false);
  return zero_buffers(zero, states, s, layer, alone).total();
}

double gathers_again(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers) {
  const ZeroPolicy& zero = c.engine->memory.zero;
  if (!zero.keeps_gathered() || !s.shards_parameters()) return 1;
  const StatePolicy states = states_of(*c.engine, c.workload.training);
  double all = 0;
  for (const std::int32_t kind : c.workload.model->layers)
    all += static_cast<double>(gathered_bytes(layers[static_cast<std::size_t>(kind)].elements(), states));
  const double kept = static_cast<double>(zero.kept()) * states.gather * stages;
  return all <= kept ? 0 : 1 - kept / all;
}

}  // namespace espalier::cost
