// SPDX-License-Identifier: Apache-2.0
// Tests invented records of runs on unequal devices and links.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "plan/engine.h"
#include "plan/process_groups.h"
#include "planner/estimate.h"
#include "runs/network_cases.h"
#include "runs/validate.h"

namespace espalier::runs::mixed_run_test {
namespace {

using testing::HasSubstr;

RunFile file_of(const std::string& text, const std::string& where = "test") {
  auto file = read_run_records(text, where);
  EXPECT_TRUE(file);
  return file ? *file : RunFile{};
}
RunRecord record(const std::string& text, const std::string& where = "test") {
  const RunFile file = file_of(text, where);
  EXPECT_EQ(file.records.size(), 1U) << (file.unreadable.empty() ? "" : file.unreadable.front().message());
  return file.records.empty() ? RunRecord{} : file.records.front();
}

const std::string kReplay =
    R"({"id": "a", "source": "lab", "model": {"name": "undisclosed"}, "schedule": "1F1B", "status": "ok", "measured": {"iteration_s": 1.0}, )"
    R"("stages": [{"stage": 0, "replicas": [{"dp_rank": 0, "fwd_s": 0.1, "bwd_s": 0.2}]}, )"
    R"({"stage": 1, "replicas": [{"dp_rank": 0, "fwd_s": 0.1, "bwd_s": 0.2}]}], )"
    R"("extra": {"microbatches_per_replica": 2, "mean_other_ops_s": {"optimizer": 0.02, "optimizer-clip-main-grad": 0.03, "grads-reduce-scatter": 9.0}}})";

std::string cat_text(const char* a, const char* b, const char* c, const char* d, const char* e) {
  return std::string(a) + b + c + d + e;
}
std::string replaced_recompute(std::string text) {
  const std::string none = R"("recompute": "none")";
  return text.replace(text.find(none), none.size(), R"("recompute": "full")");
}

// (2 + 2 − 1) · 0.3 = 0.9 s, and 0.05 s of update and clipping. The reduction contains waiting and is not added.
TEST(MixedRuns, MeasuredDurationsAreReplayed) {
  const Validation v = validate_runs(file_of(kReplay), planner::predict);
  ASSERT_EQ(v.results.size(), 1U);
  EXPECT_NEAR(*v.results.front().predicted_s, 0.95, 1e-9);
  EXPECT_THAT(v.results.front().label, HasSubstr("replay PP2"));
}

TEST(MixedRuns, FieldsOfAWrongTypeAreErrorsOfTheirLine) {
  for (const auto& [text, place] :
       {std::pair(R"({"id": "a", "device_groups": 3})", "$.device_groups"),
        std::pair(R"({"id": "a", "stages": [1]})", "$.stages"),
        std::pair(R"({"id": "a", "stages": [{"replicas": [{"fwd_s": "slow"}]}]})", "$.stages[0].replicas[0].fwd_s"),
        std::pair(R"({"id": "a", "stages": [{"layer_list_range": [0, 1.5]}]})", "$.stages[0].layer_list_range"),
        std::pair(R"({"id": "a", "network": {"gbps": "fast"}})", "$.network.gbps")}) {
    const RunFile file = file_of(std::string(text) + "\n");
    ASSERT_EQ(file.unreadable.size(), 1U) << text;
    EXPECT_THAT(file.unreadable.front().where, HasSubstr(place));
  }
}

TEST(MixedRuns, AsynchronousOnesAreSkippedByName) {
  const auto mapping = map_run(record(R"j({"id": "a", "framework": "hivemind (delayed averaging)", "status": "ok"})j"));
  ASSERT_TRUE(std::holds_alternative<RunSkip>(mapping));
  EXPECT_EQ(std::get<RunSkip>(mapping).reason, "asynchronous training");
}

/// Returns 2 × 4 + 4 × 1 V100 at 10 Gb/s.
std::string mixed(const std::string& more) {
  return R"({"id": "m", "source": "lab", "model": {"name": "GPT-tiny", "layers": 8, "hidden": 1024, "ffn": 4096, "heads": 16}, "seq": 1024, )"
         R"("gpu": {"type": "V100-SXM2-16GB", "mem_gb": 16, "count": 12}, "device_groups": [{"kind": "V100-16GB", "nodes": 2, "per_node": 4}, )"
         R"({"kind": "V100-16GB", "nodes": 4, "per_node": 1}], "tp": 1, "cp": 1, "global_batch": 48, "microbatch": 1, )"
         R"("recompute": "none", "precision": "fp16", "status": "ok", "measured": {"iteration_s": 1.0}, )" +
         more + "}";
}

TEST(MixedRuns, StagesAcrossNodeGroupsAreMappedAndPriced) {
  const auto mapping = map_run(record(mixed(
      R"("framework": "Megatron-LM", "pp": 2, "dp": 6, "zero_stage": 0, "schedule": "1F1B", "network": {"inter_gbps": 10, "intra_gbps": 100})")));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping))
      << std::get<RunSkip>(mapping).reason << " " << std::get<RunSkip>(mapping).detail;
  const auto& run = std::get<MappedRun>(mapping);
  ASSERT_TRUE(run.plan);
  EXPECT_EQ(run.job.cluster.groups.size(), 2U);
  const auto prediction = planner::predict_plan(run.job, *run.plan);
  ASSERT_TRUE(prediction) << prediction.error().message();
  EXPECT_GT(prediction->iteration_ns, 0);
}

