// SPDX-License-Identifier: Apache-2.0
// What the free words of a measured run mean: its network, its pipeline schedule, its number format, the kind of memory
// that was measured. A reading either knows the words or says that it does not: a caller then skips the record (or the
// figure) and names the words, because a guess would be reported as an error of the prediction.
//
// Networks.  rate [count ×] unit, per what:
//   "8x50 GB/s" = 8 NICs of 400 Gb/s            a capital B is bytes, a small b is bits
//   "400 Gb/s per GPU" = one NIC a device       "800 Gbps per node" = one NIC of that rate, or shared by a count that
//                                               is named
//   "Omni-Path, 4 links" = 4 of 100 Gb/s        names of a generation stand for its rate
//   words without a rate or a generation ("InfiniBand", "RoCE RDMA") say nothing: the usual network of the device is
//   used
// Schedules: a name of the table in the .cpp, letter case, spaces and hyphens aside; anything longer is another
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
  std::optional<std::int64_t> nics;  ///< of a node; none: as usual
  double gbits = 0;                  ///< Gb/s of one NIC and direction
  bool operator==(const NetworkWords&) const = default;
};
struct NetworkReading {
  std::optional<NetworkWords> network;  ///< none: the words hold no rate
  std::string unknown;                  ///< what was not understood; empty: everything was
};
NetworkReading read_network_words(std::string_view words, std::int64_t devices_per_node);

/// nullopt: unknown.
std::optional<ScheduleKind> read_schedule_words(std::string_view words);

struct PrecisionReading {
  std::optional<Precision> precision;  ///< the fastest format that the words name
  std::string unknown;                 ///< a number format that no device here has ("nvfp4"), or all words where they
                                       ///< name none
};
PrecisionReading read_precision_words(std::string_view words);

/// How a peak was taken: tensors of the framework, its allocator's segments, or the whole device (nvidia-smi: with the
/// context).
enum class MemoryKind : std::uint8_t { allocated, reserved, device };
std::string_view to_string(MemoryKind kind);
/// nullopt: the words name no kind.
std::optional<MemoryKind> read_memory_words(std::string_view words);

/// "selective", "selective (per-op SAC)", "selective: core_attn" -> true. Not "selective (moe_act)", which computes
/// something else again.
bool recomputes_attention_alone(std::string_view words);

/// Whether any of `words` (lower case) is said in `text`, letter case ignored, and not taken back beside it ("without
/// torch.compile"). `Begins::word`: only where no letter stands before it, so that "hsdp" is not in "TorchSDPA" and
/// "lora" not in "exploration".
enum class Begins : std::uint8_t { anywhere, word };
bool says(std::string_view text, const std::vector<std::string>& words, Begins begins = Begins::anywhere);

/// Whether `word` (lower case) stands in `text` as a word of its own: "l4" in "L4-24GB" and "8xL4", not in "L40" and
/// not in "GL4".
bool names_device(std::string_view text, std::string_view word);

}  // namespace espalier::runs
