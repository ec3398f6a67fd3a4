// SPDX-License-Identifier: Apache-2.0
#include "lab/operator_tables.h"

#include <algorithm>
#include <cstdlib>

#include "base/document.h"
#include "base/invariant.h"

namespace espalier::lab {
namespace {

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> out;
  while (true) {
    const auto comma = line.find(',');
    out.emplace_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    line.remove_prefix(comma + 1);
  }
}

std::size_t column_of(const OperatorTable& table, std::string_view column) {
  const auto found = std::find(table.header.begin(), table.header.end(), column);
  ESPALIER_CHECK(found != table.header.end());
  return static_cast<std::size_t>(found - table.header.begin());
}

}  // namespace

const std::string& OperatorTable::text(std::size_t row, std::string_view column) const {
  return rows[row][column_of(*this, column)];
}
double OperatorTable::number(std::size_t row, std::string_view column) const {
  return std::strtod(text(row, column).c_str(), nullptr);
}
bool OperatorTable::has(std::string_view column) const { return std::find(header.begin(), header.end(), column) != header.end(); }

Result<OperatorTable> parse_table(std::string_view text, const std::string& name) {
  OperatorTable table;
  table.name = name;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.front() == '#') {
      table.comments.emplace_back(line);
    } else if (table.header.empty()) {
      table.header = split(line);
    } else {
      table.rows.push_back(split(line));
      table.lines.emplace_back(line);
      if (table.rows.back().size() != table.header.size())
        return Error{ErrorKind::bad_input, name, std::string(line), std::to_string(table.header.size()) + " values", ""};
    }
  }
  return table;
}

Result<OperatorTable> load_table(const std::string& directory, const std::string& name) {
  const auto text = base::read_file(directory + "/" + name, std::size_t{64} << 20);
  if (!text) return text.error();
  return parse_table(*text, name);
}

std::uint64_t row_hash(std::string_view line) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : line) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash ^ (hash >> 29);  // the low bits of FNV are its weakest
}

OperatorTable thinned(const OperatorTable& table, std::uint64_t step) {
  OperatorTable out;
  out.name = table.name;
  out.comments = table.comments;
  out.header = table.header;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (row_hash(table.lines[i]) % step != 0) continue;
    out.rows.push_back(table.rows[i]);
    out.lines.push_back(table.lines[i]);
  }
  return out;
}

std::string to_text(const OperatorTable& table) {
  std::string out;
  for (const std::string& line : table.comments) out += line + "\n";
  for (std::size_t i = 0; i < table.header.size(); ++i) out += (i ? "," : "") + table.header[i];
  out += "\n";
  for (const std::string& line : table.lines) out += line + "\n";
  return out;
}

}  // namespace espalier::lab
