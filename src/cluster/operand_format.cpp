// SPDX-License-Identifier: Apache-2.0
#include "cluster/operand_format.h"

#include "cluster/hardware_facts.h"

namespace espalier::cluster {
namespace {

/// Returns the format of elements of `bits` bits with a scale of 8 bits per `block` elements.
OperandFormat in_blocks(int bits, double block, double passes) {
  return {true, static_cast<std::int32_t>(4 * bits + 32 / block), static_cast<int>(passes)};
}

}  // namespace

OperandFormat operand_format(Precision precision) {
  const HardwareFacts& facts = hardware_facts();
  switch (precision) {
    case Precision::fp8: return {true, 32, 1};
    case Precision::mxfp8: return in_blocks(8, facts.mxfp8_block, facts.mxfp8_passes);
    case Precision::nvfp4: return in_blocks(4, facts.nvfp4_block, facts.nvfp4_passes);
    default: return {};
  }
}

}  // namespace espalier::cluster
