// SPDX-License-Identifier: Apache-2.0
// Numbers and tables for people: the few ways in which Espalier writes a time, a size, a share and a table in text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"

namespace espalier::text {

/// Pieces joined into one string.
template <class... Pieces>
std::string cat(const Pieces&... pieces) {
  std::string out;
  (out.append(pieces), ...);
  return out;
}

std::string seconds(std::int64_t nanoseconds);     ///< "5.120 s", "812.4 ms", "93.1 us"
std::string gib(std::int64_t bytes);               ///< "66.3 GiB"
std::string fixed(double value, int decimals);     ///< "40.61"
std::string percent(double fraction);              ///< "40.6 %"
std::string grouped(std::int64_t value);           ///< "8,030,261,248"
std::string count(double value);                   ///< grouped below 2^53, else "1.2e+20"
std::string short_count(double value);             ///< "8.03B", "124.4M"
std::string bar(double fraction, int width);       ///< "██████", at least one block when fraction > 0.005
std::size_t display_width(std::string_view utf8);  ///< code points
std::string pad_right(std::string_view s, std::size_t width);
std::string pad_left(std::string_view s, std::size_t width);

/// Rows of cells in aligned columns; the first row is the header. Column 0 is left-aligned, the others right-aligned unless
/// named in `left`. The table is marked, not laid out yet: that is for lay_out (planner/text_layout.h), where the width is known.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& left = {},
                  std::string_view indent = "  ");

/// Words broken at spaces so that no line is longer than `width`; later lines start with `indent`. The breaks are marked: for a narrower
/// terminal lay_out chooses others.
std::string wrap(std::string_view sentence, std::size_t width, std::string_view indent);

/// The last layer of a plan, its head.
std::int32_t last_layer_of(const Plan& plan);

/// Equal neighbouring stages as one line: {"stages 1-6", "8 blocks", "66.3 GiB"}.
struct StageRun {
  std::int32_t first = 0, last = 0;
  std::string layers;           ///< "embedding + 8 blocks"; chunks of a stage joined by " | "
  std::int64_t peak_bytes = 0;  ///< largest of the run
};
std::vector<StageRun> stage_runs(const Plan& plan, const std::vector<std::int64_t>& peak_bytes_per_stage);

}  // namespace espalier::text
