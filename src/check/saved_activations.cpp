// SPDX-License-Identifier: Apache-2.0
#include "check/saved_activations.h"
#include "check/kernels.h"

#include <algorithm>
#include <cmath>

#include "check/arithmetic.h"
#include "check/partition_text.h"
#include "check/run_again.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Describes one layer on one rank. Sizes are reals (every product stays below 2^53 for anything trainable) and are
/// rounded once at the end.
struct LayerOnRank {
  double tokens = 0, encoder_tokens = 0;  ///< tokens T of layer and encoder, before sp splits the sequence
  double keys = 0, encoder_keys = 0;      ///< tokens of a whole sample
  double a = 2, operand = 2;              ///< bytes of an element; of an element that products keep
  double sequence = 1, split = 1;         ///< divisors of the two regions
  double etp = 1, imbalance = 1;
  double padding = 1;        ///< padded vocabulary over vocabulary
  double output_copies = 1;  ///< copies of the attention kernel's output
  double loss = 4;           ///< bytes kept per logit
  double loss_tokens = 0;    ///< most tokens that have logits at once; 0: all
  double loss_parts = 1;     ///< parts of the tokens whose logits are computed in turn
  bool fused = true, eager_gate = false;
  double rotated_copies = 1;  ///< copies of queries and keys
  double activation = 2;      ///< bytes per input element kept by an activation
  bool weighs_inside = false;
  RecomputeModules again;  ///< modules that run again
};

LayerOnRank layer_of(const View& view, const LayerKind& kind, RecomputeKind recompute) {
  const Strategy& s = view.strategy;
  const Training& training = view.plan->training;
  const double share = static_cast<double>(view.micro_batch) / s.cp;
  LayerOnRank layer;
  layer.keys = static_cast<double>(reachable_tokens(kind, training.sequence));
  layer.encoder_keys = static_cast<double>(training.sequence.encoder);
  layer.tokens = share * static_cast<double>(layer_tokens(kind, training.sequence));
  layer.encoder_tokens = share * layer.encoder_keys;
  layer.a = training.precision == Precision::fp32 || training.precision == Precision::tf32 ? 4 : 2;
  const double narrow = cast_operand_bytes(view);
  layer.operand = narrow > 0 ? narrow : layer.a;
  layer.split = s.tp;
  layer.sequence = s.sp == SequenceParallel::none ? 1 : s.tp;
  layer.etp = s.etp;
  layer.imbalance = std::min(training.moe_imbalance, static_cast<double>(s.ep));
  if (view.model->vocabulary > 0) {
    const std::int64_t unit = std::int64_t{view.engine.memory.vocabulary_multiple} * s.weight_tp();
    const std::int64_t padded = ceil_div(view.model->vocabulary, unit) * unit;
    layer.padding = static_cast<double>(padded) / static_cast<double>(view.model->vocabulary);
  }
  layer.output_copies = view.engine.memory.copies_attention_output && view.micro_batch > 1 ? 2 : 1;
  layer.loss = view.engine.memory.loss.saved;
  layer.loss_tokens = view.engine.memory.loss.chunk;
  layer.loss_parts = view.engine.memory.loss.chunks;
  layer.eager_gate = view.engine.memory.eager_gate;
  layer.rotated_copies = view.engine.eager.copies_rotated ? 2 : 1;
  layer.fused = view.engine.memory.activations == ActivationPolicy::fused_attention;
  if (recompute == RecomputeKind::selective && kind.role == LayerRole::block) layer.again = modules_of(view);
  const EngineMemory& memory = view.engine.memory;
  layer.activation = memory.eight_bit_activations ? layer.operand : layer.a;
  layer.weighs_inside = memory.weighs_inside_experts;
  return layer;
}

/// Returns the bytes that attention keeps. `reads`: the next product keeps the attention's output in its own type.
double attention_bytes(const LayerOnRank& l, const Operator& op, const FromLatents& again, bool reads) {
  // The sum is divided by `split` below. If there are fewer key/value heads than ranks, each rank holds one, so that
  // heads count as many as ranks.
  const double kv_heads = std::max(static_cast<double>(op.kv_heads), l.split);
  const double queries = static_cast<double>(op.heads) * op.qk_dim, keys = kv_heads * op.qk_dim;
  const double values = kv_heads * op.v_dim, out = static_cast<double>(op.heads) * op.v_dim;
  const double key_tokens = op.cross ? l.encoder_tokens : l.tokens;
  const double inputs = l.a * ((again.queries ? 0 : queries * l.tokens) + (again.keys ? 0 : (keys + values) * key_tokens));
  const double rotated = (l.rotated_copies - 1) * l.a * (queries * l.tokens + keys * key_tokens);
  const bool core = l.again.has(RecomputeModule::core_attn);
  if (l.fused) {
    const double copies = core ? (reads ? 1 : 0) : l.output_copies;
    return (inputs + rotated + copies * l.a * out * l.tokens + (core ? 0 : 4.0 * op.heads * l.tokens)) / l.split;
  }
  if (core) return inputs / l.split;
  double reach = op.cross ? l.encoder_keys : l.keys;
  if (op.chunk > 0) reach = std::min(reach, static_cast<double>(op.chunk));
  if (op.window > 0) reach = std::min(reach, static_cast<double>(op.window));
  const double scores = op.heads * l.tokens * reach;
  return (inputs + scores * (l.a + (op.score_dropout ? 1 + l.a : 0))) / l.split;
}

