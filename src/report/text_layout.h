// SPDX-License-Identifier: Apache-2.0
// Defines the marks of text that is not laid out yet (lay_out of espalier/text.h). Writers of answers mark tables and
// places where a sentence may break (report/brief_text.h: table, wrap). The layout is decided in one place, when the
// width is known.
//
// Until then such places are marked with ASCII's own separators, which no text of ours contains otherwise:
//   kTable indent kCell left-aligned columns kRow cell kCell cell … kRow cell … kTable      a table, its header first
//   kBreak indent                                                                          a possible line break
#pragma once

#include <cstddef>

#include "espalier/text.h"

namespace espalier::report {

inline constexpr char kBreak = '\x1c';
inline constexpr char kTable = '\x1d';
inline constexpr char kRow = '\x1e';
inline constexpr char kCell = '\x1f';
inline constexpr std::size_t kTerminalWidth = 80;  ///< the default for a pipe or a file

}  // namespace espalier::report
