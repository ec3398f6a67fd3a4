// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering_facts.h"

#include <algorithm>

#include "plan/shared_table.h"

namespace espalier {

bool has_experts(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const LayerKind& kind) {
    return std::any_of(kind.operators.begin(), kind.operators.end(),
                       [](const Operator& op) { return op.kind == OperatorKind::expert_linear; });
  });
}

void lowering_facts(const Model& model, const Strategy& s, const Schedule& schedule, const std::vector<std::int32_t>& layers,
                    Lowering& out) {
  const bool once = s.zero <= 1;
  out.schedule = schedule;
  out.reduce_gradients =
      (s.data_ranks() > 1 && (once || s.shard < s.data_ranks())) || (once && s.expert_data_ranks() > 1 && has_experts(model));
  out.overlap_reduce = out.reduce_gradients && s.overlap.grad_reduce;
  out.gather_parameters = s.zero == 1 || s.zero == 2;
  out.overlap_gather = out.gather_parameters && s.overlap.param_gather;
  out.overlap_p2p = s.overlap.p2p;
  table_chunks(model, schedule, layers, out.table_chunks);
  out.pieces.resize(layers.size());
  const bool cut = out.overlap_reduce || out.overlap_gather;
  for (std::size_t c = 0; c < layers.size(); ++c)
    out.pieces[c] = static_cast<std::uint8_t>(cut ? std::clamp(layers[c], 1, kMaxPieces) : 1);
}

void lowering_facts(const Model& model, const std::vector<const Strategy*>& strategies, const Schedule& schedule,
                    const std::vector<std::int32_t>& layers, Lowering& out) {
  lowering_facts(model, *strategies.front(), schedule, layers, out);
  bool reduce = out.reduce_gradients, gather = out.gather_parameters;
  Overlap on = strategies.front()->overlap;
  Lowering one;
  for (const Strategy* s : strategies) {
    if (*s == *strategies.front()) continue;
    lowering_facts(model, *s, schedule, layers, one);
    reduce |= one.reduce_gradients, gather |= one.gather_parameters;
    on.grad_reduce |= s->overlap.grad_reduce, on.param_gather |= s->overlap.param_gather;
  }
  out.reduce_gradients = reduce, out.gather_parameters = gather;
  out.overlap_reduce = reduce && on.grad_reduce, out.overlap_gather = gather && on.param_gather;
  const bool cut = out.overlap_reduce || out.overlap_gather;
  for (std::size_t c = 0; c < layers.size(); ++c)
    out.pieces[c] = static_cast<std::uint8_t>(cut ? std::clamp(layers[c], 1, kMaxPieces) : 1);
}

}  // namespace espalier