/// Returns the bytes per token of a scan's inputs, and of the states that it keeps.
double scan_bytes(const LayerOnRank& l, const Operator& op) {
  const double states = op.qk_dim, chunk = static_cast<double>(op.chunk);
  if (op.kind == OperatorKind::scan) {
    const double channels = static_cast<double>(op.in) / l.split;
    return channels * (2 * l.a + 8 * states / chunk) + 2 * l.a * states;
  }
  const double inputs = 2.0 * op.kv_heads * states + static_cast<double>(op.heads) * op.v_dim;
  const double inverse = op.kind == OperatorKind::gated_delta ? op.heads * chunk : 0;
  return (l.a * (inputs + inverse) + 8.0 * op.heads) / l.split;
}

/// Returns the routed copies on a rank, in whole tokens. The fullest expert rank gets `imbalance` times the mean.
double routed_copies(const LayerOnRank& l, const Operator& op) {
  return std::ceil(l.tokens / l.sequence * op.top_k * l.imbalance);
}

/// Returns the divisor of the width of an etp group's copies. If tokens are split over tp, each rank has its own
/// copies, which are gathered; otherwise all ranks have the same copies.
double expert_divisor(const LayerOnRank& l) { return l.sequence > 1 ? 1 : l.etp; }

/// Walks the operators of a layer and records the tensors that are already kept.
class KeptTensorWalk {
 public:
  /// `again` has one entry per operator. Without modules nothing runs again.
  KeptTensorWalk(const LayerOnRank& layer, const LayerKind& kind, std::vector<RunAgain> again)
      : l_(layer), kind_(kind), operators_(kind.operators), again_(std::move(again)) {
    if (!layer.again.any()) again_.assign(operators_.size(), {});
  }

  double sum() {
    double bytes = 0;
    for (std::size_t i = 0; i < operators_.size(); ++i) bytes += bytes_of(i);
    return bytes;
  }

 private:
  [[nodiscard]] OperatorKind kind_before(std::size_t i) const { return i == 0 ? OperatorKind::residual : operators_[i - 1].kind; }

  double bytes_of(std::size_t i) {
    const Operator& op = operators_[i];
    const auto in = static_cast<double>(op.in);
    const double region = op.split == TpSplit::none ? l_.sequence : l_.split;
    switch (op.kind) {
      case OperatorKind::norm: return (l_.a * in + (l_.fused ? 4 : 0)) * l_.tokens / region;
      case OperatorKind::linear: return linear_bytes(i);
      case OperatorKind::patch_embed: return op.frozen ? 0 : l_.operand * in * l_.tokens / l_.sequence;
      case OperatorKind::attention: return attention_bytes(l_, op, latents_again(i), read_as_it_is(i));
      case OperatorKind::activation: {
        const bool gated = l_.eager_gate && op.in == 2 * op.out && again_[i].share == 0;
        const bool half = l_.again.has(RecomputeModule::every_second_mm) && op.in == 2 * op.out;
        const double read = again_[i].dropped ? 0 : half ? in / 2 : in;
        return (l_.activation * read + l_.a * (gated ? static_cast<double>(op.out) : 0)) * l_.tokens / region;
      }
      case OperatorKind::dropout: return in * l_.tokens / region;
      case OperatorKind::router:
        return (again_[i].dropped ? 0 : 4.0 * op.experts * l_.tokens / l_.sequence) +
               (again_[i].source_dropped ? 0 : router_input_bytes(i));
      case OperatorKind::expert_linear: return expert_linear_bytes(i);
      case OperatorKind::expert_activation:
        return again_[i].dropped ? 0 : l_.activation * in * routed_copies(l_, op) / expert_divisor(l_);
      case OperatorKind::combine:
        return l_.weighs_inside || again_[i].dropped ? 0 : l_.a * in * op.top_k * l_.tokens / l_.sequence;
      case OperatorKind::cross_entropy: {
        const double part = std::ceil(l_.tokens / l_.loss_parts);
        const double tokens = l_.loss_tokens > 0 ? std::min(part, l_.loss_tokens) : part;
        return l_.loss * in * (op.split == TpSplit::vocab ? l_.padding : 1) * tokens / region;
      }
      case OperatorKind::causal_conv: return l_.a * in * l_.tokens / l_.split;
      case OperatorKind::scan:
      case OperatorKind::chunked_scan:
      case OperatorKind::gated_delta: return scan_bytes(l_, op) * l_.tokens;
      case OperatorKind::embedding:
      case OperatorKind::rotary:
      case OperatorKind::residual:
      case OperatorKind::dispatch:
      case OperatorKind::pool: return 0;
    }
    return 0;
  }

