// SPDX-License-Identifier: Apache-2.0
// The peak of every stage, derived from the plan and its program.
//
//     peak = (states + buffers + workspaces + most activations) · (1 + allocator reserve of the engine), rounded down
// Most activations: along the program of a rank, a forward pass adds what its chunk keeps, and its backward pass
// (zero-bubble: its weight gradient) frees it at the end; while a pass runs, its chunk holds chunk_peaks() instead of
// what it keeps (transients.h). All passes of a rank run on one stream, in the order of the list, so that no times are
// needed.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

/// Bytes; least = most but for plans that partition operators.
struct PeakBytes {
  std::int64_t least = 0, most = 0;
  /// Whether a claim is what was derived, within 2 % for what the derivation leaves out: tensors of single kernels,
  /// rounding of blocks.
  [[nodiscard]] bool admits(std::int64_t claimed) const;
};

/// What a plan may fill of a device of a node group.
std::int64_t usable_bytes(const Cluster& cluster, std::size_t group);

/// Of each stage. `fixed`: states; `saved`: what each pipeline chunk keeps of a micro-batch.
std::vector<PeakBytes> peak_bytes_per_stage(const View& view, const Program& program, const std::vector<std::int64_t>& fixed,
                                            const std::vector<std::int64_t>& saved);

/// Activations of a rank of each stage that wait in the memory of its host, at most.
std::vector<std::int64_t> waiting_on_hosts(const View& view, const Program& program);

}  // namespace espalier::check