// Groups of devices on an unreadable network are not mapped to the usual one.
TEST(MixedRuns, GroupsOnAnUnknownNetworkAreRefused) {
  const std::string degrees = R"("framework": "Megatron-LM", "pp": 2, "dp": 6, "zero_stage": 0, "schedule": "1F1B")";
  for (const std::string& network : {std::string(), std::string(R"(, "network": {"kind": "a fast one"})")}) {
    const auto mapping = map_run(record(mixed(degrees + network)));
    ASSERT_TRUE(std::holds_alternative<RunSkip>(mapping)) << network;
    EXPECT_EQ(std::get<RunSkip>(mapping).reason, "device groups on an unknown network");
  }
}

// With entries of 0, 1 + 8 and 0 blocks, the first stage holds only the embedding, and nothing of it is recomputed.
TEST(MixedRuns, AStageMayHoldTheEmbeddingAlone) {
  const auto mapping = map_run(record(replaced_recompute(mixed(
      R"("framework": "Megatron-LM", "pp": 2, "dp": 6, "zero_stage": 0, "schedule": "1F1B", "network": {"inter_gbps": 10}, )"
      R"("stages": [{"layer_list_range": [0, 1]}, {"layer_list_range": [1, 10]}])"))));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping))
      << std::get<RunSkip>(mapping).reason << " " << std::get<RunSkip>(mapping).detail;
  const auto& run = std::get<MappedRun>(mapping);
  ASSERT_TRUE(run.plan);
  const auto& stages = run.plan->only_pipeline().stages;
  EXPECT_EQ(stages[0].chunks.front().last(), 0);
  EXPECT_EQ(stages[1].chunks.front().first(), 1);
  EXPECT_EQ(stages[0].chunks.front().ranges.front().strategy.recompute.kind, RecomputeKind::none);
  EXPECT_TRUE(planner::predict_plan(run.job, *run.plan));
}

TEST(MixedRuns, AStatusThatSkipsComesBeforeWrongFields) {
  const RunFile file = file_of(R"({"id": "a", "status": "suspect", "tp": "all", "measured": {"iteration_s": "slow"}})");
  ASSERT_EQ(file.records.size(), 1U);
  EXPECT_EQ(file.records.front().status, "suspect");
  EXPECT_TRUE(file.unreadable.empty());
}

TEST(MixedRuns, ReplicasMayStateTheirTensorDegree) {
  const auto with = [](const char* a, const char* b) {
    return record(cat_text(R"({"id": "a", "stages": [{"replicas": [{"tp": )", a, R"(}, {"tp": )", b, R"(}]}]})"));
  };
  EXPECT_EQ(with("4", "4").tp, 4);
  EXPECT_EQ(with("4", "4").irregular, "");
  EXPECT_EQ(with("4", "2").irregular, "tp");
}

/// Returns eight nodes of one V100.
std::string equal(const std::string& more) {
  return R"({"id": "e", "source": "lab", "model": {"name": "GPT-tiny", "layers": 8, "hidden": 1024, "ffn": 4096, "heads": 16}, "seq": 1024, )"
         R"("gpu": {"type": "V100-SXM2-16GB", "mem_gb": 16, "count": 8}, "device_groups": [{"kind": "V100-16GB", "nodes": 8, "per_node": 1}], )"
         R"("tp": 1, "cp": 1, "recompute": "none", "precision": "fp16", "status": "ok", "measured": {"iteration_s": 1.0}, )" +
         more + "}";
}

