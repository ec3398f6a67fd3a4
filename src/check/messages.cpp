// SPDX-License-Identifier: Apache-2.0
#include "check/messages.h"

#include "check/arithmetic.h"
#include "check/operator_partition.h"

namespace espalier::check {
namespace {

/// Width of the encoder's output: that of the last layer on the encoder's stream.
std::int64_t encoder_width(const Model& model) {
  std::int64_t width = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layer(i).stream == TokenStream::encoder) width = model.layer(i).hidden;
  }
  return width;
}

std::int64_t handed_on(const View& view, const LayerKind& kind) {
  const Sequence& sequence = view.plan->training.sequence;
  const std::int64_t tokens = kind.stream == TokenStream::fixed ? kind.boundary_tokens_fixed : layer_tokens(kind, sequence);
  const std::int64_t own = saturating_multiply(kind.hidden, tokens);
  return kind.passes_encoder_output ? saturating_sum(own, saturating_multiply(encoder_width(*view.model), sequence.encoder))
                                    : own;
}

}  // namespace

std::vector<std::int64_t> boundary_bytes_per_chunk(const View& view) {
  const Precision precision = view.plan->training.precision;
  const std::int64_t a = precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
  std::vector<std::int64_t> result(view.chunks.size(), 0);
  for (std::size_t c = 1; c < view.chunks.size(); ++c) {
    if (view.stage_of[c] == view.stage_of[c - 1]) continue;
    const View sender = view_of(view, view.chunks[c - 1].ranges.back().strategy);  // sends what it holds, as it holds it
    const Strategy& s = sender.strategy;
    const std::int64_t parts = std::int64_t{s.cp} * (s.sp == SequenceParallel::none ? 1 : s.tp);
    const LayerKind& kind = view.model->layer(static_cast<std::size_t>(view.chunks[c - 1].last()));
    if (!s.partition.empty() && kind.role == LayerRole::block) {
      result[c] = partitioned_boundary_bytes(sender, kind);
      continue;
    }
    result[c] = ceil_div(saturating_product({sender.micro_batch, handed_on(view, kind), a}), parts);
  }
  return result;
}

}  // namespace espalier::check
