// SPDX-License-Identifier: Apache-2.0
// Interprets the free words of a measured run: its network, its pipeline schedule, its number format. A reading either
// recognises the words or reports that it does not. A caller then skips the record (or the figure) and names the words,
// because a guess would be reported as an error of the prediction.
//
// Networks have the form rate [count ×] unit, per device or node:
//   "8x50 GB/s" is 8 NICs of 400 Gb/s. A capital B is bytes, a small b is bits.
//   "400 Gb/s per GPU" is one NIC per device.
//   "800 Gbps per node" is one NIC of that rate, or shared by a given count of NICs.
//   "Omni-Path, 4 links" is 4 of 100 Gb/s. The name of a generation implies its rate.
//   "InfiniBand" or "RoCE RDMA", without a rate or a generation, means the usual network of the device.
// Schedules are names of the table in the .cpp, ignoring letter case, spaces and hyphens. Any longer name is another
// schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"

namespace espalier::runs {

struct NetworkWords {
  std::optional<std::int64_t> nics;  ///< NICs per node; none: as usual
  double gbits = 0;                  ///< Gb/s of one NIC and direction
  bool operator==(const NetworkWords&) const = default;
};
struct NetworkReading {
  std::optional<NetworkWords> network;  ///< none: the words hold no rate
  std::string unknown;                  ///< the words that were not understood; empty: all were
};
NetworkReading read_network_words(std::string_view words, std::int64_t devices_per_node);

/// Returns the schedule; nullopt for an unknown one.
std::optional<ScheduleKind> read_schedule_words(std::string_view words);

struct PrecisionReading {
  std::optional<Precision> precision;  ///< the fastest format that the words name
  std::string unknown;                 ///< a number format that no device here has ("mxfp6"), or all words where they name none
};
PrecisionReading read_precision_words(std::string_view words);

/// Returns true for "selective", "selective (per-op SAC)" and "selective: core_attn". Returns false for "selective
/// (moe_act)", which recomputes something else.
bool recomputes_attention_alone(std::string_view words);

/// Returns whether `text` contains `word` (lower case) as a separate word: "l4" is in "L4-24GB" and "8xL4", not in
/// "L40" and not in "GL4".
bool names_device(std::string_view text, std::string_view word);

}  // namespace espalier::runs
