// SPDX-License-Identifier: Apache-2.0
// Computes the activations that a stage holds at its fullest moment, exactly and without a program.
//
// The order of passes on a stage depends only on the schedule kind, p, v, m and the stage. At every moment a chunk
// pass is in one of two states. It is whole between its forward and its backward or input gradient, and holds `saved`
// bytes. If the backward is split, it then waits for its weight gradient and holds `after_input` bytes. At most one
// pass runs, and it needs its transient bytes in addition. Let whole_c and all_c be the passes of class c that are
// whole, and whole or waiting:
//
//     held = Σ_c (whole_c · (saved_c − after_input_c) + all_c · after_input_c) + transient of the pass that runs.
//
// A class is a set of chunks of the stage with equal bytes. All coefficients are at least zero. So a moment never
// decides if another moment with the same transient has at least as many passes of every class. Only the moments that
// no other one dominates are kept, and a peak is the largest of a few dot products. A weight gradient has no
// transient and follows a moment that held no less. The result equals a replay of the lowered program
// (sim/memory_replay.h). Sends and collectives hold nothing. A chunk that is cut into buckets saves with its first
// bucket, frees with its last, and needs the same transient in each.
//
// Two facts keep the tables small. With one chunk per stage there is one deciding moment, in closed form: w =
// max_whole passes are whole, and max_in_flight − w wait (plan/program.h). With several chunks the order repeats once
// the pipeline is full, and further micro-batches only add repetitions:
//     zb-v          the steady state returns to the same passes held after each F₀ B₀ W₀ F₁ B₁ W₁;
//                   from m = 2p on it runs at least once, and fill and drain do not depend on m.
//     interleaved   groups of p micro-batches, the last one of p + m mod p. The warm-up of at most
//                   2(p−1) + (v−1)(2p−1) < 2pv passes lies within the first two groups.
//                   From four groups on, every offset between forwards and backwards already occurs,
//                   in a period of the middle and at the end.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "espalier/plan.h"

namespace espalier {

/// Holds the bytes of one pass of one micro-batch through a chunk; 0 ≤ after_input ≤ saved, transients at least 0.
struct PassBytes {
  std::int64_t saved = 0;                                      ///< from the forward to the backward, or to the input gradient
  std::int64_t after_input = 0;                                ///< from the input gradient to the weight gradient
  std::int64_t forward_transient = 0, backward_transient = 0;  ///< while the pass runs
  bool operator==(const PassBytes&) const = default;
};

/// Returns the schedule with the fewest micro-batches whose stages hold the same passes at their fullest moments.
Schedule shortest_alike(const Schedule& schedule);

/// Computes peaks, and keeps the deciding moments of the structures that it met. Each thread needs its own.
class HeldPasses {
 public:
  /// Returns the bytes of activations at the fullest moment of `stage`. `chunks` are its v chunks, the local
  /// ones in order.
  std::int64_t peak_bytes(const Schedule& schedule, std::int32_t stage, const std::vector<PassBytes>& chunks);

 private:
  /// Counts the passes held while a pass of one class runs.
  struct Moment {
    std::int32_t running = 0;              ///< class of the pass that runs
    bool backward = false;                 ///< which of its transients
    std::vector<std::int32_t> whole, all;  ///< by class
  };
  /// Holds the deciding moments of a stage whose chunks fall into these classes.
  struct Pattern {
    std::vector<std::int32_t> classes;  ///< class of each chunk, numbered in order of their first chunk
    std::vector<Moment> moments;
  };
  using Stages = std::vector<std::vector<Pattern>>;

  const std::vector<Moment>& moments(const Schedule& shortest, std::int32_t stage);
  static std::vector<Moment> deciding(const Schedule& shortest, std::int32_t stage, const std::vector<std::int32_t>& classes);
  static void keep(std::vector<Moment>& moments, const Moment& found);

  std::unordered_map<std::uint64_t, Stages> structures_;
  std::vector<std::int32_t> classes_;  ///< classes of the requested stage
  std::vector<std::size_t> first_of_;  ///< class → its first chunk
};

}  // namespace espalier
