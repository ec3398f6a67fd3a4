// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_problem.h"

#include <gtest/gtest.h>

#include "reference/v1_fixture.h"

namespace espalier::reference {
namespace {

using Division = std::vector<std::int32_t>;

TEST(V1Problem, UniformModelsAreCutEvenly) {
  const V1Workload bert = workload("BERT-Huge-32", 8);
  EXPECT_EQ(*v1_division(bert, 8, 4), (Division{8, 8, 8, 8}));
  EXPECT_EQ(*v1_division(bert, 8, 1), (Division{32}));
}

// 2-1-4 and 4-1-2 of the published plans: T5-Large-32 at 8 GB, Swin-Huge-32 at 12 GB ("11,21" in the authors' file),
// and on two nodes T5-Large-48 at 12 GB.
TEST(V1Problem, OthersByMemory) {
  EXPECT_EQ(*v1_division(workload("T5-Large-32", 8), 8, 4), (Division{7, 11, 7, 7}));
  EXPECT_EQ(*v1_division(workload("Swin-Huge-32", 8), 64, 2), (Division{11, 21}));
  EXPECT_EQ(*v1_division(workload("T5-Large-48", 16), 24, 8), (Division{8, 8, 8, 5, 5, 5, 5, 4}));
}

// One stage of BERT-Huge-32 at batch 8 takes ⌈4·76.98 + 94.07⌉ = 402 MB a layer, and has 8192 − (790 + 300 + 1024) MB
// for the layers.
TEST(V1Problem, WholeMegabytes) {
  const auto stages = v1_stages(workload("BERT-Huge-32", 8), 8192, 8, 1, V1Capacity::published);
  ASSERT_TRUE(stages);
  EXPECT_EQ(stages->strategies.size(), 11u);
  EXPECT_EQ(stages->model.options[0][0].states, 402);
  EXPECT_EQ(stages->capacity, (std::vector<std::int64_t>{6078}));
  EXPECT_EQ(v1_stage(*stages, 4, 9).layers.size(), 5u);
}

// On two nodes, only the ends of a pipeline hold more than the context, 1024 MB. The authors use one solution for all
// stages, that of the fullest.
TEST(V1Problem, CapacityOfStages) {
  const V1Workload bert = workload("BERT-Huge-32", 16);
  const auto published = v1_stages(bert, 8192, 16, 4, V1Capacity::published);
  const auto each = v1_stages(bert, 8192, 16, 4, V1Capacity::per_stage);
  ASSERT_TRUE(published && each);
  EXPECT_EQ(published->capacity, std::vector<std::int64_t>(4, published->capacity[0]));
  EXPECT_EQ(each->capacity[1], 8192 - 1024);
  EXPECT_EQ(std::min(each->capacity[0], each->capacity[3]), published->capacity[0]);
  EXPECT_FALSE(v1_stages(bert, 8192, 8, 1, V1Capacity::published));  // 8 samples on 16 devices
}

}  // namespace
}  // namespace espalier::reference
