// SPDX-License-Identifier: Apache-2.0
#include "runs/record_facts.h"

#include <algorithm>
#include <map>

#include "base/format.h"

namespace espalier::runs {
namespace {

using Dictionary = RecordDictionary;

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) { return is_letter(c) || is_digit(c); }

/// Returns "" where the record has no text of that name.
std::string text_of(const Node& record, std::string_view key) {
  const Node* node = record.find(key);
  return node != nullptr && node->kind == NodeKind::string ? node->text : "";
}

/// Returns the value of `extra` at a path; nullptr where a part of it is absent or no mapping.
const Node* extra_at(const Node& record, const std::vector<std::string>& path) {
  const Node* node = record.find("extra");
  for (const std::string& key : path) {
    if (node == nullptr || node->kind != NodeKind::mapping) return nullptr;
    node = node->find(key);
  }
  return node;
}

/// Returns whether values of one type are equal: the text "true" is not a flag.
bool equal_values(const Node& a, const Node& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == NodeKind::boolean) return a.boolean == b.boolean;
  return a.kind == NodeKind::integer ? a.integer == b.integer : a.kind == NodeKind::string && a.text == b.text;
}

bool is_any(const Node& value, const std::vector<Node>& values) {
  return std::any_of(values.begin(), values.end(), [&](const Node& v) { return equal_values(value, v); });
}

bool condition_holds(const Node& record, const Dictionary::Condition& condition) {
  const Node* value = extra_at(record, condition.path);
  if (value == nullptr) return false;
  if (condition.above) {
    const bool number = value->kind == NodeKind::integer || value->kind == NodeKind::real;
    return number && value->real > *condition.above;
  }
  if (!condition.is.empty()) return is_any(*value, condition.is);
  return value->kind == NodeKind::sequence &&
         std::any_of(value->items.begin(), value->items.end(), [&](const Node& item) { return is_any(item, condition.holds); });
}

/// Returns technique -> on or off, by the switches of `extra`.
std::map<std::string, bool> switched(const Node& record, const Dictionary& dictionary) {
  std::map<std::string, bool> out;
  for (const Dictionary::Switch& row : dictionary.switches)
    if (std::all_of(row.when.begin(), row.when.end(), [&](const auto& condition) { return condition_holds(record, condition); }))
      out[row.technique] = row.on;
  return out;
}

/// Returns the version at the beginning of `words`: at least two numbers, joined by dots.
std::string_view version_at(std::string_view words, std::int64_t digits) {
  std::size_t end = 0, numbers = 0;
  while (true) {
    std::size_t at = numbers == 0 ? 0 : end + 1;
    if (numbers > 0 && (end >= words.size() || words[end] != '.')) break;
    const std::size_t begin = at;
    while (at < words.size() && is_digit(words[at])) ++at;
    if (at == begin || (digits > 0 && at - begin != static_cast<std::size_t>(digits))) break;
    end = at;
    ++numbers;
  }
  return numbers < 2 ? std::string_view() : words.substr(0, end);
}

std::string release_in(std::string_view small, const Dictionary::Release& row) {
  if (!small.starts_with(row.before)) return "";
  small.remove_prefix(row.before.size());
  if (!row.before.empty() && small.starts_with(' ')) small.remove_prefix(1);
  const std::string_view version = version_at(small, row.digits);
  small.remove_prefix(version.size());
  if (version.empty() || !small.starts_with(row.after)) return "";
  small.remove_prefix(row.after.size());
  return !row.after.empty() && !small.empty() && is_alnum(small.front()) ? "" : std::string(version);
}

bool is_denied(std::string_view small, std::size_t at, std::size_t end, const Dictionary::Denied& denied) {
  const std::string_view before = small.substr(0, at), after = small.substr(end);
  const auto precedes = [&](const std::string& word) {
    return before.ends_with(word) && (before.size() == word.size() || !is_letter(before[before.size() - word.size() - 1]));
  };
  return std::any_of(denied.before.begin(), denied.before.end(), precedes) ||
         std::any_of(denied.after.begin(), denied.after.end(), [&](const auto& word) { return after.starts_with(word); });
}

std::vector<std::string> words_in(const Node& node) {
  if (node.kind == NodeKind::string) return {node.text};
  std::vector<std::string> out;
  for (const Node& item : node.items) {
    if (item.kind != NodeKind::string) return {};
    out.push_back(item.text);
  }
  return out;
}

}  // namespace

