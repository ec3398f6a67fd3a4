// SPDX-License-Identifier: Apache-2.0
// Describes the operands of matrix products by precision.
//
//   precision  element                  scale                        kernels of a cast
//   fp8        8 bits                   one per tensor               1
//   mxfp8      8 bits (E4M3)            8 bits per 32 elements       1
//   nvfp4      4 bits (E2M1)            8 bits per 16 elements       2: largest value, then cast.
//
// A cast writes two copies, by rows and by columns, because each of them has scales of its own. The products of the
// backward pass read the second one. Blocks of scales and passes are rows of data/facts.yaml.
#pragma once

#include <cstdint>

#include "espalier/cluster.h"

namespace espalier::cluster {

struct OperandFormat {
  bool cast = false;                ///< operands are cast from 16 bits
  std::int32_t thirty_seconds = 0;  ///< size of an element with its share of a scale, in 1/32 bytes; 0: not cast
  int passes = 0;                   ///< kernels of a cast, each of which reads the tensor
  /// Returns the size of an element with its share of a scale.
  [[nodiscard]] double bytes() const { return thirty_seconds / 32.0; }
  /// Returns the traffic of a cast in bytes per element: each pass reads 2 bytes, and the last one writes two copies.
  [[nodiscard]] double cast_bytes() const { return 2.0 * passes + 2.0 * bytes(); }
  /// Returns that of a cast whose first read belongs to the operator before it.
  [[nodiscard]] double fused_cast_bytes() const { return cast_bytes() - 2.0; }
};

OperandFormat operand_format(Precision precision);

}  // namespace espalier::cluster
