// SPDX-License-Identifier: Apache-2.0
#include "report/table_layout.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/invariant.h"
#include "report/brief_text.h"
#include "report/text_layout.h"

namespace espalier::report {
namespace {

constexpr std::size_t kGap = 2;         ///< between two columns
constexpr std::size_t kHang = 2;        ///< indent of later lines of a broken cell
constexpr std::size_t kNarrowest = 14;  ///< a left-aligned column is not made narrower
constexpr std::size_t kBelow = 4;       ///< indent, beyond the row's, of cells below it

struct Table {
  std::string indent;
  std::vector<bool> left;
  std::vector<std::vector<std::string>> rows;  ///< the header first; all of one length
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Table read(std::string_view marked) {
  Table t;
  std::size_t columns = 0;
  const std::vector<std::string> rows = split(marked, kRow);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    t.rows.push_back(split(rows[i], kCell));
    columns = std::max(columns, t.rows.back().size());
  }
  for (auto& row : t.rows) row.resize(columns);
  const std::vector<std::string> head = split(rows.front(), kCell);
  t.indent = head.front();
  t.left.assign(columns, false);
  if (columns > 0) t.left[0] = true;
  for (std::size_t i = 1; i < head.size(); ++i) {
    const std::size_t column = std::stoul(head[i]);
    if (column < columns) t.left[column] = true;
  }
  return t;
}

// ---- widths -------------------------------------------------------------------------------------------------------

std::size_t line_width(const std::string& cell) {
  std::size_t widest = 0;
  for (const std::string& line : split(cell, '\n')) widest = std::max(widest, display_width(line));
  return widest;
}

std::size_t longest_word(const std::string& cell) {
  std::size_t longest = 0;
  for (const std::string& word : split(cell, ' ')) longest = std::max(longest, line_width(word));
  return longest;
}

/// Returns the width of the widest line.
std::size_t natural_width(const Table& t, std::size_t column) {
  std::size_t widest = 0;
  for (const auto& row : t.rows) widest = std::max(widest, line_width(row[column]));
  return widest;
}

/// Returns the least width: figures are never broken, headers at spaces, and text down to some columns.
std::size_t least_width(const Table& t, std::size_t column) {
  if (t.left[column]) return std::min(natural_width(t, column), kNarrowest);
  std::size_t widest = longest_word(t.rows.front()[column]);
  for (std::size_t i = 1; i < t.rows.size(); ++i) widest = std::max(widest, line_width(t.rows[i][column]));
  return widest;
}

std::size_t total_width(const Table& t, const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), display_width(t.indent) + kGap * (widths.size() - 1));
}

/// Returns widths that sum to `width` or less. The widest column that can be narrower shrinks first. Empty where no
/// widths fit.
std::vector<std::size_t> fitted(const Table& t, std::size_t width) {
  std::vector<std::size_t> widths(t.left.size()), least(t.left.size());
  for (std::size_t c = 0; c < widths.size(); ++c) {
    widths[c] = natural_width(t, c);
    least[c] = least_width(t, c);
  }
  while (width > 0 && total_width(t, widths) > width) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] > least[c] && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == widths.size()) return {};
    --widths[widest];
  }
  return widths;
}

/// Returns the bytes of the longest beginning of `word` that fits into `room` columns. It ends at a sign where words
/// may be cut, if there is one in its second half.
std::size_t cut_of(std::string_view word, std::size_t room) {
  std::size_t any = 1, sign = 0;
  for (std::size_t at = 1, wide = 0; at <= word.size() && wide < room; ++at) {
    if (at < word.size() && (static_cast<unsigned char>(word[at]) & 0xC0) == 0x80) continue;  // inside a character
    ++wide;
    any = at;
    if (wide * 2 > room && std::string_view("/+,:_-").find(word[at - 1]) != std::string_view::npos) sign = at;
  }
  return sign > 0 ? sign : any;
}

// ---- lines --------------------------------------------------------------------------------------------------------

std::vector<std::string> lines_of(const std::string& cell, std::size_t width, bool left) {
  if (line_width(cell) <= width) return split(cell, '\n');
  std::vector<std::string> lines = broken(cell, width, left ? kHang : 0);
  for (std::size_t i = 1; left && i < lines.size(); ++i) lines[i].insert(0, kHang, ' ');
  return lines;
}

