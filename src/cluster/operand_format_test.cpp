// SPDX-License-Identifier: Apache-2.0
#include "cluster/operand_format.h"

#include <gtest/gtest.h>

namespace espalier::cluster {
namespace {

TEST(OperandFormat, ComputedInSixteenBitsIsNotCast) {
  for (const Precision p : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16})
    EXPECT_FALSE(operand_format(p).cast) << to_string(p);
}

// An element of 8 bits with no scale of its own is read once in 16 bits and written twice: 2 + 1 + 1.
TEST(OperandFormat, Fp8) {
  const OperandFormat x = operand_format(Precision::fp8);
  EXPECT_DOUBLE_EQ(x.bytes(), 1);
  EXPECT_DOUBLE_EQ(x.cast_bytes(), 4);
  EXPECT_DOUBLE_EQ(x.fused_cast_bytes(), 2);
}

// 32 elements and their scale take 33 bytes.
TEST(OperandFormat, MxFp8) {
  const OperandFormat x = operand_format(Precision::mxfp8);
  EXPECT_DOUBLE_EQ(x.bytes(), 33.0 / 32);
  EXPECT_DOUBLE_EQ(x.cast_bytes(), 2 + 2 * 33.0 / 32);
  EXPECT_EQ(x.passes, 1);
}

// 16 elements and their scale take 9 bytes. The tensor is read twice.
TEST(OperandFormat, NvFp4) {
  const OperandFormat x = operand_format(Precision::nvfp4);
  EXPECT_DOUBLE_EQ(x.bytes(), 9.0 / 16);
  EXPECT_DOUBLE_EQ(x.cast_bytes(), 2 + 2 + 2 * 9.0 / 16);
  EXPECT_DOUBLE_EQ(x.fused_cast_bytes(), 2 + 2 * 9.0 / 16);
  EXPECT_EQ(x.passes, 2);
}

}  // namespace
}  // namespace espalier::cluster
