// SPDX-License-Identifier: Apache-2.0
// The traffic of a part of an instruction: a backward pass in buckets is one work whose buckets run one after the
// other.
#pragma once

#include <cstdint>

#include "sim/program_traffic.h"

namespace espalier::sim {

/// The pieces that lie in [begin_ns, end_ns) of the whole instruction, offsets and due times counted from begin_ns. Of
/// a piece that reaches across an end the part inside, with as large a part of its bytes and of the time that its links
/// need for them. Pieces without flows are left out.
Pieces cut_pieces(const Pieces& pieces, std::int64_t begin_ns, std::int64_t end_ns);

}  // namespace espalier::sim
