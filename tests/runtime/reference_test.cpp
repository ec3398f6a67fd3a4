// SPDX-License-Identifier: Apache-2.0
// Compares the executor with Hugging Face transformers, for tiny models with given weights, on one process and on
// several. Logits and the gradients of the first step are within 1e-4 of the files of reference/make_reference.py.
// For logits this is relative to the largest, for gradients to the largest of their layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "data/source_dir.h"
#include "runtime/crew.h"
#include "runtime/small_plans.h"
#include "storage/pretrained.h"

namespace espalier::runtime::testing::reference_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kReferenceTokens = 12, kReferenceSamples = 2;

const std::vector<std::string>& families() {
  static const std::vector<std::string> all{"gpt2", "llama", "qwen2", "mixtral"};
  return all;
}

fs::path folder_of(const std::string& family) {
  return fs::path(ESPALIER_SOURCE_DIR) / "tests" / "runtime" / "reference" / family;
}

std::string config_of(const std::string& family) {
  std::ifstream in(folder_of(family) / "config.json");
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns a run on one process or on several: two stages of two ranks that split weights and sequence. With experts
/// there are two replicas that each hold half of them.
Assignment assignment(const std::string& family, bool alone) {
  const bool experts = family == "mixtral";
  Strategy s = strategy(alone || experts ? 1 : 2, alone || !experts ? 1 : 2, 0, SequenceParallel::megatron);
  if (experts && !alone) s.ep = 2;
  const Schedule c = schedule(ScheduleKind::one_f_one_b, alone || experts ? 1 : 2);
  Assignment work;
  work.plan = plan_of(config_of(family).c_str(), s, c);
  work.plan.training.sequence.main = kReferenceTokens;
  work.plan.training.global_batch = kReferenceSamples;
  work.plan.only_pipeline().schedule.microbatches = static_cast<std::int32_t>(kReferenceSamples / s.dp);
  work.name = family + (alone ? "-alone" : "-on-several");
  work.options.steps = 1;
  work.options.weights = folder_of(family).string();
  work.options.data = (folder_of(family) / "tokens.bin").string();
  return work;
}

const std::map<std::string, Outcome>& outcomes() {
  static const std::map<std::string, Outcome> all = [] {
    std::vector<Assignment> work;
    for (const std::string& family : families())
      for (const bool alone : {true, false}) work.push_back(assignment(family, alone));
    return run_all(work, 120);
  }();
  return all;
}

class Reference : public ::testing::TestWithParam<std::string> {
 protected:
  static void compare_logits(const Outcome& found, const storage::TensorFolder& expected) {
    const storage::TensorEntry* entry = expected.find("logits");
    ASSERT_NE(entry, nullptr);
    const storage::TensorValues logits = expected.values("logits");
    const std::int64_t rows = entry->shape[2];
    ASSERT_EQ(static_cast<std::int64_t>(found.logits.size()), kReferenceSamples * kReferenceTokens * rows);
    double most = 0, largest = 0;
    for (const auto& [place, value] : found.logits) {
      const double other = logits[(place[0] * kReferenceTokens + place[1]) * rows + place[2]];
      largest = std::max(largest, std::abs(other));
      most = std::max(most, std::abs(static_cast<double>(value) - other));
    }
    EXPECT_GT(largest, 0.5);
    EXPECT_LE(most, 1e-4 * largest);
  }

  static void compare_gradients(const Outcome& found, const storage::Pretrained& expected) {
    for (const auto& [layer, values] : found.gradients) {
      const std::vector<float> others = expected.elements(layer, {{0, static_cast<std::int64_t>(values.size())}});
      double most = 0, largest = 0;
      for (const auto& [element, value] : values) {
        const double other = others[static_cast<std::size_t>(element)];
        largest = std::max(largest, std::abs(other));
        most = std::max(most, std::abs(static_cast<double>(value) - other));
      }
      EXPECT_GT(largest, 0) << "layer " << layer;
      EXPECT_LE(most, 1e-4 * largest) << "layer " << layer;
    }
  }
};

/// Returns the file of expected values without the logits, which are not a parameter.
storage::Pretrained gradients_of(const std::string& family, const Model& model) {
  auto opened = storage::Pretrained::open((folder_of(family) / "gradients.safetensors").string(), model);
  EXPECT_TRUE(opened.ok()) << opened.error().message();
  return *opened;
}

TEST_P(Reference, LogitsAndFirstGradients) {
  const Model model = model_of(config_of(GetParam()).c_str());
  const auto logits = storage::TensorFolder::open((folder_of(GetParam()) / "logits.safetensors").string());
  ASSERT_TRUE(logits.ok()) << logits.error().message();
  const storage::Pretrained gradients = gradients_of(GetParam(), model);
  for (const char* where : {"-alone", "-on-several"}) {
    SCOPED_TRACE(where);
    const Outcome& found = outcomes().at(GetParam() + where);
    ASSERT_EQ(found.steps.size(), 1u) << found.errors;
    compare_logits(found, *logits);
    ASSERT_EQ(found.gradients.size(), model.layers.size());
    compare_gradients(found, gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Reference, ::testing::ValuesIn(families()), [](const auto& of) { return of.param; });

}  // namespace
}  // namespace espalier::runtime::testing::reference_test
