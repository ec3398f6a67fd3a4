// SPDX-License-Identifier: Apache-2.0
// Converts a table from its mark in unlaid text (report/text_layout.h) to its lines on a terminal of some width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::report {

/// Returns the marked form of a table; report/brief_text.h describes the arguments. A line break in a cell stays
/// where there is room.
std::string mark_table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& left,
                       std::string_view indent);

/// Returns the lines of the table in `marked`, which is between two kTable. With `width` 0 the table is not narrowed.
std::string lay_out_table(std::string_view marked, std::size_t width);

/// Breaks a cell at spaces into lines of at most `width` columns; those after the first are `hang` columns narrower.
/// A longer word is cut after one of "/+,:_-" or, without any, anywhere.
std::vector<std::string> broken(std::string_view cell, std::size_t width, std::size_t hang);

}  // namespace espalier::report
