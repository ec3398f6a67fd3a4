// SPDX-License-Identifier: Apache-2.0
// Output of nccl-tests and rccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf,
// sendrecv_perf), as text or as the JSON that `-J FILE` writes.
//
//   # Collective test starting: all_reduce_perf                                    (newer versions)
//   #  Rank  0 Group  0 Pid 12345 on node001 device 0 [0000:18:00] NVIDIA H100 80GB HBM3     (older ones: no Group)
//   #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
//     1073741824     268435456     float     sum      -1    13867   77.43  135.50       0    13877   77.38  135.41       0
//   # Avg bus bandwidth    : 135.455
//
// size is the whole (gathered) tensor in bytes; time in microseconds, first out of place, then in place. Older tables
// have no root, some no redop, the check column may read N/A. Launchers' prefixes ("[1,0]<stdout>:", "0: ") and lines
// of NCCL_DEBUG=INFO may stand between. `espalier profile --network` writes such tables of its own collectives, and
// before them
//   # Espalier: from everyone to everyone up to 65536 bytes, rings beyond
//
// The collective is what the header says, else what the file is called, else what the bus-bandwidth factor says:
// busbw/algbw = 2(n−1)/n all-reduce; (n−1)/n with an operation reduce-scatter; (n−1)/n without: all-gather or
// all-to-all.
// Sources: nccl-tests, doc/PERFORMANCE.md and src/common.cu.
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
  double microseconds = 0;  ///< out of place; in place where that is all there is
};

/// One table: one collective over groups of equal size.
struct NcclTable {
  std::string where;  ///< file:line of its first row
  CollectiveTest test = CollectiveTest::all_reduce;
  std::int64_t ranks = 0;            ///< of one group
  std::int64_t nodes = 1;            ///< that one group spans
  std::int64_t groups = 1;           ///< that run at the same time
  std::int64_t active_per_node = 0;  ///< ranks of all groups on one node
  std::string device;                ///< as the first rank reports it
  bool complete = false;             ///< the closing line with the average is there
  std::vector<NcclRow> rows;
  double direct_bytes = 0;  ///< of Espalier's own collectives (FabricLevel::direct_bytes); 0: of others
  /// Of one group, by rank: number of the node, and place among the ranks of that node, both in the order of the list.
  std::vector<std::pair<std::int64_t, std::int64_t>> members{};
};

/// Every table of the text with at least one row. An error when there is none, or when a table's ranks or collective
/// are unknown.
Result<std::vector<NcclTable>> read_nccl_tests(std::string_view text, const std::string& where);

}  // namespace espalier::runlog