FabricLevel network_of(const std::string& network) {
  const auto mapping = map_run(record(
      equal(R"("framework": "Megatron-LM", "pp": 8, "dp": 1, "zero_stage": 0, "microbatch": 1, "global_batch": 8, "network": )" +
            network)));
  EXPECT_TRUE(std::holds_alternative<MappedRun>(mapping));
  return std::get<MappedRun>(mapping).job.cluster.inter.front();
}

// 25 Gb/s carry 3.125 GB/s, NCCL's sockets 1.95. At 10 Gb/s the sockets leave 5 %.
TEST(MixedRuns, SocketsLimitFastNetworks) {
  const auto rate = [](const FabricLevel& l) { return l.bandwidth.count() * l.efficiency; };
  EXPECT_NEAR(rate(network_of(R"({"inter_gbps": 25})")), 1.95e9, 1e6);
  EXPECT_NEAR(rate(network_of(R"({"inter_gbps": 10})")), 0.95 * 1.25e9, 1e6);
}

// ρ√(L·V) must be the same: V is ten times that of 100 Gb/s, L that of the hop of TCP (116.9 us) or 10 ms.
TEST(MixedRuns, SlowWiresKeepTheRampOfTheirHosts) {
  EXPECT_NEAR(network_of(R"({"inter_gbps": 100, "delay_ms": 0.1})").ramp, 1.261, 1e-3);
  EXPECT_NEAR(network_of(R"({"inter_gbps": 10, "delay_ms": 0.1})").ramp, 1.261 * std::sqrt(0.1), 1e-3);
  EXPECT_NEAR(network_of(R"({"inter_gbps": 10, "delay_ms": 10})").ramp, 1.261 * std::sqrt(0.1 * 0.01169), 1e-3);
}

double seconds_of(const std::string& framework, const std::string& schedule, int delay_ms) {
  const Validation v = validate_runs(
      file_of(equal(R"("framework": ")" + framework +
                    R"(", "pp": 8, "dp": 1, "zero_stage": 0, "microbatch": 1, "global_batch": 64, "schedule": ")" + schedule +
                    R"(", "network": {"inter_gbps": 10, "delay_ms": )" + std::to_string(delay_ms) + "}")),
      planner::predict);
  EXPECT_EQ(v.results.size(), 1U);
  return v.results.empty() ? 0 : *v.results.front().predicted_s;
}

// Under GPipe the first micro-batch crosses seven links and the last gradient comes back over them. The gradient of
// the shared table goes from the first stage to the last. This adds 15 · 49 ms, whatever the number of micro-batches.
// Where each message is waited for, every micro-batch waits.
TEST(MixedRuns, AsynchronousMessagesOverLongWaysFollowEachOther) {
  EXPECT_NEAR(seconds_of("DT-FM", "GPipe", 50) - seconds_of("DT-FM", "GPipe", 1), 15 * 0.049, 1e-6);
  EXPECT_GT(seconds_of("Megatron-LM", "GPipe", 50) - seconds_of("Megatron-LM", "GPipe", 1), 64 * 0.049);
}

// Across node groups, all eight micro-batches of a replica wait in both directions where each message is waited for.
TEST(MixedRuns, AwaitedMessagesOverLongWaysHoldTheirStages) {
  const auto seconds = [](const std::string& framework, int delay_ms) {
    const Validation v = validate_runs(
        file_of(mixed(R"("framework": ")" + framework +
                      R"(", "pp": 2, "dp": 6, "zero_stage": 0, "schedule": "GPipe", "network": {"inter_gbps": 10, "delay_ms": )" +
                      std::to_string(delay_ms) + "}")),
        planner::predict);
    return v.results.empty() ? 0 : *v.results.front().predicted_s;
  };
  const double awaited = seconds("Megatron-LM", 50) - seconds("Megatron-LM", 1),
               sent = seconds("DT-FM", 50) - seconds("DT-FM", 1);
  // In both cases the last message of each direction is waited for. At 1 ms, asynchronous messages leave a stage idle
  // for part of the compute time. At 5 ms and above they do not, and every further millisecond makes 14 ms of
  // difference.
  EXPECT_NEAR(awaited - sent, 2 * 7 * 0.049, 0.01);
}

