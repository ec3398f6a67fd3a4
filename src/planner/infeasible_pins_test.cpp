// SPDX-License-Identifier: Apache-2.0
// Tests exit code 4: the message names the minimal set of pins that exclude each other, the rule, and
// changes that work.
#include "planner/infeasible_pins.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "espalier/planner.h"
#include "plan/engine.h"

namespace espalier::planner::infeasible_pins_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Returns a small GPT-2: 12 blocks (14 layers), 12 heads, on 8 devices with a batch of 64.
Result<Job> job_with(const std::string& search, const std::string& rest = "") {
  return load_job(
      "model: {model_type: gpt2, n_layer: 12, n_embd: 96, n_head: 12, n_positions: 128, vocab_size: 256}\n"
      "cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\ntraining: {sequence_length: 128, global_batch: 64}\n"
      "search: " +
          search + "\n" + rest,
      "job.yaml", ".", {});
}

Error refused(const std::string& search, const std::string& rest = "") {
  const auto job = job_with(search, rest);
  if (!job) return job.error();
  const auto result = plan(*job, {});
  EXPECT_FALSE(result.ok()) << search;
  return result ? Error{} : result.error();
}

// tp · cp · dp · pp must equal the number of devices: 8 · 1 · 1 · 2 = 16 does not.
TEST(Excluded, NamesThePinsTogether) {
  const Error e = refused("{fix: {tp: 4, pp: 4, zero: 1}, limits: {vpp: 4}}");
  EXPECT_EQ(e.kind, ErrorKind::infeasible);
  EXPECT_THAT(e.found, AllOf(HasSubstr("search.fix.pp: 4 and search.fix.tp: 4 exclude each other"), HasSubstr("16 ranks")));
  EXPECT_THAT(e.message(),
              AllOf(Not(HasSubstr("search.fix.zero")), Not(HasSubstr("limits.vpp")), Not(HasSubstr("dp 8, batch 64"))));
  EXPECT_THAT(e.hint, AllOf(HasSubstr("search.fix.pp: 2"), HasSubstr("search.fix.tp: 2")));
}

TEST(Excluded, EightMistakesHaveEightReasons) {
  const struct {
    const char *search, *pins, *rule;
  } cases[] = {
      {"{fix: {schedule: gpipe, pp: 1}}", "search.fix.pp: 1 and search.fix.schedule: gpipe", "schedule-pipeline"},
      {"{fix: {sp: megatron, tp: 1}}", "search.fix.sp: megatron and search.fix.tp: 1", "sp-needs-tp"},
      {"{fix: {zero: 3, schedule: zb-h1}}", "search.fix.schedule: zb-h1 and search.fix.zero: 3", "zero-bubble-zero"},
      {"{fix: {zero: 0, shard: 4}}", "search.fix.shard: 4 and search.fix.zero: 0", "zero-shard"},
      {"{fix: {schedule: 1f1b, vpp: 2}}", "search.fix.schedule: 1f1b and search.fix.vpp: 2", "virtual-stages"},
      {"{fix: {tp: 8}}", "search.fix.tp: 8", "divide-heads"},
      {"{fix: {dp: 8, micro_batch: 16}}", "search.fix.dp: 8 and search.fix.micro_batch: 16", "divide-batch"},
      {"{fix: {pp: 1}, forbid: {schedule: 1f1b}}", "search.fix.pp: 1 and search.forbid.schedule: 1f1b", "schedule-pipeline"},
      {"{limits: {tp: 1, cp: 1, pp: 1, dp: 4}}",
       "search.limits.cp: 1, search.limits.dp: 4, search.limits.pp: 1 and search.limits.tp: 1", "world"},
      {"{forbid: {recompute: [none, selective, full]}}", "search.forbid.recompute: [none, selective, full]",
       "no value of recompute is left"},
  };
  for (const auto& c : cases) {
    const Error e = refused(c.search);
    EXPECT_EQ(e.kind, ErrorKind::infeasible) << c.search << ": " << e.message();
    EXPECT_THAT(e.found, AllOf(HasSubstr(c.pins), HasSubstr(c.rule))) << c.search;
    EXPECT_THAT(e.hint, HasSubstr("would do")) << c.search;
  }
}

TEST(Excluded, TheEngineCanBeOneOfThem) {
  const Error e = refused("{fix: {pp: 2, zero: 0}}", "engine: fsdp2\n");
  EXPECT_THAT(e.found, AllOf(HasSubstr("engine: fsdp2"), HasSubstr("FSDP-")));
  EXPECT_THAT(e.hint, HasSubstr("engine: generic"));
}

