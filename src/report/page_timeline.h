// SPDX-License-Identifier: Apache-2.0
// Writes a timeline as columns for the page. A row is one stream of one class of equal ranks. Its bars are in the
// order of their starts.
//
//   bars of all rows, packed (report/packed.h), row after row, in each row column after column:
//     start   nanoseconds since the start of the bar before, signed; the first since the start of the step
//     length  nanoseconds
//     name    number in `names`, each with the category that colours it
//     microbatch + 1, chunk + 1, layer + 1, bytes, members of the group, peer + 1     0: none
//
//   memory of all ranks, packed, rank after rank: moments since the one before, signed, then bytes since those before,
//   signed
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/document.h"
#include "espalier/timeline.h"

namespace espalier::report {

/// Describes how much of a timeline is shown.
struct ShownPart {
  std::int32_t microbatches = 0;  ///< number of the first micro-batches
  bool all_steps = true;          ///< false: only steps of the first micro-batch
};

/// Limits the memory samples that a rank shows. Beyond it, the highest sample in each of this many equal parts of the
/// step is kept.
inline constexpr std::size_t kMemorySamples = 2048;

void write_timeline(base::JsonWriter& w, const Timeline& timeline, const ShownPart& shown);

/// Returns the largest part with which the written timeline has at most `most_bytes`. For a timeline that never fits,
/// it is the first micro-batch.
ShownPart shown_part(const Timeline& timeline, std::size_t most_bytes);

}  // namespace espalier::report
