// SPDX-License-Identifier: Apache-2.0
// Implements Reader: typed access to the members of one mapping, with errors that state the place, the fault, the
// expectation and the remedy.
#include <algorithm>
#include <cmath>

#include "base/document.h"
#include "base/text.h"

namespace espalier::base {
namespace {

const Node& empty_mapping() {
  static const Node node = [] {
    Node empty;
    empty.kind = NodeKind::mapping;
    return empty;
  }();
  return node;
}

/// Formats a value for a message.
std::string described(const Node& node) {
  switch (node.kind) {
    case NodeKind::null: return "null";
    case NodeKind::boolean: return node.boolean ? "true" : "false";
    case NodeKind::integer:
    case NodeKind::real: {
      const std::string text = in_quotes(node.text);
      return text.substr(1, text.size() - 2);
    }
    case NodeKind::string: return in_quotes(node.text);
    case NodeKind::sequence:
      return "a list of " + std::to_string(node.items.size()) + (node.items.size() == 1 ? " value" : " values");
    case NodeKind::mapping: return node.members.empty() ? "an empty mapping" : "a mapping";
  }
  return "a value";
}

std::string int_range(std::int64_t low, std::int64_t high) {
  constexpr std::int64_t open = std::int64_t{1} << 53;  // larger bounds mean "no bound"
  if (low <= -open && high >= open) return "an integer";
  if (high >= open) return "an integer of at least " + std::to_string(low);
  if (low <= -open) return "an integer of at most " + std::to_string(high);
  return "an integer from " + std::to_string(low) + " to " + std::to_string(high);
}

std::string real_text(double number) {
  std::string text = shortest(number);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string real_range(double low, double high) {
  constexpr double open = 1e300;
  if (low <= -open && high >= open) return "a number";
  if (high >= open) return "a number of at least " + real_text(low);
  if (low <= -open) return "a number of at most " + real_text(high);
  return "a number from " + real_text(low) + " to " + real_text(high);
}

/// Returns a hint for a value of the wrong kind: the mistake that explains it.
std::string number_hint(const Node& node) {
  if (node.kind == NodeKind::string) {
    if (number_node(node.text)) return "remove the quotes";
    return "write a plain number without unit or quotes";
  }
  if (node.kind == NodeKind::sequence) return "write one number, not a list";
  if (node.kind == NodeKind::real && std::abs(node.real) >= 9e15)
    return node.real < 0 ? "choose a larger number" : "choose a smaller number";
  if (node.kind == NodeKind::real && node.real == std::floor(node.real)) {
    return "write " + std::to_string(static_cast<std::int64_t>(node.real));
  }
  return node.kind == NodeKind::real ? "write a whole number" : "write a number";
}

bool matches_int(const Node& node, std::int64_t low, std::int64_t high) {
  return node.kind == NodeKind::integer && node.integer >= low && node.integer <= high;
}

std::string out_of_range_hint(const Node& node, bool below) {
  if (node.kind != NodeKind::integer && node.kind != NodeKind::real) return number_hint(node);
  return below ? "choose a larger number" : "choose a smaller number";
}

}  // namespace

Reader::Reader(const Document& document, const Node& mapping, std::string path, ErrorSink& sink)
    : document_(&document),
      node_(&mapping),
      path_(std::move(path)),
      sink_(&sink),
      line_(mapping.line),
      column_(mapping.column),
      known_(mapping.members.size(), false) {
  if (mapping.kind == NodeKind::mapping) return;
  sink.add({ErrorKind::bad_input, at(document.where, {line_, column_}) + " (" + path_ + ")", described(mapping),
            "a mapping (name: value)",
            path_ == "$" ? "is this the right file?" : "write the fields of " + path_ + " as name: value"});
}

const Node* Reader::find(std::string_view key) const {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  for (std::size_t i = 0; i < node_->members.size(); ++i) {
    if (node_->members[i].first == key) {
      known_[i] = true;
      return &node_->members[i].second;
    }
  }
  return nullptr;
}

bool Reader::has(std::string_view key) const {
  const Node* node = find(key);
  return node != nullptr && node->kind != NodeKind::null;
}

std::string Reader::where(const Node& node, std::string_view key) const {
  return at(document_->where, {node.line, node.column}) + " (" + path_ + (key.empty() ? "" : "." + std::string(key)) + ")";
}

void Reader::fail(std::string_view key, std::string found, std::string expected, std::string hint) {
  const Node* member = node_->find(key);
  Node place;
  place.line = member != nullptr ? member->line : line_;
  place.column = member != nullptr ? member->column : column_;
  // Every message shows the value at the place and refers to further reading.
  if (found.empty()) found = member != nullptr ? described(*member) : "nothing";
  if (hint.empty()) hint = "docs/file-formats.md explains " + (key.empty() ? "this part" : in_quotes(key));
  sink_->add({ErrorKind::bad_input, where(place, key), std::move(found), std::move(expected), std::move(hint)});
}

std::int64_t Reader::optional_int(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback) {
  return has(key) ? required_int(key, low, high) : fallback;
}

std::int64_t Reader::required_int(std::string_view key, std::int64_t low, std::int64_t high) {
  const Node* node = find(key);
  if (node == nullptr) {
    missing(key, int_range(low, high));
    return low;
  }
  if (matches_int(*node, low, high)) return node->integer;
  const bool below = node->kind == NodeKind::integer && node->integer < low;
  fail(key, described(*node), int_range(low, high),
       node->kind == NodeKind::integer ? out_of_range_hint(*node, below) : number_hint(*node));
  return low;
}

double Reader::optional_real(std::string_view key, double low, double high, double fallback) {
  return has(key) ? required_real(key, low, high) : fallback;
}

double Reader::required_real(std::string_view key, double low, double high) {
  const Node* node = find(key);
  if (node == nullptr) {
    missing(key, real_range(low, high));
    return low;
  }
  const bool number = node->kind == NodeKind::integer || node->kind == NodeKind::real;
  if (number && node->real >= low && node->real <= high) return node->real;
  fail(key, described(*node), real_range(low, high), out_of_range_hint(*node, number && node->real < low));
  return low;
}

bool Reader::optional_bool(std::string_view key, bool fallback) {
  if (!has(key)) return fallback;
  const Node* node = find(key);
  if (node->kind == NodeKind::boolean) return node->boolean;
  fail(key, described(*node), "true or false", "write true or false without quotes");
  return fallback;
}

std::string Reader::optional_string(std::string_view key, std::string fallback) {
  return has(key) ? required_string(key) : fallback;
}

std::string Reader::required_string(std::string_view key) {
  const Node* node = find(key);
  if (node == nullptr) {
    missing(key, "text");
    return {};
  }
  if (node->kind == NodeKind::string) return node->text;
  const bool scalar = node->kind != NodeKind::sequence && node->kind != NodeKind::mapping && node->kind != NodeKind::null;
  fail(key, described(*node), "text", scalar ? "put the value in quotes" : "write one text");
  return {};
}

std::size_t Reader::optional_choice(std::string_view key, const std::vector<std::string_view>& choices, std::size_t fallback) {
  if (!has(key)) return fallback;
  const Node* node = find(key);
  const auto found = std::find(choices.begin(), choices.end(), node->text);
  if (node->kind == NodeKind::string && found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  const std::vector<std::string> words(choices.begin(), choices.end());
  const auto suggestion = node->kind == NodeKind::string ? did_you_mean(node->text, words) : std::nullopt;
  fail(key, described(*node), listed(words),
       suggestion ? "did you mean " + in_quotes(*suggestion) + "?" : "choose one of these words");
  return fallback;
}

std::vector<std::int64_t> Reader::optional_int_list(std::string_view key, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> out;
  if (!has(key)) return out;
  const Node* node = find(key);
  if (node->kind != NodeKind::sequence) {
    fail(key, described(*node), "a list of integers", "write [ ] around it");
    return out;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    const Node& item = node->items[i];
    if (matches_int(item, low, high)) {
      out.push_back(item.integer);
      continue;
    }
    const bool below = item.kind == NodeKind::integer && item.integer < low;
    sink_->add({ErrorKind::bad_input, where(item, std::string(key) + "[" + std::to_string(i) + "]"), described(item),
                int_range(low, high), item.kind == NodeKind::integer ? out_of_range_hint(item, below) : number_hint(item)});
    return out;
  }
  return out;
}

namespace {

/// Returns the hint for a quantity that did not parse.
std::string unit_hint(const Node& node, std::string_view example, std::string_view unit) {
  if (node.kind == NodeKind::integer || node.kind == NodeKind::real) {
    return "a unit is missing; write, for example, \"" + std::string(example) + "\"";
  }
  if (node.text.starts_with('-')) return "it cannot be negative";
  return "write a number and " + std::string(unit) + "; B is byte, b is bit";
}

}  // namespace

std::int64_t Reader::optional_bytes(std::string_view key, std::int64_t fallback) {
  if (!has(key)) return fallback;
  const Node* node = find(key);
  const auto value = node->kind == NodeKind::string ? parse_bytes(node->text) : std::nullopt;
  if (value) return *value;
  fail(key, described(*node), "a size such as 80GiB", unit_hint(*node, "80GiB", "kB, MB, GB, TB or KiB, MiB, GiB, TiB"));
  return fallback;
}

// The bounds (1 B/s … 1e18 B/s, 1e9 s) are far outside real values and keep every later product inside 64 bits.
double Reader::optional_bandwidth(std::string_view key, double fallback) {
  if (!has(key)) return fallback;
  const Node* node = find(key);
  const auto value = node->kind == NodeKind::string ? parse_bandwidth(node->text) : std::nullopt;
  if (value && *value >= 1 && *value <= 1e18) return *value;
  if (value) {
    fail(key, described(*node), "a bandwidth from 1 B/s to 1 EB/s", "omit a missing link instead of setting it to 0");
  } else {
    fail(key, described(*node), "a bandwidth such as 400Gb/s or 50GB/s", unit_hint(*node, "400Gb/s", "Gb/s or GB/s"));
  }
  return fallback;
}

double Reader::optional_duration(std::string_view key, double fallback) {
  if (!has(key)) return fallback;
  const Node* node = find(key);
  const auto value = node->kind == NodeKind::string ? parse_duration(node->text) : std::nullopt;
  if (value && *value <= 1e9) return *value;
  fail(key, described(*node), "a duration such as 5us",
       value                                                            ? "choose a shorter duration"
       : node->kind == NodeKind::string && !node->text.starts_with('-') ? "write a number and ns, us, ms, s, min, h or d"
                                                                        : unit_hint(*node, "5us", ""));
  return fallback;
}

Reader Reader::child(std::string_view key, bool required) {
  const Node* node = find(key);
  if (node != nullptr && (required || node->kind != NodeKind::null)) {
    return {*document_, *node, path_ + "." + std::string(key), *sink_};
  }
  if (required) missing(key, "a mapping");
  Reader absent(*document_, empty_mapping(), path_ + "." + std::string(key), *sink_);
  absent.line_ = line_;
  absent.column_ = column_;
  return absent;
}

void Reader::each(std::string_view key, bool required, const std::function<void(Reader&)>& f) {
  const Node* node = find(key);
  if (node == nullptr || (!required && node->kind == NodeKind::null)) {
    if (required) missing(key, "a list");
    return;
  }
  if (node->kind != NodeKind::sequence) {
    fail(key, described(*node), "a list",
         node->kind == NodeKind::mapping ? "write [ ] around it, or '- ' before it" : "write a list");
    return;
  }
  for (std::size_t i = 0; i < node->items.size() && sink_->ok(); ++i) {
    Reader item(*document_, node->items[i], path_ + "." + std::string(key) + "[" + std::to_string(i) + "]", *sink_);
    f(item);
  }
}

void Reader::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) static_cast<void>(find(key));
}

void Reader::finish() {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i]) continue;
    const std::string& key = node_->members[i].first;
    const auto suggestion = did_you_mean(key, asked_);
    fail(key, "the unknown key " + in_quotes(key), asked_.empty() ? "no keys here" : listed(asked_),
         suggestion ? "did you mean " + in_quotes(*suggestion) + "?" : "remove it, or check its spelling");
    return;
  }
}

std::vector<std::string> Reader::unread() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (!known_[i]) out.push_back(node_->members[i].first);
  }
  return out;
}

// The likeliest reason for an absent key is a misspelt one: suggests to rename the closest key that was not requested.
void Reader::missing(std::string_view key, const std::string& expected) {
  if (const auto written = did_you_mean(key, unread())) {
    fail(*written, "the unknown key " + in_quotes(*written) + " and no " + in_quotes(key), expected,
         "rename " + in_quotes(*written) + " to " + in_quotes(key));
    return;
  }
  fail(
      key, "no " + in_quotes(key), expected,
      path_ == "$" ? "add it to the file: " + std::string(key) + ": …" : "add " + std::string(key) + " under " + path_.substr(2));
}

}  // namespace espalier::base
