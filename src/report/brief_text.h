// SPDX-License-Identifier: Apache-2.0
// Writes tables, bars and wrapped lines for people. base/format.h formats the numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"

namespace espalier::report {

std::string bar(double fraction, int width);  ///< "██████", at least one block when fraction > 0.005

/// Writes rows of cells in aligned columns; the first row is the header. Column 0 is left-aligned, the others
/// right-aligned unless named in `left`. The table is only marked here. lay_out (espalier/text.h) lays it out where
/// the width is known.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& left = {},
                  std::string_view indent = "  ");

/// Breaks words at spaces so that no line is longer than `width`; later lines start with `indent`. The breaks are
/// marked, so that lay_out can choose others for a narrower terminal.
std::string wrap(std::string_view sentence, std::size_t width, std::string_view indent);

/// Describes equal neighbouring stages as one line: {"stages 1-6", "8 blocks", "66.3 GiB"}.
struct StageRun {
  std::int32_t first = 0, last = 0;
  std::string layers;           ///< "embedding + 8 blocks"; chunks of a stage joined by " | "
  std::int64_t peak_bytes = 0;  ///< largest of the run
};
std::vector<StageRun> stage_runs(const Pipeline& pipeline, const std::vector<std::int64_t>& peak_bytes_per_stage);

}  // namespace espalier::report
