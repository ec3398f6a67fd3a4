// SPDX-License-Identifier: Apache-2.0
// Text for people laid out for the width of a terminal. Writers of answers say what is a table and where a sentence may break
// (report/brief_text.h: table, wrap); how that looks is decided here, once, when the width is known.
//
// Until then such places are marked with ASCII's own separators, which no text of ours holds otherwise:
//   kTable indent kCell left-aligned columns kRow cell kCell cell … kRow cell … kTable      a table, its header first
//   kBreak indent                                                                          a place where a sentence may break
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier::report {

inline constexpr char kBreak = '\x1c', kTable = '\x1d', kRow = '\x1e', kCell = '\x1f';
inline constexpr std::size_t kTerminalWidth = 80;  ///< where nobody says otherwise: a pipe, a file

/// The text with no line longer than `width` columns; 0: as wide as it is. Sentences break at spaces, later lines begin below the first
/// word behind the line's label. A table that is too wide breaks the cells of its left-aligned columns; where that is not enough it puts
/// them on lines of their own below the row; a table of figures alone is cut into several, each with the first column. A word that is
/// longer than the width (a path, an address) stays whole outside tables; a bar that has no room is left out.
std::string lay_out(std::string_view text, std::size_t width);

}  // namespace espalier::report
