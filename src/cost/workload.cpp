// SPDX-License-Identifier: Apache-2.0
#include "cost/workload.h"

#include <algorithm>

#include "base/invariant.h"
#include "plan/structure.h"

namespace espalier::cost {

Workload::Workload(const Model& m, const Training& t) : model(&m), training(t), experts(has_experts(m)) {
  element_bytes = t.precision == Precision::fp32 || t.precision == Precision::tf32 ? 4 : 2;
  operand = cluster::operand_format(t.precision);
  operand_bytes = operand.cast ? operand.bytes() : element_bytes;
  lengths = length_facts(t);
  if (!lengths.packed) return;
  for (const LayerKind& kind : m.kinds)
    for (const Operator& op : kind.operators) {
      const auto same = [&](const PackedKeys& known) { return known.window == op.window && known.causal == op.causal; };
      if (op.kind != OperatorKind::attention || std::any_of(packed_keys_.begin(), packed_keys_.end(), same)) continue;
      packed_keys_.push_back({op.window, op.causal, espalier::packed_keys(lengths, static_cast<double>(op.window), op.causal)});
    }
}

double Workload::packed_keys(const Operator& attention) const {
  for (const PackedKeys& known : packed_keys_)
    if (known.window == attention.window && known.causal == attention.causal) return known.keys;
  ESPALIER_CHECK(false);
}

}  // namespace espalier::cost
