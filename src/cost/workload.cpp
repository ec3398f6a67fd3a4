// SPDX-License-Identifier: Apache-2.0
#include "cost/workload.h"

#include "plan/structure.h"

namespace espalier::cost {

Workload::Workload(const Model& m, const Training& t) : model(&m), training(t), experts(has_experts(m)) {
  element_bytes = t.precision == Precision::fp32 || t.precision == Precision::tf32 ? 4 : 2;
  operand_bytes = t.precision == Precision::fp8 ? 1 : element_bytes;
}

}  // namespace espalier::cost
