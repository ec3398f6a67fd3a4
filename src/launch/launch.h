// SPDX-License-Identifier: Apache-2.0
// The processes of a run: what a launcher of a cluster says about this one, and ranks that are started on this machine.
// No libtorch here: the ranks are another program.
//
// All ranks end together. When one ends with an error, or by a signal, the others are asked to end, and killed after a
// grace of two seconds; the error of the run is that of the rank that failed first, by its own word where several fail
// at once: a rank that only lost a peer speaks last.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "espalier/result.h"

namespace espalier::launch {

/// Which rank this process is.
struct RankPlace {
  int rank = 0, world = 1;
  std::string address;  ///< of rank 0
  int port = 0;
};

/// The value of an environment variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// torchrun: RANK, WORLD_SIZE; srun: SLURM_PROCID, SLURM_NTASKS; mpirun (Open MPI): OMPI_COMM_WORLD_RANK,
/// OMPI_COMM_WORLD_SIZE; Hydra: PMI_RANK, PMI_SIZE. All of them with MASTER_ADDR and MASTER_PORT (29500 where it is not
/// set). Nothing: no launcher speaks.
Result<std::optional<RankPlace>> rank_of(const Environment& environment);

/// Ranks to start here.
struct LocalRun {
  std::string program;
  std::vector<std::vector<std::string>> arguments;  ///< of each rank, without the program's name
  std::function<void(const std::string&)> line;     ///< what rank 0 writes to file descriptor 3, line by line
  std::function<bool()> interrupted;                ///< polled; true ends the run
};

/// Until all have ended. An interrupt is an Error of kind limit.
Status run_local(const LocalRun& run);

/// Becomes the program; returns only where that fails.
Error become(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace espalier::launch
