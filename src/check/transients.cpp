// SPDX-License-Identifier: Apache-2.0
#include "check/transients.h"

#include <algorithm>
#include <cmath>

#include "check/arithmetic.h"
#include "check/held_by_zero.h"
#include "check/messages.h"
#include "check/partition_text.h"
#include "check/saved_activations.h"
#include "check/static_memory.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

struct Both {
  double forward = 0, backward = 0;
};

/// Holds the sizes of one layer kind on a rank.
struct Sizes {
  double a = 2, tokens = 0, encoder_keys = 0, keys = 0;
  double split = 1, sequence = 1;  ///< divisors of the two regions
  bool weights_split = false, unfused = false;
  double etp = 1, imbalance = 1, padding = 1;
};

Sizes sizes_of(const View& view, const LayerKind& kind) {
  const Strategy& s = view.strategy;
  const Training& training = view.plan->training;
  Sizes x;
  x.a = training.precision == Precision::fp32 || training.precision == Precision::tf32 ? 4 : 2;
  x.keys = static_cast<double>(reachable_tokens(kind, training.sequence));
  x.encoder_keys = static_cast<double>(training.sequence.encoder);
  x.tokens = static_cast<double>(layer_tokens(kind, training.sequence)) * view.micro_batch / s.cp;
  x.split = s.tp;
  x.sequence = s.sp == SequenceParallel::none ? 1 : s.tp;
  x.weights_split = s.weight_tp() > 1;
  x.unfused = view.engine.memory.activations != ActivationPolicy::fused_attention;
  x.etp = x.sequence > 1 ? s.etp : 1;
  x.imbalance = std::min(training.moe_imbalance, static_cast<double>(s.ep));
  if (view.model->vocabulary > 0) {
    const std::int64_t unit = std::int64_t{view.engine.memory.vocabulary_multiple} * s.weight_tp();
    x.padding = static_cast<double>(ceil_div(view.model->vocabulary, unit) * unit) / static_cast<double>(view.model->vocabulary);
  }
  return x;
}

/// Returns the scores of one query, over all heads.
double scores_of_query(const Sizes& x, const Operator& op) {
  double reach = op.cross ? x.encoder_keys : x.keys;
  if (op.chunk > 0) reach = std::min(reach, static_cast<double>(op.chunk));
  if (op.window > 0) reach = std::min(reach, static_cast<double>(op.window));
  return op.heads * reach;
}

Both attention_set(const Sizes& x, const Operator& op) {
  const double queries = static_cast<double>(op.heads) * op.qk_dim, out = static_cast<double>(op.heads) * op.v_dim;
  const double scores = x.unfused ? scores_of_query(x, op) : 0;
  return {x.a * x.tokens * (queries + scores) / x.split, x.a * x.tokens * (queries + out + 2 * scores) / x.split};
}

/// Returns the working set of a scan: input and output, and the states between chunks in fp32. Backward adds their
/// gradients.
Both scan_set(const Sizes& x, const Operator& op) {
  const double chunks = x.tokens / static_cast<double>(op.chunk);
  const double states = 4.0 * chunks * op.heads * op.qk_dim * op.v_dim, out = x.a * x.tokens * static_cast<double>(op.out);
  const double in = x.a * x.tokens * static_cast<double>(op.in);
  return {(out + states) / x.split, (in + out + 2 * states) / x.split};
}

Both loss_set(const Sizes& x, const Operator& op, const LossPolicy& loss) {
  const bool vocabulary = op.split == TpSplit::vocab;
  const double part = std::ceil(x.tokens / loss.chunks), most = loss.chunk;
  const double tokens = loss.chunk > 0 ? std::min(part, most) : part;
  const double logits = tokens * static_cast<double>(op.in) * (vocabulary ? x.padding / x.split : 1 / x.sequence);
  const double copy = x.a == 4 ? 2 : 0;  // in fp32 the logits need no copy
  return {logits * (loss.forward - copy), logits * (loss.backward - copy)};
}

Both working_set(const Sizes& x, const Operator& op, const LossPolicy& loss) {
  const double divisor = op.split == TpSplit::none ? x.sequence : x.split;
  const double row = x.a * x.tokens;  // bytes of a feature
  const bool changes_width = op.kind == OperatorKind::linear || op.kind == OperatorKind::activation;
  const double in = row * static_cast<double>(op.in), out = row * static_cast<double>(changes_width ? op.out : op.in);
  switch (op.kind) {
    case OperatorKind::attention: return attention_set(x, op);
    case OperatorKind::cross_entropy: return loss_set(x, op, loss);
    case OperatorKind::chunked_scan:
    case OperatorKind::gated_delta: return scan_set(x, op);
    case OperatorKind::embedding: return {row * static_cast<double>(op.out), row * static_cast<double>(op.out)};
    case OperatorKind::expert_linear: {
      const double copies = x.a * std::ceil(x.tokens / x.sequence * op.top_k * x.imbalance) * x.etp;
      return {copies * static_cast<double>(op.out), copies * static_cast<double>(op.in + op.out)};
    }
    case OperatorKind::linear:
      if (op.split == TpSplit::vocab) return {};
      if (x.weights_split && op.split == TpSplit::column) {
        const double gathered = x.sequence > 1 ? in : 0;
        return {gathered + out / divisor, gathered + in + out / divisor};
      }
      if (x.weights_split && op.split == TpSplit::row) return {out, in / divisor + out};
      return {out / divisor, (in + out) / divisor};
    default: return {out / divisor, (in + out) / divisor};
  }
}

