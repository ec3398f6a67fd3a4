// SPDX-License-Identifier: Apache-2.0
// How long the collectives of the runtime take on the network it stands on, as the text that nccl-tests prints
// (runlog/nccl_tests.h), which `espalier calibrate --nccl-tests` and `espalier profile --collectives` read.
//
// Groups of 2, 4, … consecutive ranks and of all ranks; all groups of a size at once, as in training. Sizes from 16 KiB
// to 16 MiB of the whole tensor. A row is the median over repetitions of what rank 0 waits, each begun together.
#pragma once

#include <string>

#include "espalier/result.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

struct Probe {
  std::string out;   ///< file that rank 0 writes
  int per_node = 1;  ///< ranks of one node
};

Status probe_network(const Probe& probe, Meeting& meeting);

}  // namespace espalier::runtime
