// SPDX-License-Identifier: Apache-2.0
// Lays out text for the width of a terminal. Functions that return text for people take a width themselves. If the
// width is unknown, pass 0 and lay out the text later.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier::report {

/// Returns the text with no line longer than `width` columns; 0 does not wrap. Sentences break at spaces, and later
/// lines begin below the first word after the line's label. A table that is too wide breaks the cells of its
/// left-aligned columns; if that is not enough, it puts them on separate lines below the row. A table that contains
/// only figures is split into several, each with the first column. A word that is longer than the width (a path, an
/// address) stays whole outside tables; a bar that does not fit is left out.
std::string lay_out(std::string_view text, std::size_t width);

}  // namespace espalier::report
