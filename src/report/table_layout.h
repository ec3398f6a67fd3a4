// SPDX-License-Identifier: Apache-2.0
// A table between its mark in unlaid text (report/text_layout.h) and its lines on a terminal of some width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::report {

/// The marked form of a table; report/brief_text.h says what the arguments mean. A line break in a cell stays where
/// there is room.
std::string mark_table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& left,
                       std::string_view indent);

/// The lines of the table in `marked`, which stands between two kTable; `width` 0: as wide as it is.
std::string lay_out_table(std::string_view marked, std::size_t width);

/// A cell broken at spaces into lines of at most `width` columns, those after the first `hang` columns narrower. A
/// longer word is cut behind one of "/+,:_-" or, without any, anywhere.
std::vector<std::string> broken(std::string_view cell, std::size_t width, std::size_t hang);

}  // namespace espalier::report
