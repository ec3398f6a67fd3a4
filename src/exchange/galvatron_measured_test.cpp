// SPDX-License-Identifier: Apache-2.0
// Tests profile files of Galvatron written from measurements whose every part is known. The written files are read
// again and match the input.
#include <gtest/gtest.h>

#include <memory>

#include "espalier/galvatron_profile.h"
#include "galvatron/profile_files.h"
#include "job/calibration_file.h"
#include "profile/measured_operators.h"

namespace espalier::exchange::galvatron_measured_test {
namespace {

/// Returns a job of two blocks. Every operator takes 1 ms and 1 µs per token in the forward pass.
Job measured_job() {
  auto job = load_job(
      "model: {model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4, "
      "intermediate_size: 128, vocab_size: 128, tie_word_embeddings: false}\n"
      "cluster: {nodes: 1, devices_per_node: 4, device: t4}\n"
      "engine: espalier\ntraining: {sequence_length: 32, global_batch: 8, precision: fp32, optimizer: adam}\n",
      "job.yaml", ".", {});
  EXPECT_TRUE(job) << job.error().message();
  auto rows = std::make_shared<profile::MeasuredOperators>();
  for (const LayerKind& kind : job->model.kinds)
    for (const Operator& op : kind.operators)
      for (const std::int64_t samples : {1, 4}) {
        const auto work = profile::work_on_rank(kind, op, Strategy{}, job->model.vocabulary, 32, samples);
        rows->add({work, {1e-3 + 1e-6 * static_cast<double>(work.tokens), 0, 0}});
      }
  auto calibration = std::make_shared<Calibration>();
  calibration->operators = rows;
  job->calibration = calibration;
  return *job;
}

constexpr double kMiB = 1 << 20;

std::vector<std::int64_t> bytes(const std::vector<double>& mib) {
  std::vector<std::int64_t> out;
  for (const double m : mib) out.push_back(static_cast<std::int64_t>(m * kMiB));
  return out;
}

/// A block has 20 MiB of states and 3 MiB of activations per sample, 1 where it is recomputed. The embedding has 60
/// and 2, the head 40 and 5.
std::vector<MemoryRun> runs() {
  std::vector<MemoryRun> out;
  for (const std::int64_t b : {1, 4}) {
    const auto samples = static_cast<double>(b);
    for (const std::int64_t blocks : {1, 2}) {
      const auto n = static_cast<double>(blocks);
      out.push_back({1, 1, false, blocks, b, bytes({100 + n * 20 + (7 + n * 3) * samples})});
      out.push_back({1, 1, true, blocks, b, bytes({100 + n * 20 + (7 + n * 1) * samples})});
    }
    out.push_back({1, 2, false, 2, b, bytes({80 + 5 * samples, 60 + 8 * samples})});
  }
  return out;
}

std::string text_of(const std::vector<ProfileFile>& files, const std::string& name) {
  for (const ProfileFile& file : files)
    if (file.name == name) return file.text;
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(GalvatronProfile, TimesAreThoseOfOperators) {
  const Job job = measured_job();
  MachineMeasurements measured;
  measured.samples = {1, 4};
  const auto files = galvatron_profile(job, measured);
  ASSERT_TRUE(files) << files.error().message();
  ASSERT_EQ(files->size(), 1u);
  const auto times = galvatron::read_computation_profile(text_of(*files, "computation_profiling_fp32.json"), "c");
  ASSERT_TRUE(times) << times.error().message();
  ASSERT_EQ(times->times.size(), 4u);
  // Four samples of 128 tokens take 1.128 ms per operator; a sample takes a quarter of it.
  const auto operators = static_cast<double>(job.model.layer(1).operators.size());
  EXPECT_EQ(times->times[2].batch, 4);
  EXPECT_NEAR(times->times[2].ms_per_sample, operators * 1.128 / 4, 1e-9);
  EXPECT_TRUE(times->times[3].other);
}

TEST(GalvatronProfile, MemoryIsTheDifferenceOfRuns) {
  const Job job = measured_job();
  MachineMeasurements measured;
  measured.samples = {1, 4};
  measured.memory = runs();
  const auto files = galvatron_profile(job, measured);
  ASSERT_TRUE(files) << files.error().message();
  const auto memory = galvatron::read_memory_profile(text_of(*files, "memory_profiling_fp32.json"), "m");
  ASSERT_TRUE(memory) << memory.error().message();
  const auto& layer = memory->plain.layers.at({0, 32});
  EXPECT_NEAR(layer.parameter_mb, static_cast<double>(parameter_count(job.model.layer(1))) * 4 / kMiB, 1e-9);
  EXPECT_NEAR(layer.activation_mb.at(1), 3, 1e-4);
  EXPECT_NEAR(layer.checkpoint_mb, 1, 1e-4);
  const auto& ends = memory->plain.one_stage.at(32);
  EXPECT_NEAR(ends.states_mb.at(1), 100, 1e-4);
  EXPECT_NEAR(ends.activation_mb.at(1), 7, 1e-4);
  EXPECT_NEAR(memory->plain.first_stage.at(32).states_mb.at(1), 60, 1e-4);
  EXPECT_NEAR(memory->plain.first_stage.at(32).activation_mb.at(1), 2, 1e-4);
  EXPECT_NEAR(memory->plain.last_stage.at(32).states_mb.at(1), 40, 1e-4);
  EXPECT_NEAR(memory->plain.last_stage.at(32).activation_mb.at(1), 5, 1e-4);
  measured.memory.pop_back();  // drops the stages of four samples, then the pair of one block
  EXPECT_TRUE(galvatron_profile(job, measured));
  measured.memory.pop_back();
  measured.memory.pop_back();
  EXPECT_FALSE(galvatron_profile(job, measured));
}

std::string table(const std::string& program, const std::vector<int>& groups, double microseconds) {
  std::string out = "# Collective test starting: " + program + "\n# Using devices\n";
  for (std::size_t r = 0; r < groups.size(); ++r)
    out += "#  Rank " + std::to_string(r) + " Group " + std::to_string(groups[r]) + " Pid 0 on host" + std::to_string(r) +
           " device 0 [0] CPU\n";
  return out + "  4194304  1048576  float  none  -1  " + std::to_string(microseconds) + "  1  1  0\n# Avg bus bandwidth : 0\n";
}

// 4 MiB in 100 ms are 0.04 of Galvatron's GB/s. The bus of two ranks has 2·½ of it.
TEST(GalvatronProfile, GroupsOfTheNetworkAreNamedAsTheyLie) {
  const Job job = measured_job();
  MachineMeasurements measured;
  measured.samples = {1, 4};
  measured.collectives = table("all_reduce_perf", {0, 0, 1, 1}, 100000) + table("all_reduce_perf", {0, 1, 0, 1}, 200000) +
                         table("alltoall_perf", {0, 0, 1, 1}, 50000) + table("sendrecv_perf", {0, 0, 1, 1}, 80000) +
                         table("sendrecv_perf", {0, 1, 0, 1}, 160000);
  const auto files = galvatron_profile(job, measured);
  ASSERT_TRUE(files) << files.error().message();
  const auto rates = galvatron::read_all_reduce_bandwidth(text_of(*files, "allreduce_bandwidth.json"), "a");
  ASSERT_TRUE(rates) << rates.error().message();
  EXPECT_NEAR(rates->gb_per_s.at({2, true}), 0.04, 1e-9);
  EXPECT_NEAR(rates->gb_per_s.at({2, false}), 0.02, 1e-9);
  const auto p2p = galvatron::read_p2p_bandwidth(text_of(*files, "p2p_bandwidth.json"), "p");
  ASSERT_TRUE(p2p) << p2p.error().message();
  EXPECT_NEAR(p2p->gb_per_s.at(2), 4.0 / 160, 1e-9);
  const auto collectives = galvatron::read_collective_times(text_of(*files, "sp_time.json"), "s");
  ASSERT_TRUE(collectives) << collectives.error().message();
  EXPECT_NEAR(collectives->all_reduce_ms.at({2, 4}), 100, 1e-9);
  EXPECT_NEAR(collectives->all_to_all_ms.at({2, 4}), 50, 1e-9);
}

TEST(GalvatronProfile, AJobWithoutAProfileIsRefused) {
  Job job = measured_job();
  job.calibration = nullptr;
  EXPECT_FALSE(galvatron_profile(job, {}));
}

}  // namespace
}  // namespace espalier::exchange::galvatron_measured_test