// The engine without a version is the newest version, so that it is suggested by that version.
TEST(Excluded, AnotherVersionOfTheEngineIsNamed) {
  const Job job = *job_with("{fix: {pp: 2, zero: 0}}", "engine: megatron-core@0.17\n");
  EngineModel newer = *find_engine("megatron-core@0.19"), older = *find_engine("megatron-core@0.16");
  EXPECT_THAT(other_engines(job, {}), AllOf(HasSubstr("engine: generic"), Not(HasSubstr("megatron-core "))));
  EXPECT_THAT(other_engines(job, {&newer, &older}), StartsWith("engine: megatron-core@0.19 or generic"));
  newer.runs.pipeline = false;  // 0.19 has the same rule
  EXPECT_THAT(other_engines(job, {&newer, &older}), StartsWith("engine: megatron-core@0.16 or generic"));
  const Job latest = *job_with("{fix: {pp: 2, zero: 0}}", "engine: fsdp2\n");
  EXPECT_THAT(other_engines(latest, {}), HasSubstr("generic or megatron-core or"));
}

// 31 is prime: 32 samples, 12 heads, 14 layers and 128 tokens (zig-zag: 62 slices) are not multiples of it.
TEST(Excluded, WithoutPinsTheRulesAreNamed) {
  const auto odd = load_job(
      "model: {model_type: gpt2, n_layer: 12, n_embd: 96, n_head: 12, n_positions: 128, vocab_size: 256}\n"
      "cluster: {nodes: 31, devices_per_node: 1, device: h100-sxm-80gb}\ntraining: {sequence_length: 128, global_batch: 32}\n",
      "job.yaml", ".", {});
  ASSERT_TRUE(odd) << odd.error().message();
  const auto result = plan(*odd, {});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().found, AllOf(HasSubstr("with any restrictions"), HasSubstr("divide-batch"),
                                          HasSubstr("divide-heads"), HasSubstr("stages")));
  EXPECT_THAT(result.error().hint, AllOf(HasSubstr("training.global_batch: 31"), HasSubstr("cluster.nodes: ")));
}

TEST(SpaceValues, OutOfRangeIsBadInputWithItsPlace) {
  const struct {
    const char *search, *found, *expected;
  } cases[] = {
      {"{fix: {zero: 4}}", "4", "from 0 to 3"},
      {"{forbid: {zero: [2, 4]}}", "4", "from 0 to 3"},
      {"{limits: {pp: 0}}", "0", "at least 1"},
      {"{fix: {tp: 0}}", "0", "≥ 1"},
      {"{fix: {tp: 3}}", "3", "1, 2, 4 or 8: divisors of the 8 devices"},
      {"{fix: {pp: 16}}", "16", "divisors of the 8 devices up to the 14 layers"},
      {"{fix: {ep: 2}}", "2", "the model has no experts"},
      {"{fix: {micro_batch: 3}}", "3", "divisors of the global batch 64"},
      {"{fix: {recompute_layers: 13}}", "13", "blocks of the model"},
      {"{allow: {tp: [3, 5]}}", "3 or 5", "divisors of the 8 devices"},
  };
  for (const auto& c : cases) {
    const Error e = refused(c.search);
    EXPECT_EQ(e.kind, ErrorKind::bad_input) << c.search << ": " << e.message();
    EXPECT_THAT(e.where, HasSubstr("job.yaml:4:")) << c.search;
    EXPECT_THAT(e.found, HasSubstr(c.found)) << c.search;
    EXPECT_THAT(e.expected, HasSubstr(c.expected)) << c.search;
  }
}

TEST(SpaceValues, AListMayHoldValuesForLargerClusters) {
  EXPECT_TRUE(job_with("{allow: {tp: [1, 2, 16]}, limits: {pp: 64}, forbid: {dp: 32}}"));
}

// If memory excludes all plans, the error names memory and the pin that costs it. With data parallelism alone, a
// device holds parameters, gradients and states of all 1.4 M weights. ZeRO over 8 divides them, so nine tenths of the
// memory suffice once zero is free.
TEST(Infeasible, NamesThePinThatCostsTheMemory) {
  auto job = job_with("{fix: {zero: 0, tp: 1, pp: 1, cp: 1, recompute: none, micro_batch: 1}, memory_margin: 0}");
  ASSERT_TRUE(job) << job.error().message();
  const auto fits = plan(*job, {});
  ASSERT_TRUE(fits) << fits.error().message();
  job->cluster.memory_limit = Bytes(fits->prediction.peak_memory_bytes / 10 * 9);
  const auto refusal = plan(*job, {});
  ASSERT_FALSE(refusal.ok());
  EXPECT_EQ(refusal.error().kind, ErrorKind::infeasible);
  EXPECT_EQ(refusal.error().where, "memory");
  EXPECT_THAT(refusal.error().hint, AllOf(HasSubstr("without search.fix.zero: 0, "), HasSubstr("cluster.memory_limit: ")));
  job->search.allowed.erase(Dimension::zero);
  EXPECT_TRUE(plan(*job, {}).ok());
}

