// SPDX-License-Identifier: Apache-2.0
// The activations a stage holds at its fullest moment, exactly, without a program.
//
// The order of passes on a stage is a matter of schedule kind, p, v, m and the stage alone. At every moment a chunk
// pass is either whole (between its forward and its backward or input gradient, `saved` bytes) or, where the backward
// is split, waits for its weight gradient (`after_input` bytes); at most one pass runs and needs its transient bytes
// besides. With whole_c and all_c the passes of class c that are whole, and whole or waiting,
//
//     held = Σ_c (whole_c · (saved_c − after_input_c) + all_c · after_input_c) + transient of the pass that runs
//
// where a class is a set of chunks of the stage with equal bytes. All coefficients are at least zero, so that a moment
// with no more passes of any class than another moment of the same transient never decides: only the moments that no
// other one dominates are kept, and a peak is the largest of a few dot products. A weight gradient has no transient and
// follows a moment that held no less. It is what a replay of the lowered program finds (sim/memory_replay.h): sends and
// collectives hold nothing, and a chunk that is cut into buckets saves with its first bucket, frees with its last, and
// needs the same transient in each.
//
// Two facts keep the tables small. With one chunk a stage there is one deciding moment, in closed form: w = max_whole
// passes that are whole, and max_in_flight − w that wait (plan/program.h). With more chunks the order repeats once the
// pipeline is full, and more micro-batches add repetitions only:
//     zb-v          the steady state returns to the same passes held after each F₀ B₀ W₀ F₁ B₁ W₁; from m = 2p on it is
//                   run at
//                   least once, and fill and drain do not depend on m
//     interleaved   groups of p micro-batches, the last one of p + m mod p. The warm-up of at most 2(p−1) + (v−1)(2p−1)
//                   < 2pv passes
//                   lies within the first two groups; from four groups on every offset between forwards and backwards,
//                   in a period of the
//                   middle and at the end, occurs already
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "espalier/plan.h"

namespace espalier {

/// Bytes of one pass of one micro-batch through a chunk; 0 ≤ after_input ≤ saved, transients at least 0.
struct PassBytes {
  std::int64_t saved = 0;                                      ///< from the forward to the backward, or to the input
                                                               ///< gradient
  std::int64_t after_input = 0;                                ///< from the input gradient to the weight gradient
  std::int64_t forward_transient = 0, backward_transient = 0;  ///< while the pass runs
  bool operator==(const PassBytes&) const = default;
};

/// The schedule of fewest micro-batches whose stages hold the same passes at their fullest moments.
Schedule shortest_alike(const Schedule& schedule);

/// Remembers the deciding moments of the structures it met. One per thread.
class HeldPasses {
 public:
  /// Activations at the fullest moment of `stage`. `chunks`: its v chunks, the local ones in order.
  std::int64_t peak_bytes(const Schedule& schedule, std::int32_t stage, const std::vector<PassBytes>& chunks);

 private:
  /// Passes held while a pass of one class runs.
  struct Moment {
    std::int32_t running = 0;              ///< class of the pass that runs
    bool backward = false;                 ///< which of its transients
    std::vector<std::int32_t> whole, all;  ///< by class
  };
  /// The deciding moments of a stage whose chunks fall into these classes.
  struct Pattern {
    std::vector<std::int32_t> classes;  ///< of each chunk, numbered in order of their first chunk
    std::vector<Moment> moments;
  };
  using Stages = std::vector<std::vector<Pattern>>;

  const std::vector<Moment>& moments(const Schedule& shortest, std::int32_t stage);
  static std::vector<Moment> deciding(const Schedule& shortest, std::int32_t stage, const std::vector<std::int32_t>& classes);
  static void keep(std::vector<Moment>& moments, const Moment& found);

  std::unordered_map<std::uint64_t, Stages> structures_;
  std::vector<std::int32_t> classes_;  ///< of the stage asked for
  std::vector<std::size_t> first_of_;  ///< class → its first chunk
};

}  // namespace espalier
