// SPDX-License-Identifier: Apache-2.0
#include "cluster/table_reader.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"

namespace espalier::cluster {
namespace {

constexpr std::size_t kMaxTableBytes = 16u << 20;
constexpr std::size_t kMaxColumns = 64;

Error at_place(const std::string& where, base::TextPosition place, std::string found, std::string expected,
               std::string hint = "") {
  return {ErrorKind::bad_input, base::at(where, place), std::move(found), std::move(expected), std::move(hint)};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool looks_like_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789+-.eE") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

base::Node cell_of(std::string_view text, base::TextPosition place, bool quoted) {
  base::Node node;
  if (!quoted && looks_like_number(text))
    if (auto number = base::number_node(text)) node = *number;
  if (node.kind == base::NodeKind::null && (quoted || !text.empty())) {
    node.kind = base::NodeKind::string;
    node.text = std::string(text);
  }
  node.line = place.line;
  node.column = place.column;
  return node;
}

/// Splits one line into cells. Errors are an open quote, or too many cells.
Result<TableRow> cells_of(std::string_view line, std::int32_t number, const std::string& where) {
  TableRow row;
  row.line = number;
  std::size_t begin = 0;
  while (true) {
    const std::size_t blank = line.find_first_not_of(" \t", begin);
    const std::size_t start = blank == std::string_view::npos ? line.size() : blank;
    const base::TextPosition place{number, static_cast<std::int32_t>(start + 1)};
    if (row.cells.size() == kMaxColumns) return at_place(where, place, "more than 64 columns", "at most 64 columns");
    const bool quoted = start < line.size() && line[start] == '"';
    std::size_t end = line.find(',', begin);
    if (quoted) {
      const std::size_t close = line.find('"', start + 1);
      if (close == std::string_view::npos)
        return at_place(where, place, "a quote that is not closed", "a second \" on the same line");
      end = line.find(',', close);
      row.cells.push_back(cell_of(line.substr(start + 1, close - start - 1), place, true));
    } else {
      row.cells.push_back(cell_of(trimmed(line.substr(begin, end == std::string_view::npos ? end : end - begin)), place, false));
    }
    if (end == std::string_view::npos) return row;
    begin = end + 1;
  }
}

}  // namespace

Result<std::vector<TableRow>> read_rows(std::string_view text, const std::string& where) {
  if (Status status = base::check_text(text, where, kMaxTableBytes); !status.ok()) return status.error();
  std::vector<TableRow> rows;
  std::int32_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#') continue;
    if (rows.size() > kMaxTableRows)
      return at_place(where, {number, 1}, cat("more than ", kMaxTableRows, " rows"), "a shorter table");
    auto row = cells_of(line, number, where);
    if (!row) return row.error();
    rows.push_back(std::move(*row));
  }
  return rows;
}

Result<base::Document> read_table(std::string_view text, const std::string& where, const std::string& key,
                                  const std::vector<std::string>& columns) {
  const std::string header = base::joined(columns, ",");
  auto rows = read_rows(text, where);
  if (!rows) return rows.error();
  if (rows->empty()) return at_place(where, {}, "no line with column names", "the header " + header);
  std::vector<std::string> names;
  for (const base::Node& cell : rows->front().cells) {
    const base::TextPosition place{cell.line, cell.column};
    if (std::find(columns.begin(), columns.end(), cell.text) == columns.end())
      return at_place(where, place, "column " + base::in_quotes(cell.text), "the header " + header,
                      base::suggestion(cell.text, columns));
    if (std::find(names.begin(), names.end(), cell.text) != names.end())
      return at_place(where, place, "column " + base::in_quotes(cell.text) + " a second time", "the header " + header);
    names.push_back(cell.text);
  }
  if (names.size() < columns.size())
    return at_place(where, {rows->front().line, 1}, base::joined(names, ","), "the header " + header);
  base::Node list;
  list.kind = base::NodeKind::sequence;
  for (std::size_t r = 1; r < rows->size(); ++r) {
    TableRow& row = (*rows)[r];
    if (row.cells.size() != names.size())
      return at_place(where, {row.line, 1}, cat(row.cells.size(), " values"), cat(names.size(), ": ", base::joined(names, ",")));
    base::Node item;
    item.kind = base::NodeKind::mapping;
    item.line = row.line;
    for (std::size_t c = 0; c < names.size(); ++c) item.members.emplace_back(names[c], std::move(row.cells[c]));
    list.items.push_back(std::move(item));
  }
  base::Document document{where, {}};
  document.root.kind = base::NodeKind::mapping;
  document.root.members.emplace_back(key, std::move(list));
  return document;
}

}  // namespace espalier::cluster