TEST(Job, WordsOfOtherToolsAreUnderstood) {
  const auto read = [](const std::string& training, const std::string& cluster) {
    return load_job("model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}\ncluster: " +
                        cluster + "\ntraining: {sequence_length: 128, global_batch: 8, " + training + "}\n",
                    "job.yaml", ".", {});
  };
  const std::string usual = "{nodes: 1, device: h100-sxm-80gb}";
  for (const char* word : {"adamw", "AdamW", "FusedAdam", "adamw_torch_fused", "adam"}) {
    const auto job = read(std::string("optimizer: ") + word, usual);
    ASSERT_TRUE(job) << word << job.error().message();
    EXPECT_EQ(job->training.optimizer, Optimizer::adam);
  }
  for (const char* word : {"adamw_8bit", "adafactor", "lion", "adamx"})
    EXPECT_FALSE(read(std::string("optimizer: ") + word, usual)) << word;
  const std::vector<std::pair<const char*, Precision>> precisions = {
      {"BF16", Precision::bf16},       {"bfloat16", Precision::bf16}, {"torch.bfloat16", Precision::bf16},
      {"bf16-mixed", Precision::bf16}, {"float16", Precision::fp16},  {"half", Precision::fp16},
      {"float32", Precision::fp32},    {"FP8", Precision::fp8}};
  for (const auto& [word, precision] : precisions) {
    const auto job = read(std::string("precision: ") + word, usual);
    ASSERT_TRUE(job) << word << job.error().message();
    EXPECT_EQ(job->training.precision, precision) << word;
  }
  const auto gpus = read("precision: bf16", "{nodes: 2, gpus_per_node: 4, device: NVIDIA H100 80GB HBM3}");
  ASSERT_TRUE(gpus) << gpus.error().message();
  EXPECT_EQ(gpus->cluster.devices(), 8);
  EXPECT_EQ(gpus->cluster.groups.front().device.name, "h100-sxm-80gb");
}

TEST(Job, AFolderStandsForItsConfig) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "espalier_job_folder";
  std::filesystem::create_directories(folder / "gpt");
  std::ofstream(folder / "gpt/config.json")
      << R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 256})";
  const std::string rest = "\ncluster: {nodes: 1, device: h100-sxm-80gb}\ntraining: {sequence_length: 128, global_batch: 8}\n";
  const auto job = load_job("model: gpt" + rest, "job.yaml", folder.string(), {});
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_EQ(job->model.name, "gpt");
  EXPECT_THAT(load_job("model: gtp" + rest, "job.yaml", folder.string(), {}).error().message(), HasSubstr("did you mean gpt?"));
}

TEST(Job, NotesSayWhatIsNotPlannedAndWhatIsTooLong) {
  const std::string llama =
      "{model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 8, intermediate_size: 96, "
      "vocab_size: 100, max_position_embeddings: 256";
  const std::string rest = "\ncluster: {nodes: 1, device: h100-sxm-80gb}\ntraining: {sequence_length: 256, global_batch: 8}\n";
  const auto quiet = load_job("model: " + llama + "}" + rest, "job.yaml", ".", {});
  ASSERT_TRUE(quiet) << quiet.error().message();
  EXPECT_TRUE(quiet->notes.empty());
  const auto loud =
      load_job("model: " + llama + ", flux_capacitors: 3}" + rest, "job.yaml", ".", {"training.sequence_length=512"});
  ASSERT_TRUE(loud) << loud.error().message();
  ASSERT_EQ(loud->notes.size(), 2u);
  EXPECT_THAT(loud->notes[0], HasSubstr("flux_capacitors"));
  EXPECT_THAT(loud->notes[1], AllOf(HasSubstr("512"), HasSubstr("max_position_embeddings 256")));
  // Every answer carries the notes, and so does the job that a plan embeds.
  const auto result = plan(*loud, {});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->notes, loud->notes);
  EXPECT_THAT(to_json(*result), HasSubstr("flux_capacitors"));
  EXPECT_EQ(job_of_plan(result->plan)->notes, loud->notes);
}

}  // namespace
}  // namespace espalier::planner::infeasible_pins_test