// 8 · 12 · 1024² parameters and some are 0.2 GB in fp16. Three passes of 8 micro-batches take 8 · 3 · 0.2 · 7/8 = 4.2
// GB into every node, 34 s at 1 Gb/s and 3.4 s at 10 Gb/s; a second was measured. One micro-batch per rank at 10 Gb/s
// takes 0.43 s.
TEST(MixedRuns, Zero3FasterThanItsNetworkIsSkippedByName) {
  const auto reason = [](int batch, int gbps) {
    const auto mapping = map_run(
        record(equal(R"("framework": "DeepSpeed ZeRO-3", "pp": 1, "dp": 8, "zero_stage": 3, "microbatch": 1, "global_batch": )" +
                     std::to_string(batch) + R"(, "network": {"inter_gbps": )" + std::to_string(gbps) + "}")));
    return std::holds_alternative<RunSkip>(mapping) ? std::get<RunSkip>(mapping).reason : "";
  };
  EXPECT_EQ(reason(64, 1), "measured faster than its network allows");
  EXPECT_EQ(reason(64, 10), "measured faster than its network allows");
  EXPECT_EQ(reason(8, 10), "");
}

// The factor of Megatron-LM's collectives inside nodes, 1.2166, does not apply to bytes over TCP between nodes of one
// device.
TEST(MixedRuns, TensorGroupsBetweenNodesTakeTheClosedForm) {
  std::string text = equal(
      R"("framework": "Megatron-LM", "pp": 1, "dp": 4, "zero_stage": 0, "microbatch": 1, "global_batch": 8, "network": {"inter_gbps": 10})");
  text.replace(text.find("\"tp\": 1"), 7, "\"tp\": 2");
  const auto mapping = map_run(record(text));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping)) << std::get<RunSkip>(mapping).detail;
  const auto& run = std::get<MappedRun>(mapping);
  ASSERT_TRUE(run.job.engine_model);
  EXPECT_EQ(run.job.engine_model->coefficients.tensor_communication, 1.0);
}

// 8 blocks of 12.6 million parameters in 8 stages take 12.6e6 · (8 / 3e9 + 16 / 1e10) = 0.054 s.
TEST(MixedRuns, UpdatesInHostMemoryTakeTime) {
  const std::string base =
      R"("framework": "DT-FM", "pp": 8, "dp": 1, "microbatch": 1, "global_batch": 8, "schedule": "GPipe", "network": {"gbps": 10})";
  const auto seconds = [](const std::string& text) {
    const Validation v = validate_runs(file_of(text), planner::predict);
    return v.results.empty() ? 0 : *v.results.front().predicted_s;
  };
  const double more = seconds(equal(base + R"(, "techniques": ["offload"])")) - seconds(equal(base));
  EXPECT_NEAR(more, 0.054, 0.003);
}

/// Writes a matrix file, and a record in the same folder.
class WithMatrix : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "net.json") << R"({"cases": {"1": {"note": "order of instances 1 1 4 repeated 2 times"},
        "2": {"regions": ["north", "north", "south", "south"], "within": {"gbps": 5, "delay_ms": 1}, "across": {"north-south": [20, 0.5]}}},
        "random_rank_map": {"7": [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]}})";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string where() const { return (folder_ / "runs.jsonl").string(); }
  std::filesystem::path folder_;
};

const std::string kTwoStages =
    R"("framework": "Megatron-LM", "pp": 2, "dp": 6, "zero_stage": 0, "schedule": "1F1B", "network": {"case": 0, "inter_gbps": 10, "matrix": "net.json"}, )";

// Machines follow each other as 1 1 4 1 1 4. The cluster numbers the quads 0–7 first, so that ranks 0–5 are on 8, 9,
// 0, 1, 2, 3.
TEST_F(WithMatrix, DefaultPlacementFollowsTheOrderOfMachines) {
  const auto mapping = map_run(record(mixed(kTwoStages + R"("extra": {"placement": "default"})"), where()));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping)) << std::get<RunSkip>(mapping).detail;
  const auto& stages = std::get<MappedRun>(mapping).plan->only_pipeline().stages;
  EXPECT_THAT(devices_of(stages[0].devices), testing::ElementsAre(8, 9, 0, 1, 2, 3));
  EXPECT_THAT(devices_of(stages[1].devices), testing::ElementsAre(10, 11, 4, 5, 6, 7));
}

