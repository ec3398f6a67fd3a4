// SPDX-License-Identifier: Apache-2.0
// Compares every message about a wrong job of the corpus in full, so that a change of wording is visible.
#include <sstream>
#include <vector>

#include "espalier/planner.h"
#include "golden.h"

namespace espalier::messages_test {
namespace {

const char* const kGood = R"(model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}
cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}
training: {sequence_length: 128, global_batch: 8}
)";

struct Case {
  const char* name;
  std::string text;
  std::vector<std::string> overrides;
};

std::vector<Case> cases() {
  const std::string good = kGood;
  return {
      {"not YAML", "model: [1, 2\n", {}},
      {"not a mapping", "[1, 2]\n", {}},
      {"empty", "", {}},
      {"duplicate key", good + "engine: generic\nengine: generic\n", {}},
      {"unknown key", good + "engin: generic\n", {}},
      {"unknown training key", good, {"training.batch=8"}},
      {"wrong type", good, {"training.global_batch=many"}},
      {"negative", good, {"training.global_batch=-1"}},
      {"real for a count", good, {"training.global_batch=8.5"}},
      {"too long", good, {"training.sequence_length=4096"}},
      {"unknown precision", good, {"training.precision=bf17"}},
      {"precision of the device", good, {"cluster.device=v100-sxm-32gb"}},
      {"unknown device", good, {"cluster.device=h100"}},
      {"unknown engine", good, {"engine=megatron"}},
      {"unknown dimension", good, {"search.fix={tq: 2}"}},
      {"unknown value", good, {"search.allow={schedule: [1f1b, interlaced]}"}},
      {"fix of several", good, {"search.fix={tp: [2, 4]}"}},
      {"unknown space", good, {"search.space=spatial-temporal"}},
      {"offload", good, {"training.offload=true"}},
      {"unknown model type", good, {"model.model_type=gpt5"}},
      {"heads do not divide", good, {"model.n_head=5"}},
      {"override without a value", good, {"training.global_batch"}},
      {"override below a number", good, {"training.global_batch.x=1"}},
  };
}

TEST(Golden, Messages) {
  std::ostringstream out;
  for (const Case& c : cases()) {
    const auto job = load_job(c.text, "job.yaml", ".", c.overrides);
    out << c.name << "\n  " << (job ? "accepted" : job.error().message()) << "\n";
    EXPECT_FALSE(job) << c.name;
  }
  golden::expect_golden("messages.txt", out.str());
}

}  // namespace
}  // namespace espalier::messages_test