/// Returns the bytes of the row linears' whole outputs under sequence parallelism.
double unscattered_outputs(const View& view, const LayerKind& kind) {
  const Sizes x = sizes_of(view, kind);
  double bytes = 0;
  if (x.sequence == 1 || !x.weights_split) return bytes;
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::linear && op.split == TpSplit::row) bytes += x.a * x.tokens * static_cast<double>(op.out);
  return bytes;
}

/// Returns the dequantised bytes of a weight that is kept in fewer bits than compute takes.
double written_out(const View& view, const LayerKind& kind, const Operator& op) {
  const double a = view.plan->training.precision == Precision::fp32 || view.plan->training.precision == Precision::tf32 ? 4 : 2;
  const bool product = op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear;
  if (!op.frozen || !product || frozen_element_bytes(view, kind, op) >= a) return 0;
  const Strategy& s = view.strategy;
  const double parts = op.kind == OperatorKind::expert_linear ? s.ep * s.etp : op.split == TpSplit::none ? 1 : s.weight_tp();
  return std::ceil(a * static_cast<double>(op.parameters) / parts);
}

/// Returns the largest working set. For partitioned operators this is an upper estimate with `most_of_tiles`, else
/// zero.
Both largest_set(const View& view, const LayerKind& kind, bool most_of_tiles) {
  if (partitions(view.strategy, kind)) {
    const double tiles = most_of_tiles ? partitioned_working_set(view, kind) : 0;
    return {tiles, tiles};
  }
  const Sizes x = sizes_of(view, kind);
  Both most;
  for (const Operator& op : kind.operators) {
    const Both one = working_set(x, op, view.engine.memory.loss);
    const double weight = written_out(view, kind, op);
    most.forward = std::max(most.forward, one.forward + weight);
    most.backward = std::max(most.backward, one.backward + weight);
  }
  if (!kind.backward) most.backward = 0;
  return most;
}

/// Adds the layers of a range on top of the `held` bytes of earlier layers. `view` must be under the range's
/// strategy.
void add_range(const View& view, const LayerRange& range, bool most, double& held, Both& peak) {
  const Recompute& recompute = view.strategy.recompute;
  std::int32_t blocks = 0;
  for (std::int32_t i = range.first; i <= range.last; ++i) {
    const LayerKind& kind = view.model->layer(static_cast<std::size_t>(i));
    const bool block = kind.role == LayerRole::block;
    blocks += block ? 1 : 0;
    const bool kept = !block || (recompute.kind == RecomputeKind::full && blocks > recompute.layers);
    const auto whole = static_cast<double>(saved_bytes_of_layer(view, kind, RecomputeKind::none));
    const double saved = kept ? whole : static_cast<double>(saved_bytes_of_layer(view, kind, recompute.kind));
    const auto hosted = static_cast<double>(hosted_bytes_of_layer(view, kind, kept ? RecomputeKind::none : recompute.kind));
    const Both set = largest_set(view, kind, most);
    held += saved - hosted;
    peak.forward = std::max(peak.forward, held + set.forward + 2 * hosted);
    peak.backward = std::max(peak.backward, held + (whole - saved) + set.backward + 2 * hosted);
  }
}

/// Returns the bytes of the largest layer whose states are sharded from ZeRO stage `zero` on: the gathered
/// parameters, or the whole gradient.
std::int64_t largest_layer(const View& view, ZeroStage zero) {
  const StatePolicy bytes = bytes_of(view);
  std::int64_t most = 0;
  for (const Chunk& chunk : view.chunks) {
    for (const LayerRange& range : chunk.ranges) {
      if (range.strategy.zero < zero && !offloads_parameters(range.strategy.offload)) continue;
      for (std::int32_t i = range.first; i <= range.last; ++i) {
        const StageElements e = elements_of_layer(view_of(view, range.strategy), view.model->layer(static_cast<std::size_t>(i)));
        most = std::max(most, shards_parameters(zero) ? bytes.gather * (e.dense + e.expert) + e.frozen_dense + e.frozen_expert
                                                      : bytes.reduce * (e.dense + e.expert));
      }
    }
  }
  return most;
}

std::int64_t workspace_bytes(const View& view) {
  constexpr double kMebibyte = 1048576;
  const WorkspacePolicy& w = view.engine.memory.workspace;
  const bool eight_bits = nodes_of(view).device.peak_of(Precision::fp8).count() > 0;
  const Figures& f = view.figures;
  const double torch = kMebibyte * (eight_bits || w.deterministic ? f.cublas_workspace_fp8 : f.cublas_workspace);
  const double own = kMebibyte * (eight_bits ? f.transformer_engine_workspace_fp8 : f.transformer_engine_workspace);
  return static_cast<std::int64_t>(w.cublas * torch + w.transformer_engine * own);
}