std::string row_lines(const Table& t, const std::vector<std::string>& row, const std::vector<std::size_t>& widths) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t c = 0; c < row.size(); ++c) {
    cells.push_back(lines_of(row[c], widths[c], t.left[c]));
    height = std::max(height, cells.back().size());
  }
  std::string out;
  for (std::size_t i = 0; i < height; ++i) {
    std::string line = t.indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string& piece = i < cells[c].size() ? cells[c][i] : "";
      line.append(c > 0 ? kGap : 0, ' ').append(t.left[c] ? pad_right(piece, widths[c]) : pad_left(piece, widths[c]));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

/// Writes "header: cell" on separate lines, for a column that does not fit next to the others.
std::string below(const Table& t, std::size_t row, std::size_t column, std::size_t width) {
  if (row == 0 || t.rows[row][column].empty()) return "";
  const std::string indent = t.indent + std::string(kBelow, ' ');
  const std::size_t room = width > display_width(indent) + kNarrowest ? width - display_width(indent) : kNarrowest;
  std::string out;
  for (const std::string& line : lines_of(cat(t.rows[0][column], ": ", t.rows[row][column]), room, true))
    out += cat(indent, line, "\n");
  return out;
}

/// Returns the listed columns of `t`.
Table part_of(const Table& t, const std::vector<std::size_t>& columns) {
  Table part{t.indent, {}, std::vector<std::vector<std::string>>(t.rows.size())};
  for (const std::size_t c : columns) {
    part.left.push_back(t.left[c]);
    for (std::size_t i = 0; i < t.rows.size(); ++i) part.rows[i].push_back(t.rows[i][c]);
  }
  return part;
}

/// Writes the grid of some columns. The lines below each row come from `moved` columns of the whole table.
std::string grid(const Table& whole, const Table& part, const std::vector<std::size_t>& widths,
                 const std::vector<std::size_t>& moved, std::size_t width) {
  std::string out;
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    out += row_lines(part, part.rows[i], widths);
    for (const std::size_t column : moved) out += below(whole, i, column, width);
  }
  return out;
}

/// Writes several tables, each with the first column and as many others as fit.
std::string several(const Table& whole, const std::vector<std::size_t>& columns, const std::vector<std::size_t>& moved,
                    std::size_t width) {
  std::string out;
  for (std::size_t next = 1; next < columns.size();) {
    std::vector<std::size_t> taken{columns[0], columns[next]};
    Table part = part_of(whole, taken);
    std::vector<std::size_t> widths = fitted(part, width);
    for (++next; next < columns.size(); ++next) {
      taken.push_back(columns[next]);
      const Table larger = part_of(whole, taken);
      std::vector<std::size_t> room = fitted(larger, width);
      if (room.empty()) break;
      part = larger;
      widths = std::move(room);
    }
    if (widths.empty()) widths = fitted(part, 0);  // one column of figures that is wider than the terminal
    out += cat(out.empty() ? "" : "\n", grid(whole, part, widths, out.empty() ? moved : std::vector<std::size_t>{}, width));
  }
  return out;
}

}  // namespace

std::string mark_table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& left,
                       std::string_view indent) {
  ESPALIER_CHECK(!rows.empty());
  std::string out(1, kTable);
  out += indent;
  for (const std::size_t column : left) {
    ESPALIER_CHECK(column < rows.front().size());
    out.append(1, kCell).append(std::to_string(column));
  }
  for (const auto& row : rows) {
    ESPALIER_CHECK(row.size() == rows.front().size());  // every row has a cell below every header
    out += kRow;
    for (std::size_t c = 0; c < row.size(); ++c) out.append(c > 0 ? 1 : 0, kCell).append(row[c]);
  }
  return out + kTable;
}

std::string lay_out_table(std::string_view marked, std::size_t width) {
  const Table t = read(marked);
  std::vector<std::size_t> columns(t.left.size()), moved;
  if (columns.empty()) return "";
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  for (;;) {
    const Table part = part_of(t, columns);
    const std::vector<std::size_t> widths = fitted(part, width);
    if (!widths.empty()) return grid(t, part, widths, moved, width);
    const auto last = std::find_if(columns.rbegin(), columns.rend(), [&](std::size_t c) { return c > 0 && t.left[c]; });
    if (last == columns.rend()) return several(t, columns, moved, width);
    moved.insert(moved.begin(), *last);
    columns.erase(std::next(last).base());
  }
}

std::vector<std::string> broken(std::string_view cell, std::size_t width, std::size_t hang) {
  std::vector<std::string> lines(1);
  std::size_t column = 0;
  const auto room = [&] { return lines.size() == 1 || width <= hang ? width : width - hang; };
  const auto next_line = [&] {
    lines.emplace_back();
    column = 0;
  };
  while (!cell.empty()) {
    const std::size_t space = cell.find_first_of(" \n");
    std::string_view word = cell.substr(0, space);
    cell.remove_prefix(space == std::string_view::npos ? cell.size() : space + 1);
    if (column > 0 && column + 1 + display_width(word) > room()) next_line();
    while (column == 0 && display_width(word) > room()) {  // a word longer than a line is cut
      const std::size_t cut = cut_of(word, room());
      lines.back() = word.substr(0, cut);
      next_line();
      word.remove_prefix(cut);
    }
    lines.back().append(column > 0 ? " " : "").append(word);
    column += (column > 0 ? 1 : 0) + display_width(word);
  }
  return lines;
}

}  // namespace espalier::report
