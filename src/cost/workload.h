// SPDX-License-Identifier: Apache-2.0
// The trained workload as the cost equations need it: the model, the training of the job, and what follows from the
// two alone. It does not depend on a device, an engine or a network.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/operand_format.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/sequence_lengths.h"

namespace espalier::cost {

struct Workload {
  const Model* model = nullptr;  ///< outlives this value
  Training training;
  bool experts = false;            ///< the model has experts
  std::int32_t element_bytes = 2;  ///< bytes of an element of an activation
  cluster::OperandFormat operand;
  double operand_bytes = 2;  ///< bytes of an element of a GEMM operand: those of its format, or element_bytes

  LengthFacts lengths;  ///< lengths of the sequences that samples are made of

  Workload(const Model& m, const Training& t);
  /// Returns the mean number of keys that a token of a packed sample meets in an attention of the model.
  [[nodiscard]] double packed_keys(const Operator& attention) const;

 private:
  struct PackedKeys {
    std::int64_t window = 0;
    bool causal = false;
    double keys = 0;
  };
  std::vector<PackedKeys> packed_keys_;  ///< one for every window of the model
};

}  // namespace espalier::cost