// The map of seed 7 reverses that order, so that rank 0 is on its last device.
TEST_F(WithMatrix, RandomPlacementIsThatOfItsSeed) {
  const auto mapping = map_run(record(mixed(kTwoStages + R"("extra": {"placement": "random, seeded", "seed": "7"})"), where()));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping)) << std::get<RunSkip>(mapping).detail;
  const auto& stages = std::get<MappedRun>(mapping).plan->only_pipeline().stages;
  EXPECT_THAT(devices_of(stages[0].devices), testing::ElementsAre(7, 6, 5, 4, 11, 10));
  const auto other = map_run(record(mixed(kTwoStages + R"("extra": {"placement": "random, seeded", "seed": "8"})"), where()));
  EXPECT_EQ(std::get<RunSkip>(other).reason, "placement unknown");
}

// Searched places are no slower than the default ones.
TEST_F(WithMatrix, ScheduledPlacementIsSearched) {
  const auto seconds = [&](const char* placement) {
    const auto mapping = map_run(record(mixed(kTwoStages + R"("extra": {"placement": ")" + placement + R"("})"), where()));
    EXPECT_TRUE(std::holds_alternative<MappedRun>(mapping));
    const auto& run = std::get<MappedRun>(mapping);
    return planner::predict_plan(run.job, *run.plan)->iteration_ns;
  };
  EXPECT_LE(seconds("scheduled"), seconds("default"));
}

TEST_F(WithMatrix, RegionsAreGroupsWithLinks) {
  std::string text = mixed(
      R"("framework": "DT-FM", "pp": 2, "dp": 2, "schedule": "GPipe", "network": {"case": 1, "matrix": "net.json"}, "extra": {"placement": "scheduled"})");
  const std::string groups =
      R"("device_groups": [{"kind": "V100-16GB", "nodes": 2, "per_node": 4}, {"kind": "V100-16GB", "nodes": 4, "per_node": 1}])";
  text.replace(text.find(groups), groups.size(), R"("device_groups": [{"kind": "V100-16GB", "nodes": 4, "per_node": 1}])");
  text.replace(text.find("\"count\": 12"), 11, "\"count\": 4");
  const auto mapping = map_run(record(text, where()));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping))
      << std::get<RunSkip>(mapping).reason << " " << std::get<RunSkip>(mapping).detail;
  const auto& run = std::get<MappedRun>(mapping);
  ASSERT_EQ(run.job.cluster.groups.size(), 2U);
  EXPECT_EQ(run.job.cluster.links.size(), 2U);
  EXPECT_NEAR(run.job.cluster.links.front().latency.count(), 0.02, 1e-9);
  EXPECT_NEAR(run.job.cluster.links.front().bandwidth.count(), 0.5e9 / 8, 1);
  EXPECT_TRUE(planner::predict_plan(run.job, *run.plan));
}

// 8 blocks are in stages of 5 and 3, as a list with the embedding and a function before them and four entries after
// them.
TEST(MixedRuns, UnevenStages) {
  const auto mapping = map_run(record(mixed(
      R"j("framework": "DeepSpeed + Megatron-LM v1.1.5", "pp": 2, "dp": 6, "zero_stage": 0, "schedule": "1F1B (DeepSpeed pipeline)", )j"
      R"("network": {"inter_gbps": 10}, "stages": [{"stage": 0, "layer_list_range": [0, 7]}, {"stage": 1, "layer_list_range": [7, 14]}])")));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping))
      << std::get<RunSkip>(mapping).reason << " " << std::get<RunSkip>(mapping).detail;
  const auto& stages = std::get<MappedRun>(mapping).plan->only_pipeline().stages;
  EXPECT_EQ(stages[0].chunks.front().last(), 5);  // embedding 0, blocks 1 … 5
  EXPECT_EQ(stages[1].chunks.front().first(), 6);
  EXPECT_EQ(stages[1].chunks.front().last(), 9);  // blocks 6 … 8 and the head
}

TEST(NetworkCases, RefusesWhatIsNotThere) {
  EXPECT_FALSE(read_network_case("{}", "x", 1));
  EXPECT_FALSE(read_network_case("{\"cases\": {\"1\": 3}}", "x", 1));
  EXPECT_FALSE(read_network_case("{\"cases\": {\"1\": {\"regions\": [3]}}}", "x", 1));
  const auto plain =
      read_network_case(R"({"cases": {"1": {"within": {"gbps": 5}, "across": {"gbps": 1, "delay_ms": 11}}}})", "x", 1);
  ASSERT_TRUE(plain);
  EXPECT_DOUBLE_EQ(plain->between("a", "b").gbps, 1);
  EXPECT_DOUBLE_EQ(plain->between("a", "b").delay_ms, 11);
}

}  // namespace
}  // namespace espalier::runs::mixed_run_test
