// SPDX-License-Identifier: Apache-2.0
#include "report/text_layout.h"

#include <algorithm>

#include "base/format.h"
#include "report/brief_text.h"
#include "report/table_layout.h"

namespace espalier::report {
namespace {

/// Returns the column where continuation lines begin: below the value after its label ("  memory        70.1 GiB …"),
/// after a bullet, else two columns in.
std::size_t hanging_indent(std::string_view line) {
  constexpr std::size_t kLongestLabel = 34;
  const std::size_t lead = std::min(line.find_first_not_of(' '), line.size());
  if (line.substr(lead, 2) == "- ") return lead + 2;
  const std::size_t gap = line.find("  ", lead);
  if (gap != std::string_view::npos) {
    const std::size_t value = line.find_first_not_of(' ', gap);
    if (value != std::string_view::npos && value <= kLongestLabel) return display_width(line.substr(0, value));
  }
  return lead + 2;
}

bool is_bar(std::string_view word) {
  for (constexpr std::string_view kBlock = "█"; word.substr(0, kBlock.size()) == kBlock;) word.remove_prefix(kBlock.size());
  return word.empty();
}

constexpr std::size_t kShortIndent = 4;

/// Folds one line without marks at spaces.
std::string fold(std::string_view line, std::size_t width, std::size_t hang) {
  std::string out, spaces;
  std::size_t column = 0;
  bool first = true;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    const std::string_view blank = line.substr(at, begin - at), word = line.substr(begin, end - begin);
    const std::size_t wide = display_width(word);
    at = end;
    if (!first && column + blank.size() + wide > width) {
      if (is_bar(word)) continue;
      column = hang + wide <= width ? hang : std::min(hang, kShortIndent);  // a long word is given more room
      out.append("\n").append(column, ' ');
    } else {
      out += blank;
      column += blank.size();
    }
    out += word;
    column += wide;
    first = false;
  }
  return out;
}

/// Lays out a line outside tables. Its marked breaks are line breaks where there is no width, and spaces where there
/// is one.
std::string lay_out_line(std::string_view line, std::size_t width) {
  std::string out;
  std::size_t hang = 0;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t mark = std::min(line.find(kBreak, at), line.size());
    out += line.substr(at, mark - at);
    if (mark == line.size()) break;
    const std::size_t next = std::min(line.find_first_not_of(' ', mark + 1), line.size());
    hang = next - mark - 1;
    if (width == 0)
      out.append("\n").append(hang, ' ');
    else
      out += ' ';
    at = next;
  }
  if (width == 0 || display_width(out) <= width) return out;
  hang = hang > 0 ? hang : hanging_indent(out);
  return fold(out, width, std::min(hang, width / 2));
}

}  // namespace

std::string lay_out(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t table = text.find(kTable), line = text.find('\n');
    if (table == 0) {
      const std::size_t end = std::min(text.find(kTable, 1), text.size());
      out += lay_out_table(text.substr(1, end - 1), width);
      text.remove_prefix(std::min(end + 1, text.size()));
      continue;
    }
    const std::size_t end = std::min({table, line, text.size()});
    out += lay_out_line(text.substr(0, end), width);
    if (end == line) out += '\n';
    text.remove_prefix(end == line ? end + 1 : end);
  }
  return out;
}

}  // namespace espalier::report
