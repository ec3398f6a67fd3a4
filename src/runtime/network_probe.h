// SPDX-License-Identifier: Apache-2.0
// Measures how long the collectives of the runtime take on its network. The output is the text that nccl-tests prints
// (runlog/nccl_tests.h), which `espalier calibrate --nccl-tests` and `espalier profile --collectives` read.
//
// Groups are 2, 4, … consecutive ranks and all ranks. All groups of a size run at once, as in training. Sizes go from
// 16 KiB to 16 MiB of the whole tensor. A row is the median over repetitions of the time that rank 0 waits; all ranks
// begin each repetition together.
#pragma once

#include <string>

#include "espalier/result.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

struct Probe {
  std::string out;   ///< file that rank 0 writes
  int per_node = 1;  ///< ranks per node
};

Status probe_network(const Probe& probe, Meeting& meeting);

}  // namespace espalier::runtime
