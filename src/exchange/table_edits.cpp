// SPDX-License-Identifier: Apache-2.0
// Edits TOML and YAML line by line, and JSON.
#include <algorithm>
#include <set>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "exchange/file_edits.h"
#include "exchange/settings.h"

namespace espalier::exchange {
namespace {

std::string parent_of(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}
std::string name_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

bool is_bare(const std::string& value) {
  if (value == "true" || value == "false" || value == "null") return true;
  return !value.empty() && value.find_first_not_of("0123456789-") == std::string::npos;
}

/// Returns a scalar in the syntax. Settings use True, False and None.
std::string literal(const std::string& value, bool quotes) {
  std::string word = value == "True" ? "true" : value == "False" ? "false" : value == "None" ? "null" : value;
  return is_bare(word) || !quotes ? word : cat("\"", word, "\"");
}

class Lines {
 public:
  explicit Lines(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      rows_.push_back({std::string(text.substr(at, end - at)), {}, false});
      at = end + 1;
    }
  }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  std::string& at(std::int64_t line) { return rows_[static_cast<std::size_t>(line - 1)].text; }
  void remove(std::int64_t line) { rows_[static_cast<std::size_t>(line - 1)].gone = true; }
  void add_below(std::int64_t line, std::string text) {
    rows_[static_cast<std::size_t>(line - 1)].below.push_back(std::move(text));
  }
  void add_at_end(std::string text) { end_.push_back(std::move(text)); }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const Row& row : rows_) {
      if (!row.gone) out += row.text + "\n";
      for (const std::string& line : row.below) out += line + "\n";
    }
    for (const std::string& line : end_) out += line + "\n";
    return out;
  }

 private:
  struct Row {
    std::string text;
    std::vector<std::string> below;
    bool gone = false;
  };
  std::vector<Row> rows_;
  std::vector<std::string> end_;
};

/// Replaces the text between '=' or ':' and a comment.
void set_value(std::string& line, char sign, const std::string& value) {
  const std::size_t at = line.find(sign);
  if (at == std::string::npos) return;
  std::size_t end = line.find(" #", at);
  if (end == std::string::npos) end = line.size();
  ESPALIER_CHECK(end > at);  // the sign comes before its value
  while (end > at + 1 && (line[end - 1] == ' ' || line[end - 1] == '\t' || line[end - 1] == '\r')) --end;
  line.replace(at + 1, end - at - 1, cat(" ", value));
}

std::string indent_of(const std::string& line) { return line.substr(0, line.find_first_not_of(" \t")); }

/// Returns the line of a table's header; 0 where it has none.
std::int64_t header_of(Lines& file, bool toml, const std::string& table) {
  const std::string want = toml ? cat("[", table, "]") : cat(table, ":");
  for (std::int64_t l = 1; l <= file.count(); ++l) {
    std::string line = file.at(l);
    line.erase(std::min(line.find('#'), line.size()));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line == want) return l;
  }
  return 0;
}

/// Writes a new key below the last one of its table, or with a new table at the end.
void add(Lines& file, bool toml, const std::map<std::string, std::int64_t>& lines, const WantedValue& w,
         std::set<std::string>& made) {
  const std::string table = parent_of(w.key), sign = toml ? " = " : ": ";
  const std::string row = cat(name_of(w.key), sign, literal(w.after, toml));
  std::int64_t last = 0;
  for (const auto& [key, line] : lines)
    if (parent_of(key) == table) last = std::max(last, line);
  if (last > 0) return file.add_below(last, indent_of(file.at(last)) + row);
  const std::string inner = toml || table.empty() ? "" : "  ";
  if (const std::int64_t header = table.empty() ? 0 : header_of(file, toml, table); header > 0)
    return file.add_below(header, inner + row);
  if (!table.empty() && made.insert(table).second) file.add_at_end(toml ? cat("[", table, "]") : cat(table, ":"));
  file.add_at_end(inner + row);
}

/// Sets the leaf or, with an empty value, removes it. Missing tables on the way are made.
void set_leaf(base::Node& root, const std::string& key, const std::string& after) {
  base::Node* node = &root;
  std::string rest = key;
  for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
    const std::string name = rest.substr(0, dot);
    rest.erase(0, dot + 1);
    auto at = std::find_if(node->members.begin(), node->members.end(), [&](const auto& m) { return m.first == name; });
    if (at == node->members.end()) {
      if (after.empty()) return;
      node->members.emplace_back(name, base::Node());
      at = node->members.end() - 1;
      at->second.kind = base::NodeKind::mapping;
    }
    node = &at->second;
  }
  std::erase_if(node->members, [&](const auto& m) { return m.first == rest && after.empty(); });
  if (after.empty()) return;
  auto read = base::read_json(literal(after, true), key);
  if (!read) return;
  const auto at = std::find_if(node->members.begin(), node->members.end(), [&](const auto& m) { return m.first == rest; });
  if (at == node->members.end())
    node->members.emplace_back(rest, std::move(read->root));
  else
    at->second = std::move(read->root);
}

void write_node(base::JsonWriter& w, const base::Node& node) {
  if (node.kind != base::NodeKind::mapping) {
    w.raw(base::to_json(node));
    return;
  }
  w.begin_object();
  for (const auto& [name, value] : node.members) {
    w.key(name);
    write_node(w, value);
  }
  w.end_object();
}

}  // namespace

EditedFile edit_table(std::string_view text, bool toml, const std::map<std::string, std::int64_t>& lines,
                      const std::vector<WantedValue>& wanted) {
  Lines file(text);
  EditedFile out;
  std::set<std::string> made;
  for (const WantedValue& w : wanted) {
    const auto at = lines.find(w.key);
    const std::int64_t line = at == lines.end() || at->second > file.count() ? 0 : at->second;
    if (w.after.empty()) {
      if (line == 0) continue;
      file.remove(line);
    } else if (line > 0) {
      set_value(file.at(line), toml ? '=' : ':', literal(w.after, toml));
    } else {
      add(file, toml, lines, w, made);
    }
    out.edits.push_back({w.key, line > 0 ? w.before : "", w.after, line});
  }
  out.text = file.text();
  return out;
}

Result<EditedFile> edit_json(std::string_view text, const std::string& where, const std::vector<WantedValue>& wanted) {
  auto document = base::read_json(text, where);
  if (!document) return document.error();
  std::map<std::string, std::string> stated;
  for (const Setting& setting : settings_of(document->root)) stated[setting.key] = setting.value;
  EditedFile out;
  for (const WantedValue& w : wanted) {
    ESPALIER_CHECK(!w.key.empty());
    const auto at = stated.find(w.key);
    const std::string before = at == stated.end() ? "" : at->second;
    if (before == w.after) continue;
    set_leaf(document->root, w.key, w.after);
    out.edits.push_back({w.key, before, w.after, 0});
  }
  ESPALIER_CHECK(out.edits.size() <= wanted.size());
  base::JsonWriter writer;
  write_node(writer, document->root);
  out.text = writer.text() + "\n";
  return out;
}

}  // namespace espalier::exchange
