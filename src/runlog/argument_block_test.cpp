// SPDX-License-Identifier: Apache-2.0
#include "runlog/argument_block.h"

#include <gtest/gtest.h>

namespace espalier::runlog {
namespace {

const char* const kBlock =
    "using world size: 16\n"
    "0: ------------------------ arguments ------------------------\n"
    "0:   bf16 ............................................ True\n"
    "[rank0]:   micro_batch_size ................................ 2\r\n"
    "  data_path ....................................... ['/a b', '0.5']\n"
    "  lr .. 0.0003\n"
    "  broken\n"
    "  also broken ..........\n"
    "-------------------- end of arguments ---------------------\n"
    "  hidden_size ..................................... 1\n";

TEST(ArgumentBlock, NamesAndValuesBetweenItsLines) {
  const auto read = read_argument_block(kBlock, "log");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->size(), 4u);  // lines after the end do not count
  EXPECT_EQ(read->at("bf16").value, "True");
  EXPECT_EQ(read->at("data_path").value, "['/a b', '0.5']");
  EXPECT_EQ(read->at("micro_batch_size").line, 4);
  EXPECT_EQ(integer_of(read->at("micro_batch_size")), 2);
  EXPECT_EQ(integer_of(read->at("lr")), std::nullopt);
}

TEST(ArgumentBlock, NoneIsNoError) {
  const auto read = read_argument_block("step: 1 loss: 2\n", "log");
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->empty());
}

TEST(ArgumentBlock, TwoRunsInOneLogAreRefusedWithBothLines) {
  std::string twice(kBlock);
  twice += kBlock;
  ASSERT_TRUE(read_argument_block(twice, "log"));
  twice.replace(twice.rfind("... 2\r"), 5, "... 4");
  const auto read = read_argument_block(twice, "log");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("log:14"), std::string::npos) << read.error().message();
  EXPECT_NE(read.error().message().find("line 4"), std::string::npos);
}

}  // namespace
}  // namespace espalier::runlog