bool says(std::string_view words_of_record, const std::vector<std::string>& words, const Dictionary::Denied& denied) {
  const std::string small = base::lower(words_of_record);
  for (const std::string& word : words)
    for (std::size_t at = small.find(word); at != std::string::npos; at = small.find(word, at + 1))
      if ((at == 0 || !is_letter(small[at - 1])) && !is_denied(small, at, at + word.size(), denied)) return true;
  return false;
}

std::vector<std::string> published_techniques(const Node& record, const Dictionary& dictionary) {
  std::map<std::string, bool> on = switched(record, dictionary);
  for (const Dictionary::Words& row : dictionary.techniques) {
    const auto named = [&](const std::string& field) { return says(text_of(record, field), row.words, dictionary.denied); };
    if (!on.contains(row.technique)) on[row.technique] = std::any_of(row.fields.begin(), row.fields.end(), named);
  }
  std::vector<std::string> out;
  for (const auto& [name, used] : on)
    if (used) out.push_back(name);
  return out;
}

std::optional<RunAdapter> stated_adapter(const Node& record, const Dictionary& dictionary) {
  for (const Dictionary::StatedAdapter& row : dictionary.stated) {
    const Node* stated = extra_at(record, row.path);
    if (stated == nullptr || stated->kind != NodeKind::mapping) continue;
    RunAdapter out;
    for (const std::string& key : row.rank)
      if (const Node* rank = stated->find(key);
          !out.rank && rank != nullptr && rank->kind == NodeKind::integer && rank->integer > 0)
        out.rank = rank->integer;
    for (const std::string& key : row.targets)
      if (const Node* targets = stated->find(key); out.targets.empty() && targets != nullptr) out.targets = words_in(*targets);
    if (out.rank || !out.targets.empty()) return out;
  }
  return std::nullopt;
}

std::optional<RunAdapter> assumed_adapter(std::string_view framework, const Dictionary& dictionary) {
  const std::string small = base::lower(framework);
  for (const Dictionary::AssumedAdapter& row : dictionary.assumed)
    if (small.starts_with(row.framework)) return RunAdapter{row.rank, row.targets, row.source};
  return std::nullopt;
}

std::string published_release(const Node& record, const Dictionary& dictionary) {
  for (const Dictionary::Release& row : dictionary.releases)
    if (std::string release = release_in(base::lower(text_of(record, row.field)), row); !release.empty()) return release;
  return "";
}

std::optional<MemoryKind> read_memory_words(std::string_view words, const Dictionary& dictionary) {
  const std::string small = base::lower(words);
  for (const Dictionary::MemoryWords& row : dictionary.memory) {
    const auto occurs = [&](const std::string& word) { return small.find(word) != std::string::npos; };
    if (small == to_string(row.kind) || std::any_of(row.words.begin(), row.words.end(), occurs)) return row.kind;
  }
  return std::nullopt;
}

std::optional<MemoryKind> published_memory_kind(const Node& record, const Dictionary& dictionary) {
  const std::string notes = base::lower(text_of(record, "notes"));
  std::string about;
  for (std::size_t at = 0; at < notes.size();) {
    const std::size_t end = std::min(notes.find_first_of(";.", at), notes.size());
    const std::string clause = notes.substr(at, end - at);
    for (const std::string& word : dictionary.memory_clauses)
      if (clause.find(word) != std::string::npos) {
        about += clause;
        break;
      }
    at = end + 1;
  }
  return read_memory_words(about, dictionary);
}

FrozenReading read_frozen_words(std::string_view precision, const Dictionary& dictionary) {
  const std::string small = base::lower(precision);
  for (const std::string& marker : dictionary.frozen_after) {
    const std::size_t at = small.find(marker);
    if (at == std::string::npos) continue;
    FrozenReading out;
    out.precision = small.substr(0, at == 0 ? 0 : small.find_last_not_of(" ,;(", at - 1) + 1);
    const std::string rest = small.substr(std::min(small.find_first_not_of(' ', at + marker.size()), small.size()));
    std::size_t end = 0;
    while (end < rest.size() && is_alnum(rest[end])) ++end;
    const auto known = std::find_if(dictionary.frozen.begin(), dictionary.frozen.end(),
                                    [&](const auto& row) { return row.word == rest.substr(0, end); });
    if (known == dictionary.frozen.end()) {
      out.unknown = rest.empty() ? marker : rest;
      return out;
    }
    out.type = known->type;
    out.note = known->note;
    return out;
  }
  return {small, FrozenType::compute, "", ""};
}

}  // namespace espalier::runs
