// SPDX-License-Identifier: Apache-2.0
// Simulates a Program by discrete events in integer nanoseconds.
//
// Every rank is a logical process with four in-order streams (compute, data, send, recv). An instruction starts at the
// latest of: its stream free, its two waits ended, (recv) the matching send ended, (data collective, unfolded program)
// all members of the group ready. Durations come from Costs. While `compute` and `data` of one rank overlap they slow
// each other down: compute advances at rate 1/κ_w, the collective at 1/κ_c (processor sharing; κ from the device). With
// constant κ an overlapped pair of stand-alone lengths w and c takes
//     w·κ_w + (c − w·κ_w/κ_c)   if c·κ_c ≥ w·κ_w,    c·κ_c + (w − c·κ_c/κ_w)   otherwise            (Galvatron, §2.5)
// which this simulation reproduces. If 1/κ_c + 1/κ_w < 1, the pair runs one after the other (cost::pair_time).
//
// The order of evaluation is causal (conservative, Chandy–Misra): a rank advances as far as its inputs are known, then
// the next. Results do not depend on that order. If no rank can advance, a deadlock is reported with the blocked
// instructions.
//
// Memory is replayed along each rank's compute stream: +saved at forward, −saved at backward, transients inside; peak
// and moment.
#pragma once

#include <cstdint>
#include <memory>

#include "cost/costs.h"
#include "espalier/result.h"
#include "espalier/simulate.h"
#include "plan/program.h"

namespace espalier::sim {

class NetworkModel;

struct SimulationOptions {
  bool record_spans = false;        ///< keep start and end of every instruction
  NetworkModel* network = nullptr;  ///< times the program; null: the closed form
};

/// Holds reusable scratch memory: after the first call of a given size, `run` does not allocate. Use one per thread.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// Simulates the program. Returns an error (kind internal) on deadlock. The costs must be those of the program's
  /// structure.
  Result<Simulation> run(const Program& program, const cost::Costs& costs, const SimulationOptions& options = {});
  /// Returns only the iteration time and computes nothing else: the inner loop of the search. −1 on deadlock.
  std::int64_t iteration_ns(const Program& program, const cost::Costs& costs);
  /// Computes only the end of every rank's compute stream. Returns false on deadlock.
  bool compute_ends(const Program& program, const cost::Costs& costs, std::vector<std::int64_t>& ends);
  /// Writes only the peak memory of every stage to `peaks` (size = ranks). No times are needed.
  void peak_bytes(const Program& program, const cost::Costs& costs, std::vector<std::int64_t>& peaks);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace espalier::sim
