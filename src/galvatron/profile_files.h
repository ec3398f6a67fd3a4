// SPDX-License-Identifier: Apache-2.0
// Reads and writes the files of Galvatron's profilers (main branch): time and memory of layers, bandwidth of the
// machine. They hold facts only; which cost model uses them is not decided here.
//
//   computation_profiling_*.json   "layertype_0_bsz8_seq4096": ms of one layer's forward pass per sample.
//                                  "layertype_other_0_…": embedding and head ("layertype_other_bsz8_…" is the same for
//                                  type 0). A suffix "_attention" or "_mlp" means that part of the layer.
//   memory_profiling_*.json        "layertype_0[_sp]": {"4096": {"parameter_size": MB in fp32,
//                                  "tp_activation_per_bsz_dict": {"1": MB a sample, "2": …, "checkpoint": …}}}.
//                                  Keys "other_memory_pp_off[_sp]", "…_pp_on_first[_sp]", "…_pp_on_last[_sp]":
//                                  {"4096": {"model_states": {"1": MB, …}, "activation": {"1": MB a sample, …}}}.
//                                  A suffix "_sp" means Megatron sequence parallel.
//   allreduce_bandwidth_*.json     "allreduce_size_8_consec_1": bus bandwidth in GB/s; consec 1: neighbouring ranks.
//   p2p_bandwidth_*.json           "pp_size_2": GB/s.
//   overlap_coefficient.json       "overlap_coe": slow-down of compute and communication at once, ≥ 1.
//   sp_time_*.json                 "allreduce_size_8_4MB_time", "all2all_size_8_4MB_time": ms.
//
// Raw measurements next to the results ("layernum[2]_bsz1_…", "1_1_8": {…}) are counted and skipped. Source: the
// documentation of PKU-DAIR/Hetu-Galvatron, "Search Engine Usage". Sizes are 2^20 bytes; 1 GB/s moves 1 MB per ms.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"

namespace espalier::galvatron {

enum class LayerPart : std::uint8_t { whole, attention, mlp };

struct ForwardTime {
  std::int32_t layer_type = 0;
  bool other = false;  ///< embedding and head
  LayerPart part = LayerPart::whole;
  std::int64_t batch = 1, sequence = 0;
  double ms_per_sample = 0;
};
struct ComputationProfile {
  std::vector<ForwardTime> times;  ///< in file order
  std::int64_t skipped = 0;        ///< raw measurements
};

struct LayerMemory {
  double parameter_mb = 0;                       ///< fp32
  std::map<std::int32_t, double> activation_mb;  ///< per sample, by tp
  double checkpoint_mb = 0;                      ///< per sample of a recomputed layer; 0: not in the file
};
struct OtherMemory {
  std::map<std::int32_t, double> states_mb, activation_mb;  ///< by tp of embedding and head; activation per sample
};
using BySequence = std::int64_t;
struct MemoryProfile {
  struct Set {
    std::map<std::pair<std::int32_t, BySequence>, LayerMemory> layers;  ///< {layer type, sequence length}
    std::map<BySequence, OtherMemory> one_stage, first_stage, last_stage;
    [[nodiscard]] bool empty() const { return layers.empty() && one_stage.empty() && first_stage.empty() && last_stage.empty(); }
  };
  Set plain, sequence_parallel;
  std::int64_t skipped = 0;
};

struct AllReduceBandwidth {
  std::map<std::pair<std::int32_t, bool>, double> gb_per_s;  ///< {group size, consecutive}
};
struct P2pBandwidth {
  std::map<std::int32_t, double> gb_per_s;  ///< by number of stages
};
struct CollectiveTimes {
  std::map<std::pair<std::int32_t, std::int64_t>, double> all_reduce_ms, all_to_all_ms;  ///< {group size, MB}
};

// These readers fail (bad_input) with a place when a value does not match its key, or when the file holds nothing of
// its kind.
Result<ComputationProfile> read_computation_profile(std::string_view json, const std::string& where);
Result<MemoryProfile> read_memory_profile(std::string_view json, const std::string& where);
Result<AllReduceBandwidth> read_all_reduce_bandwidth(std::string_view json, const std::string& where);
Result<P2pBandwidth> read_p2p_bandwidth(std::string_view json, const std::string& where);
Result<double> read_overlap_coefficient(std::string_view json, const std::string& where);
Result<CollectiveTimes> read_collective_times(std::string_view json, const std::string& where);

// These writers produce files in the profilers' form, which read back to the same values. Raw measurements are not
// written.
std::string to_json(const ComputationProfile& profile);
std::string to_json(const MemoryProfile& profile);
std::string to_json(const AllReduceBandwidth& table);
std::string to_json(const P2pBandwidth& table);
std::string to_json(const CollectiveTimes& times);
std::string overlap_json(double coefficient);

}  // namespace espalier::galvatron
