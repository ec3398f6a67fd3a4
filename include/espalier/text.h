// SPDX-License-Identifier: Apache-2.0
// Text for people, laid out for the width of a terminal. Functions that return text for people take a width themselves;
// where the width is known later, ask them for 0 and lay the text out when it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier {

/// The text with no line longer than `width` columns; 0: as wide as it is. Sentences break at spaces, later lines begin
/// below the first word behind the line's label. A table that is too wide breaks the cells of its left-aligned columns;
/// where that is not enough it puts them on lines of their own below the row; a table of figures alone is cut into
/// several, each with the first column. A word that is longer than the width (a path, an address) stays whole outside
/// tables; a bar that has no room is left out.
std::string lay_out(std::string_view text, std::size_t width);

}  // namespace espalier
