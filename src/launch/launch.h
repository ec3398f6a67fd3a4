// SPDX-License-Identifier: Apache-2.0
// Starts the processes of a run. It reads a cluster launcher's environment for this process, and starts ranks on this
// machine. It does not use libtorch, since the ranks are another program.
//
// All ranks end together. When one ends with an error, or by a signal, the others are asked to end, and killed after
// a grace of two seconds. The error of the run is that of the rank that failed first. Where several fail at once, a
// rank's own error comes before that of a rank that only lost a peer.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "espalier/result.h"

namespace espalier::launch {

/// Describes which rank this process is.
struct RankPlace {
  int rank = 0, world = 1;
  std::string address;  ///< address of rank 0
  int port = 0;
};

/// Returns the value of an environment variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// Reads this process's rank from the variables of a launcher. Under torchrun these are RANK and WORLD_SIZE, under
/// srun SLURM_PROCID and SLURM_NTASKS. Under mpirun (Open MPI) they are OMPI_COMM_WORLD_RANK and
/// OMPI_COMM_WORLD_SIZE, under Hydra PMI_RANK and PMI_SIZE. All of them need MASTER_ADDR and MASTER_PORT (29500 where
/// it is not set). Returns nothing without a launcher.
Result<std::optional<RankPlace>> rank_of(const Environment& environment);

/// Describes ranks to start here.
struct LocalRun {
  std::string program;
  std::vector<std::vector<std::string>> arguments;  ///< one list per rank, without the program's name
  std::function<void(const std::string&)> line;     ///< receives each line that rank 0 writes to file descriptor 3
  std::function<bool()> interrupted;                ///< polled; true ends the run
};

/// Runs until all ranks have ended. An interrupt is an Error of kind limit.
Status run_local(const LocalRun& run);

/// Becomes the program by exec; returns only where that fails.
Error become(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace espalier::launch
