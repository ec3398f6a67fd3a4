// SPDX-License-Identifier: Apache-2.0
#include "check/messages.h"

#include "check/arithmetic.h"
#include "check/partition_text.h"

namespace espalier::check {
namespace {

std::int64_t handed_on(const View& view, const LayerKind& kind) {
  const Sequence& sequence = view.plan->training.sequence;
  const std::int64_t tokens = kind.stream == TokenStream::fixed ? kind.boundary_tokens_fixed : layer_tokens(kind, sequence);
  const std::int64_t own = saturating_multiply(kind.hidden, tokens);
  return saturating_sum(own, saturating_multiply(kind.carried_hidden, stream_tokens(kind.carried, sequence)));
}

}  // namespace

namespace {

/// Returns the bytes of the message into chunk c, as held by the stage of `end`.
std::int64_t held_bytes(const View& end, std::size_t c) {
  const Precision precision = end.plan->training.precision;
  const std::int64_t a = precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
  const Strategy& s = end.strategy;
  const std::int64_t parts = std::int64_t{s.cp} * (s.sp == SequenceParallel::none ? 1 : s.tp);
  const LayerKind& kind = end.model->layer(static_cast<std::size_t>(end.chunks[c - 1].last()));
  if (partitions(s, kind)) return partitioned_boundary_bytes(end, kind);
  return ceil_div(saturating_product({end.micro_batch, handed_on(end, kind), a}), parts);
}

template <class EndOf>
std::vector<std::int64_t> bytes_per_chunk(const View& view, const EndOf& end_of) {
  std::vector<std::int64_t> result(view.chunks.size(), 0);
  for (std::size_t c = 1; c < view.chunks.size(); ++c)
    if (view.stage_of[c] != view.stage_of[c - 1]) result[c] = held_bytes(view_of(view, end_of(c)), c);
  return result;
}

}  // namespace

std::vector<std::int64_t> boundary_bytes_per_chunk(const View& view) {
  return bytes_per_chunk(view, [&](std::size_t c) { return view.chunks[c - 1].ranges.back().strategy; });
}

std::vector<std::int64_t> taken_bytes_per_chunk(const View& view) {
  return bytes_per_chunk(view, [&](std::size_t c) { return view.chunks[c].ranges.front().strategy; });
}

}  // namespace espalier::check
