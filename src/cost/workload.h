// SPDX-License-Identifier: Apache-2.0
// What is trained, as the cost equations need it: the model, the training of the job, and what follows from the two
// alone. No device, no engine and no network has a say in it.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/sequence_lengths.h"

namespace espalier::cost {

struct Workload {
  const Model* model = nullptr;  ///< lives longer than this value
  Training training;
  bool experts = false;            ///< the model has some
  std::int32_t element_bytes = 2;  ///< of an activation
  std::int32_t operand_bytes = 2;  ///< of an operand of a GEMM: 1 under fp8, otherwise element_bytes

  LengthFacts lengths;  ///< of the sequences that samples are made of

  Workload(const Model& m, const Training& t);
  /// Mean keys that a token of a packed sample meets in an attention of the model.
  [[nodiscard]] double packed_keys(const Operator& attention) const;

 private:
  struct PackedKeys {
    std::int64_t window = 0;
    bool causal = false;
    double keys = 0;
  };
  std::vector<PackedKeys> packed_keys_;  ///< of every window of the model
};

}  // namespace espalier::cost
