// SPDX-License-Identifier: Apache-2.0
// Counts parameters, tokens, boundary elements and FLOPs of a model. Declared in include/espalier/model.h.
#include <algorithm>

#include "base/invariant.h"
#include "espalier/model.h"

namespace espalier {
namespace {

std::int64_t active_parameters(const Operator& op) {
  const bool routed = op.kind == OperatorKind::expert_linear && op.experts > 0;
  return routed ? op.parameters / op.experts * op.top_k : op.parameters;
}

/// Returns the mean number of keys that a query attends to, out of `own` candidates.
double mean_keys(const Operator& op, double own, const Sequence& sequence, bool causal_half) {
  const double reach = op.chunk > 0 ? std::min(own, static_cast<double>(op.chunk)) : own;
  const double keys = op.cross ? static_cast<double>(sequence.encoder) : reach;
  const double window = static_cast<double>(op.window);
  const bool half = op.causal && causal_half && !op.cross;
  // Σ over queries i of min(i, w) / keys = w − w²/(2·keys): the first w queries see fewer keys.
  if (window > 0 && window < keys) return half ? window - window * window / (2 * keys) : window;
  return half ? keys / 2 : keys;
}

/// Returns the FLOPs of a scan per token; include/espalier/model.h defines them.
double scan_flops(const Operator& op, bool causal_half) {
  const double k = op.qk_dim, v = op.v_dim, c = static_cast<double>(op.chunk), triangle = causal_half ? 1 : 2;
  switch (op.kind) {
    case OperatorKind::chunked_scan: return op.heads * (triangle * c * (k + v) + 4 * k * v);
    case OperatorKind::gated_delta: return op.heads * (triangle * c * (3 * k + 2 * v) + 6 * k * v + c * c / 3);
    case OperatorKind::scan: return 6 * static_cast<double>(op.in) * k;
    default: return 2 * static_cast<double>(op.in) * c;  // causal_conv
  }
}

double operator_flops(const LayerKind& kind, const Operator& op, double tokens, const Sequence& sequence, bool causal_half) {
  const double gemm = 2.0 * static_cast<double>(op.in) * static_cast<double>(op.out);
  switch (op.kind) {
    case OperatorKind::linear: return gemm * (op.cross ? static_cast<double>(sequence.encoder) : tokens);
    case OperatorKind::patch_embed:
    case OperatorKind::router: return gemm * tokens;
    case OperatorKind::expert_linear: return gemm * op.top_k * tokens;
    case OperatorKind::attention:
      return 2.0 * op.heads * (op.qk_dim + op.v_dim) * tokens *
             mean_keys(op, static_cast<double>(attended_tokens(kind, sequence)), sequence, causal_half);
    case OperatorKind::causal_conv:
    case OperatorKind::scan:
    case OperatorKind::chunked_scan:
    case OperatorKind::gated_delta: return scan_flops(op, causal_half) * tokens;
    default: return 0;  // element-wise, lookups and moves: bytes, not FLOPs
  }
}

}  // namespace

std::int64_t Model::blocks() const {
  return std::count_if(layers.begin(), layers.end(),
                       [&](std::int32_t k) { return kinds[static_cast<std::size_t>(k)].role == LayerRole::block; });
}

std::int64_t parameter_count(const LayerKind& kind) {
  std::int64_t sum = 0;
  for (const Operator& op : kind.operators) sum += op.parameters;
  return sum;
}

std::int64_t parameter_count(const Model& model) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) sum += parameter_count(model.layer(i));
  return sum;
}

std::int64_t trained_parameter_count(const Model& model) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    for (const Operator& op : model.layer(i).operators) sum += (op.frozen ? 0 : op.parameters) + op.adapter_parameters();
  return sum;
}

std::int64_t active_parameter_count(const Model& model) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const Operator& op : model.layer(i).operators) sum += active_parameters(op);
  }
  return sum;
}

namespace {

/// Returns the tokens per sample of a stream; fixed ones are defined by the layer.
std::int64_t stream_tokens(TokenStream stream, const Sequence& sequence) {
  switch (stream) {
    case TokenStream::main: return sequence.main;
    case TokenStream::encoder: return sequence.encoder;
    case TokenStream::decoder: return sequence.decoder;
    case TokenStream::fixed: break;
  }
  ESPALIER_CHECK(false);
}

}  // namespace

std::int64_t tokens_per_sample(const LayerKind& kind, const Sequence& sequence) {
  if (kind.stream == TokenStream::fixed) return kind.fixed_tokens;
  return stream_tokens(kind.stream, sequence) / kind.tokens_divisor;
}

std::int64_t attended_tokens(const LayerKind& kind, const Sequence& sequence) {
  return tokens_per_sample(kind, sequence) / (kind.stream == TokenStream::encoder ? sequence.images : 1);
}

std::int64_t boundary_elements(const LayerKind& kind, const Sequence& sequence) {
  if (kind.role == LayerRole::head) return 0;
  const std::int64_t tokens = kind.stream == TokenStream::fixed ? kind.boundary_tokens_fixed : tokens_per_sample(kind, sequence);
  return kind.hidden * tokens + (kind.carried_hidden > 0 ? kind.carried_hidden * stream_tokens(kind.carried, sequence) : 0);
}

Flops forward_flops(const LayerKind& kind, const Sequence& sequence, bool causal_half) {
  const double tokens = static_cast<double>(tokens_per_sample(kind, sequence));
  double sum = 0;
  for (const Operator& op : kind.operators) sum += operator_flops(kind, op, tokens, sequence, causal_half);
  return Flops(sum);
}

namespace {

/// Returns the training FLOPs beyond three times the forward pass. They are negative if gradients of weights, or all
/// gradients, are not needed, and positive for adapters. Attention and scans have no weights: their backward is
/// always twice their forward.
double beside_thrice_forward(const LayerKind& kind, const Sequence& sequence, bool causal_half) {
  const double tokens = static_cast<double>(tokens_per_sample(kind, sequence));
  double sum = 0;
  for (const Operator& op : kind.operators) {
    const double flops = operator_flops(kind, op, tokens, sequence, causal_half);
    if (op.adapters > 0) sum += 3.0 * flops * static_cast<double>(op.adapter_parameters()) / static_cast<double>(op.in * op.out);
    if (!kind.backward)
      sum -= 2.0 * flops;
    else if (op.frozen)
      sum -= flops;
  }
  return sum;
}

}  // namespace

Flops training_flops(const Model& model, const Sequence& sequence, bool causal_half) {
  Flops forward{0};
  double beside = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    forward += forward_flops(model.layer(i), sequence, causal_half);
    beside += beside_thrice_forward(model.layer(i), sequence, causal_half);
  }
  // Backward: one GEMM for the input gradient and one for the weight gradient, each as large as forward.
  return Flops(forward.count() * 3.0 + beside);
}

}  // namespace espalier
