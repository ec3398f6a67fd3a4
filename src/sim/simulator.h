// SPDX-License-Identifier: Apache-2.0
// Discrete-event simulation of a Program in integer nanoseconds.
//
// Every rank is a logical process with four in-order streams (compute, data, send, recv). An instruction starts at the
// latest of:
// its stream free, its two waits ended, (recv) the matching send ended, (data collective, unfolded program) all members
// of the group ready. Durations come from Costs. While `compute` and `data` of one rank run together they slow each
// other
// down: compute advances at rate 1/κ_w, the collective at 1/κ_c (processor sharing; κ from the device). With constant κ
// the overlapped pair of stand-alone lengths w and c takes
//     w·κ_w + (c − w·κ_w/κ_c)   if c·κ_c ≥ w·κ_w,    c·κ_c + (w − c·κ_c/κ_w)   otherwise            (Galvatron, §2.5)
// which this simulation reproduces; if 1/κ_c + 1/κ_w < 1 the pair is run one after the other (cost::pair_time).
//
// Order of evaluation is causal (conservative, Chandy–Misra): a rank is advanced as far as its inputs are known, then
// the next. Results do not depend on that order. No progress = deadlock, reported with the blocked instructions.
//
// Memory replay: along each rank's compute stream, +saved at forward, −saved at backward, transients inside; peak and
// moment.
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
  NetworkModel* network = nullptr;  ///< who times the program; null: the closed form
};

/// Reusable scratch memory: after the first call of a given size, `run` does not allocate. One per thread.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// Error (kind internal) on deadlock. the costs must be those of the program's structure.
  Result<Simulation> run(const Program& program, const cost::Costs& costs, const SimulationOptions& options = {});
  /// The iteration time alone, nothing else computed: the inner loop of the search. −1 on deadlock.
  std::int64_t iteration_ns(const Program& program, const cost::Costs& costs);
  /// When the compute stream of every rank ends, alone. False on deadlock.
  bool compute_ends(const Program& program, const cost::Costs& costs, std::vector<std::int64_t>& ends);
  /// Peak memory of every stage alone (no times needed). Written to `peaks` (size = ranks).
  void peak_bytes(const Program& program, const cost::Costs& costs, std::vector<std::int64_t>& peaks);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace espalier::sim
