// SPDX-License-Identifier: Apache-2.0
#include "cost/workload.h"

#include "plan/structure.h"

namespace espalier::cost {

Workload::Workload(const Model& m, const Training& t) : model(&m), training(t), experts(has_experts(m)) {
  element_bytes = t.precision == Precision::fp32 || t.precision == Precision::tf32 ? 4 : 2;
  operand_bytes = t.precision == Precision::fp8 ? 1 : element_bytes;
  for (std::size_t i = 0; i < m.layers.size(); ++i)
    if (m.layer(i).stream == TokenStream::encoder) encoder_hidden = m.layer(i).hidden;
}

}  // namespace espalier::cost
