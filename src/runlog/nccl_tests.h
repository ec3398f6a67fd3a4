// SPDX-License-Identifier: Apache-2.0
// Reads the output of nccl-tests and rccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf,
// alltoall_perf, sendrecv_perf), as text or as the JSON that `-J FILE` writes.
//
//   # Collective test starting: all_reduce_perf                                       (newer versions)
//   #  Rank  0 Group  0 Pid 12345 on node001 device 0 [0000:18:00] NVIDIA H100 80GB HBM3     (older ones: no Group)
//   #      size       count    type  redop  root   time  algbw   busbw  #wrong   time  algbw   busbw  #wrong
//     1073741824   268435456   float    sum    -1  13867  77.43  135.50       0  13877  77.38  135.41       0
//   # Avg bus bandwidth    : 135.455
//
// The size is that of the whole (gathered) tensor in bytes. The time is in microseconds, first out of place, then in
// place. Older tables have no root, some no redop, and the check column may be N/A. Launchers' prefixes
// ("[1,0]<stdout>:", "0: ") and lines of NCCL_DEBUG=INFO may occur in between. `espalier profile --network` writes
// such tables of its own collectives. The line "# Espalier: from everyone to everyone up to 65536 bytes, rings
// beyond" precedes them.
//
// The collective follows from the header, else from the file name, else from the bus-bandwidth factor. A factor
// busbw/algbw = 2(n−1)/n means all-reduce. A factor (n−1)/n means reduce-scatter with an operation, and all-gather or
// all-to-all without one. Sources: nccl-tests, doc/PERFORMANCE.md and src/common.cu.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"

namespace espalier::runlog {

enum class CollectiveTest : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, send_receive };
std::string_view to_string(CollectiveTest test);  ///< "all-reduce", …

struct NcclRow {
  std::int64_t line = 0;
  std::int64_t bytes = 0;
  double microseconds = 0;  ///< out of place; in place where there is nothing else
};

/// Holds one table: one collective over groups of equal size.
struct NcclTable {
  std::string where;  ///< file:line of its first row
  CollectiveTest test = CollectiveTest::all_reduce;
  std::int64_t ranks = 0;            ///< ranks of one group
  std::int64_t nodes = 1;            ///< nodes that one group spans
  std::int64_t groups = 1;           ///< groups that run at the same time
  std::int64_t active_per_node = 0;  ///< ranks of all groups on one node
  std::string device;                ///< as the first rank reports it
  bool complete = false;             ///< the closing line with the average is present
  std::vector<NcclRow> rows;
  /// These are Espalier's own collectives (FabricLevel::direct_bytes); 0 means others.
  double direct_bytes = 0;
  /// Lists one group by rank: number of the node, and place among the ranks of that node, both in the order of the
  /// list.
  std::vector<std::pair<std::int64_t, std::int64_t>> members{};
};

/// Returns every table of the text with at least one row. Returns an error when there is none, or when a table's
/// ranks or collective are unknown.
Result<std::vector<NcclTable>> read_nccl_tests(std::string_view text, const std::string& where);

}  // namespace espalier::runlog
