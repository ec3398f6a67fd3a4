// SPDX-License-Identifier: Apache-2.0
// Tests small files in the documented form with invented figures.
#include "galvatron/profile_files.h"

#include <gtest/gtest.h>

namespace espalier::galvatron::profile_files_test {
namespace {

template <class T>
std::string message_of(const Result<T>& read) {
  return read.ok() ? "" : read.error().message();
}

TEST(ProfileFiles, ForwardTimes) {
  const auto profile = read_computation_profile(R"({
    "layernum[2]_bsz1_seq4096": 58.3,
    "layertype_0_bsz8_seq4096": 11.25,
    "layertype_other_0_bsz8_seq4096": 27.5,
    "layertype_1_bsz1_seq512_mlp": 6.5,
    "layertype_other_bsz1_seq512": 7.5})",
                                                "c.json");
  ASSERT_TRUE(profile.ok()) << message_of(profile);
  ASSERT_EQ(profile->times.size(), 4u);
  EXPECT_TRUE(profile->times[3].other);
  EXPECT_EQ(profile->times[3].sequence, 512);
  EXPECT_EQ(profile->skipped, 1);
  EXPECT_EQ(profile->times[0].batch, 8);
  EXPECT_EQ(profile->times[0].sequence, 4096);
  EXPECT_EQ(profile->times[0].ms_per_sample, 11.25);
  EXPECT_TRUE(profile->times[1].other);
  EXPECT_EQ(profile->times[2].layer_type, 1);
  EXPECT_EQ(profile->times[2].part, LayerPart::mlp);
}

constexpr const char* kMemory = R"({
  "model_config": {"dim": 4096},
  "layertype_0": {"4096": {"parameter_size": 768.5, "tp_activation_per_bsz_dict": {"1": 272.0, "2": 176.0, "checkpoint": 16.0}}},
  "other_memory_pp_off": {"4096": {"model_states": {"1": 6540.0}, "activation": {"1": 920.0}}},
  "other_memory_pp_on_first": {"4096": {"model_states": {"1": 3303.0}, "activation": {"1": 26.0}}},
  "other_memory_pp_on_last_sp": {"512": {"model_states": {"2": 1715.5}, "activation": {"2": 352.0}}}})";

TEST(ProfileFiles, Memory) {
  const auto profile = read_memory_profile(kMemory, "m.json");
  ASSERT_TRUE(profile.ok()) << message_of(profile);
  const LayerMemory& layer = profile->plain.layers.at({0, 4096});
  EXPECT_EQ(layer.parameter_mb, 768.5);
  EXPECT_EQ(layer.activation_mb, (std::map<std::int32_t, double>{{1, 272.0}, {2, 176.0}}));
  EXPECT_EQ(layer.checkpoint_mb, 16);
  EXPECT_EQ(profile->plain.one_stage.at(4096).states_mb.at(1), 6540);
  EXPECT_EQ(profile->plain.first_stage.at(4096).activation_mb.at(1), 26);
  EXPECT_TRUE(profile->plain.last_stage.empty());
  EXPECT_EQ(profile->sequence_parallel.last_stage.at(512).states_mb.at(2), 1715.5);
  EXPECT_EQ(profile->skipped, 1);
}

TEST(ProfileFiles, Machine) {
  const auto all_reduce =
      read_all_reduce_bandwidth(R"({"allreduce_size_8_consec_1": 160.5, "allreduce_size_4_consec_0": 165.25})", "a.json");
  ASSERT_TRUE(all_reduce.ok());
  EXPECT_EQ(all_reduce->gb_per_s.at({8, true}), 160.5);
  EXPECT_EQ(all_reduce->gb_per_s.at({4, false}), 165.25);
  const auto p2p = read_p2p_bandwidth(R"({"pp_size_2": 147.5})", "p.json");
  ASSERT_TRUE(p2p.ok());
  EXPECT_EQ(p2p->gb_per_s.at(2), 147.5);
  const auto overlap = read_overlap_coefficient(R"({"overlap_coe": 1.125})", "o.json");
  ASSERT_TRUE(overlap.ok());
  EXPECT_EQ(*overlap, 1.125);
  const auto times =
      read_collective_times(R"({"allreduce_size_8_4MB_time": 0.125, "all2all_size_2_1024MB_time": 9.5})", "s.json");
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->all_reduce_ms.at({8, 4}), 0.125);
  EXPECT_EQ(times->all_to_all_ms.at({2, 1024}), 9.5);
}