/// Returns the bytes of scores before the softmax, a·H·queries·keys / tp, for engines that never free them.
std::int64_t score_buffer_of(const View& view, const LayerKind& kind) {
  const EngineMemory& memory = view.engine.memory;
  if (!memory.keeps_score_buffer || memory.activations != ActivationPolicy::megatron_2022_unfused) return 0;
  if (partitions(view.strategy, kind)) return 0;
  const Sizes x = sizes_of(view, kind);
  double most = 0;
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::attention) most = std::max(most, x.a * x.tokens * scores_of_query(x, op) / x.split);
  return static_cast<std::int64_t>(std::ceil(most));
}

/// Returns the bytes that row linears of a stage output before they are scattered, for the passes and blocks that the
/// host may have started ahead of the device.
std::int64_t outputs_ahead(const View& view, std::size_t stage) {
  const std::int64_t most = view.engine.eager.queued_blocks;
  if (most == 0) return 0;
  double bytes = 0;
  std::int64_t blocks = 0;
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    if (static_cast<std::size_t>(view.stage_of[c]) != stage) continue;
    for (const LayerRange& range : view.chunks[c].ranges) {
      const View own = view_of(view, range.strategy);
      for (std::int32_t i = range.first; i <= range.last; ++i) {
        const double one = unscattered_outputs(own, view.model->layer(static_cast<std::size_t>(i)));
        bytes += one;
        blocks += one > 0 ? 1 : 0;
      }
    }
  }
  std::int64_t passes = std::min<std::int64_t>(view.microbatches, 2);
  if (view.stages > 1) {
    const std::int64_t ahead = passes_ahead(view.pipeline->schedule, static_cast<std::int64_t>(stage));
    passes = std::max<std::int64_t>(0, ahead - 2);
  }
  return blocks == 0 ? 0
                     : static_cast<std::int64_t>(bytes / static_cast<double>(blocks) *
                                                 static_cast<double>(std::min(passes * blocks, most)));
}

std::int64_t deferred_logit_bytes(const View& view) {
  const std::int64_t waiting = std::min<std::int64_t>(view.engine.memory.loss.deferred, view.microbatches);
  if (waiting == 0 || view.stages == 1) return 0;
  const View head = view_of(view, view.chunks.back().ranges.back().strategy);
  const Both set = largest_set(head, view.model->layer(view.model->layers.size() - 1), false);
  return waiting * static_cast<std::int64_t>(set.backward);
}

}  // namespace

std::vector<ChunkPeak> chunk_peaks(const View& view, bool most) {
  std::vector<ChunkPeak> result;
  for (const Chunk& chunk : view.chunks) {
    double held = 0;
    Both peak;
    for (const LayerRange& range : chunk.ranges) add_range(view_of(view, range.strategy), range, most, held, peak);
    result.push_back({static_cast<std::int64_t>(peak.forward), static_cast<std::int64_t>(peak.backward)});
  }
  return result;
}

std::vector<std::int64_t> buffer_bytes_per_stage(const View& view) {
  std::int64_t message = 0;
  for (const std::int64_t one : boundary_bytes_per_chunk(view)) message = std::max(message, one);
  if (!view.group_of_stage.empty())
    for (const std::int64_t one : taken_bytes_per_chunk(view)) message = std::max(message, one);
  const std::int64_t gathered = largest_layer(view, ZeroStage::parameters), scattered = largest_layer(view, ZeroStage::gradients);
  std::vector<bool> gathers(static_cast<std::size_t>(view.stages), false), scatters = gathers;
  std::vector<std::int64_t> scores(gathers.size(), 0);
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    for (const LayerRange& range : view.chunks[c].ranges) {
      const auto stage = static_cast<std::size_t>(view.stage_of[c]);
      const bool comes_up = offloads_parameters(range.strategy.offload);
      gathers[stage] = gathers[stage] || comes_up || range.strategy.shards_parameters();
      scatters[stage] = scatters[stage] || comes_up || range.strategy.shards_gradients();
      for (std::int32_t i = range.first; i <= range.last; ++i)
        scores[stage] = std::max(scores[stage],
                                 score_buffer_of(view_of(view, range.strategy), view.model->layer(static_cast<std::size_t>(i))));
    }
  }
  std::vector<std::int64_t> result;
  const std::vector<std::int64_t> stated = held_by_zero(view);
  for (std::size_t i = 0; i < gathers.size(); ++i) {
    std::int64_t sum = 2 * message + workspace_bytes(view) + scores[i] + outputs_ahead(view, i) + stated[i];
    sum += gathers[i] && !states_zero(view) ? 2 * gathered : 0;
    sum += scatters[i] && !states_zero(view) ? scattered : 0;
    sum += i + 1 == gathers.size() ? deferred_logit_bytes(view) : 0;
    result.push_back(sum);
  }
  return result;
}

}  // namespace espalier::check