  /// Returns whether the weight gradient needs the input; a frozen weight has no gradient.
  static bool needs_input(const Operator& op) { return op.adapters > 0 || !op.frozen; }

  [[nodiscard]] FromLatents latents_again(std::size_t core) const {
    return l_.again.has(RecomputeModule::mla_up_proj) ? from_latents(kind_, core) : FromLatents{};
  }
  /// Returns whether the product after an attention keeps the attention's output in its original type.
  [[nodiscard]] bool read_as_it_is(std::size_t i) const {
    const bool product = i + 1 < operators_.size() && operators_[i + 1].kind == OperatorKind::linear;
    return product && needs_input(operators_[i + 1]) && l_.operand == l_.a;
  }
  [[nodiscard]] bool router_keeps_input() const {
    for (std::size_t i = 0; i < operators_.size(); ++i)
      if (operators_[i].kind == OperatorKind::router) return router_input_bytes(i) > 0;
    return false;
  }
  /// Returns whether the product reads the dispatched tokens.
  [[nodiscard]] bool first_of_experts(std::size_t i) const { return kind_before(i) == OperatorKind::dispatch; }
  [[nodiscard]] bool tokens_dropped() const {
    for (std::size_t i = 0; i < operators_.size(); ++i)
      if (operators_[i].kind == OperatorKind::dispatch) return again_[i].dropped;
    return false;
  }

  double linear_bytes(std::size_t i) {
    const Operator& op = operators_[i];
    const double narrow = l_.a * l_.tokens * op.adapters * op.adapter_rank;  // between the matrices of adapters
    return narrow + (needs_input(op) ? input_bytes(i) : 0);
  }

  double input_bytes(std::size_t i) {
    const Operator& op = operators_[i];
    const OperatorKind before = kind_before(i);
    const bool eight = l_.operand < l_.a;
    if (l_.fused && before == OperatorKind::attention && !eight) return 0;  // the attention kernel keeps its output
    const double bytes = (op.split == TpSplit::vocab ? l_.a : l_.operand) * static_cast<double>(op.in);
    if (op.parallel) return 0;  // the block's first linear keeps it
    const bool again = again_[i].source_dropped || (again_[i].enters_shared && router_keeps_input());
    if (op.split == TpSplit::row) return again ? 0 : bytes * l_.tokens / l_.split;
    const int source = source_of(i);
    if (std::find(kept_.begin(), kept_.end(), source) != kept_.end()) return 0;
    kept_.push_back(source);
    if (again) return 0;
    return bytes * (op.cross ? l_.encoder_tokens : l_.tokens) / l_.sequence;
  }

  /// Returns the bytes of the router's input, which the gate's weight gradient needs. Shared experts, if any, keep
  /// the same tensor.
  [[nodiscard]] double router_input_bytes(std::size_t i) const {
    if (operators_[i].frozen) return 0;
    for (std::size_t n = i + 1; n < operators_.size() && l_.operand == l_.a; ++n)
      if (operators_[n].kind == OperatorKind::linear && needs_input(operators_[n]) && operators_[n].in == operators_[i].in &&
          operators_[n].split != TpSplit::row)
        return 0;
    return l_.a * static_cast<double>(operators_[i].in) * l_.tokens / l_.sequence;
  }

  double expert_linear_bytes(std::size_t i) {
    const Operator& op = operators_[i];
    const bool activated = kind_before(i) == OperatorKind::expert_activation;
    if (again_[i].dropped ? !first_of_experts(i) : again_[i].source_dropped) return 0;
    if (again_[i].dropped && tokens_dropped()) return 0;
    const double gathered = l_.etp / expert_divisor(l_);  // tokens split over tp are gathered by the etp ranks
    const double one =
        static_cast<double>(op.in) * routed_copies(l_, op) / (op.split == TpSplit::row ? expert_divisor(l_) : 1 / gathered);
    // Without a gate, weighting is a separate product after the activation, and keeps its factor.
    const bool factor = activated && l_.weighs_inside && operators_[i - 1].in == operators_[i - 1].out;
    return (factor ? l_.a * one : 0) + (op.frozen ? 0 : l_.operand * one);
  }