TEST(ProfileFiles, WhatIsWrittenIsReadAgain) {
  ComputationProfile times;
  times.times = {{0, false, LayerPart::whole, 8, 4096, 11.25},
                 {0, true, LayerPart::whole, 8, 4096, 27.5},
                 {1, false, LayerPart::mlp, 1, 512, 6.5},
                 {1, false, LayerPart::attention, 1, 512, 0.1}};
  const auto again = read_computation_profile(to_json(times), "c.json");
  ASSERT_TRUE(again.ok()) << message_of(again);
  ASSERT_EQ(again->times.size(), 4u);
  EXPECT_EQ(again->skipped, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(again->times[i].layer_type, times.times[i].layer_type);
    EXPECT_EQ(again->times[i].other, times.times[i].other);
    EXPECT_EQ(again->times[i].part, times.times[i].part);
    EXPECT_EQ(again->times[i].batch, times.times[i].batch);
    EXPECT_EQ(again->times[i].sequence, times.times[i].sequence);
    EXPECT_EQ(again->times[i].ms_per_sample, times.times[i].ms_per_sample);
  }
  const auto memory = read_memory_profile(kMemory, "m.json");
  ASSERT_TRUE(memory.ok());
  const auto memory_again = read_memory_profile(to_json(*memory), "m.json");
  ASSERT_TRUE(memory_again.ok()) << message_of(memory_again);
  EXPECT_EQ(to_json(*memory_again), to_json(*memory));
  EXPECT_EQ(memory_again->plain.layers.at({0, 4096}).activation_mb, memory->plain.layers.at({0, 4096}).activation_mb);
  EXPECT_EQ(memory_again->plain.layers.at({0, 4096}).checkpoint_mb, 16);
  EXPECT_EQ(memory_again->plain.one_stage.at(4096).states_mb.at(1), 6540);
  EXPECT_EQ(memory_again->sequence_parallel.last_stage.at(512).activation_mb.at(2), 352);
  const AllReduceBandwidth reduced{{{{8, true}, 160.5}, {{4, false}, 165.25}}};
  EXPECT_EQ(read_all_reduce_bandwidth(to_json(reduced), "a.json")->gb_per_s, reduced.gb_per_s);
  const P2pBandwidth p2p{{{2, 147.5}, {4, 0.0478}}};
  EXPECT_EQ(read_p2p_bandwidth(to_json(p2p), "p.json")->gb_per_s, p2p.gb_per_s);
  const CollectiveTimes collectives{{{{8, 4}, 0.125}}, {{{2, 1024}, 9.5}}};
  EXPECT_EQ(read_collective_times(to_json(collectives), "s.json")->all_reduce_ms, collectives.all_reduce_ms);
  EXPECT_EQ(read_collective_times(to_json(collectives), "s.json")->all_to_all_ms, collectives.all_to_all_ms);
  EXPECT_EQ(*read_overlap_coefficient(overlap_json(1.0625), "o.json"), 1.0625);
}

TEST(ProfileFiles, ErrorsSayWhere) {
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << "wanted \"" << part << "\" in: " << message;
  };
  expect(message_of(read_computation_profile(R"({"layertype_0_bsz8_seq4096": "fast"})", "c.json")), "c.json:1:");
  expect(message_of(read_computation_profile(R"({"layertype_0": {}})", "c.json")), "layertype_0_bsz8_seq4096");
  expect(message_of(read_memory_profile(R"({"layertype_0": {"4096": {}}})", "m.json")), "parameter_size");
  expect(message_of(read_memory_profile(R"({"layertype_0": 3})", "m.json")), "a mapping");
  expect(message_of(read_all_reduce_bandwidth(R"({"allreduce_size_8_consec_1": 0})", "a.json")), "a.json:1:");
  expect(message_of(read_p2p_bandwidth("{}", "p.json")), "pp_size_2");
  expect(message_of(read_overlap_coefficient(R"({"overlap_coe": 0.5})", "o.json")), "overlap_coe");
  expect(message_of(read_collective_times("[1]", "s.json")), "a mapping");
}

}  // namespace
}  // namespace espalier::galvatron::profile_files_test
