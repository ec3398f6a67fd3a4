// SPDX-License-Identifier: Apache-2.0
// What is trained, as the cost equations need it: the model, the training of the job, and what follows from the two alone. No device, no
// engine and no network has a say in it.
#pragma once

#include <cstdint>

#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::cost {

struct Workload {
  const Model* model = nullptr;  ///< lives longer than this value
  Training training;
  bool experts = false;            ///< the model has some
  std::int32_t element_bytes = 2;  ///< of an activation
  std::int32_t operand_bytes = 2;  ///< of an operand of a GEMM: 1 under fp8, otherwise element_bytes

  Workload(const Model& m, const Training& t);
};

}  // namespace espalier::cost