  /// Returns whether the operator's output is a tensor of its own with whole features. A column linear writes only a
  /// part of the features.
  static bool makes_own(const Operator& op) {
    return op.kind == OperatorKind::activation || op.kind == OperatorKind::causal_conv || op.kind == OperatorKind::residual ||
           (op.kind == OperatorKind::linear && op.split != TpSplit::column);
  }

  /// Returns the tensor that a linear reads: the index of the norm whose output it is, else the layer's input or the
  /// encoder's output.
  [[nodiscard]] int source_of(std::size_t i) const {
    const Operator& op = operators_[i];
    if (op.cross) return kEncoder;
    if (kind_before(i) == OperatorKind::pool) return static_cast<int>(i) - 1;  // pooling outputs a tensor of its own
    if (i > 0 && makes_own(operators_[i - 1]) && operators_[i - 1].out == op.in) return static_cast<int>(i) - 1;
    for (std::size_t n = i; n-- > 0;) {
      if (operators_[n].kind == OperatorKind::norm && operators_[n].in == op.in) return static_cast<int>(n);
    }
    return kLayerInput;
  }

  static constexpr int kLayerInput = -1, kEncoder = -2;
  const LayerOnRank& l_;
  const LayerKind& kind_;
  const std::vector<Operator>& operators_;
  std::vector<RunAgain> again_;
  std::vector<int> kept_;  ///< inputs of linears that are kept or will be recomputed
};

}  // namespace

std::int64_t saved_bytes_of_layer(const View& view, const LayerKind& kind, RecomputeKind recompute) {
  if (partitions(view.strategy, kind)) return std::llround(partitioned_saved_bytes(view, kind, recompute == RecomputeKind::full));
  if (!kind.backward) return 0;  // no gradient reaches this layer
  const LayerOnRank layer = layer_of(view, kind, recompute);
  if (recompute == RecomputeKind::full && kind.role == LayerRole::block) {
    return std::llround(layer.a * static_cast<double>(kind.hidden) * layer.tokens / (layer.fused ? layer.sequence : 1));
  }
  return std::llround(KeptTensorWalk(layer, kind, run_again(view, kind)).sum());
}

std::int64_t hosted_bytes_of_layer(const View& view, const LayerKind& kind, RecomputeKind recompute) {
  if (kind.role != LayerRole::block || !offloads_activations(view.strategy.offload)) return 0;
  double blocks = 0;
  for (std::size_t i = 0; i < view.model->layers.size(); ++i) blocks += view.model->layer(i).role == LayerRole::block ? 1 : 0;
  const double moved = std::max(0.0, blocks - view.engine.memory.blocks_on_device) / blocks;
  const auto saved = static_cast<double>(saved_bytes_of_layer(view, kind, recompute));
  return static_cast<std::int64_t>(saved * moved * view.engine.memory.offloaded_activations);
}

namespace {

struct Waiting {
  std::int64_t device = 0, host = 0;
};

/// `view` must be under the range's own strategy.
Waiting waiting_bytes_of_range(const View& view, const LayerRange& range) {
  const Recompute& recompute = view.strategy.recompute;
  Waiting sum;
  std::int32_t blocks = 0;
  for (std::int32_t i = range.first; i <= range.last; ++i) {
    const LayerKind& kind = view.model->layer(static_cast<std::size_t>(i));
    if (kind.role == LayerRole::block) ++blocks;
    const bool beyond = recompute.kind == RecomputeKind::full && blocks > recompute.layers;
    const RecomputeKind how = beyond ? RecomputeKind::none : recompute.kind;
    const std::int64_t host = hosted_bytes_of_layer(view, kind, how);
    sum.device += saved_bytes_of_layer(view, kind, how) - host;
    sum.host += host;
  }
  return sum;
}

std::vector<Waiting> waiting_bytes_per_chunk(const View& view) {
  std::vector<Waiting> result;
  for (const Chunk& chunk : view.chunks) {
    Waiting sum;
    for (const LayerRange& range : chunk.ranges) {
      const Waiting one = waiting_bytes_of_range(view_of(view, range.strategy), range);
      sum.device += one.device;
      sum.host += one.host;
    }
    result.push_back(sum);
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> saved_bytes_per_chunk(const View& view) {
  std::vector<std::int64_t> result;
  for (const Waiting& one : waiting_bytes_per_chunk(view)) result.push_back(one.device);
  return result;
}

std::vector<std::int64_t> hosted_bytes_per_chunk(const View& view) {
  std::vector<std::int64_t> result;
  for (const Waiting& one : waiting_bytes_per_chunk(view)) result.push_back(one.host);
  return result;
}

}  // namespace espalier::check
