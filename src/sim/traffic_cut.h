// SPDX-License-Identifier: Apache-2.0
// Cuts the traffic of an instruction: a backward pass in buckets is one work whose buckets run one after the other.
#pragma once

#include <cstdint>

#include "sim/program_traffic.h"

namespace espalier::sim {

/// Returns the pieces that lie in [begin_ns, end_ns) of the whole instruction, with offsets and due times counted
/// from begin_ns. A piece that crosses an end is reduced to the part inside. Its bytes, and the time that its links
/// need for them, shrink by the same share. Pieces without flows are left out.
Pieces cut_pieces(const Pieces& pieces, std::int64_t begin_ns, std::int64_t end_ns);

}  // namespace espalier::sim
