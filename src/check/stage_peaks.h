// SPDX-License-Identifier: Apache-2.0
// Derives the peak of every stage from the plan and its program:
//
//     peak = (states + buffers + workspaces + most activations) · (1 + allocator reserve of the engine), rounded
//     down.
//
// A rank's program determines its most activations. A forward pass adds what its chunk keeps. Its backward pass
// (zero-bubble: its weight gradient) frees it at the end. While a pass runs, its chunk holds chunk_peaks() instead of
// what it keeps (transients.h). All passes of a rank run on one stream, in the order of the list, so no times are
// needed.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

/// Holds bytes. least = most unless the plan partitions operators.
struct PeakBytes {
  std::int64_t least = 0, most = 0;
  /// Returns whether a claim matches the derived bytes within 2 %. The derivation leaves out tensors of single
  /// kernels and the rounding of blocks.
  [[nodiscard]] bool admits(std::int64_t claimed) const;
};

/// Returns the bytes that a plan may use of a device of a node group.
std::int64_t usable_bytes(const Cluster& cluster, std::size_t group);

/// Returns the peak of each stage. `fixed` holds its states; `saved` holds the bytes that each pipeline chunk keeps
/// of a micro-batch.
std::vector<PeakBytes> peak_bytes_per_stage(const View& view, const Program& program, const std::vector<std::int64_t>& fixed,
                                            const std::vector<std::int64_t>& saved);

/// Returns the largest number of activation bytes that a rank of each stage keeps in its host's memory.
std::vector<std::int64_t> waiting_on_hosts(const View& view, const Program& program);

}  // namespace espalier::check
