// SPDX-License-Identifier: Apache-2.0
#include "runs/record_fields.h"

#include <charconv>
#include <cmath>

namespace espalier::runs {
namespace {

constexpr double kMaxNumber = 1e18;
constexpr std::size_t kMaxItems = 65'536;  ///< length of a list in a record

const Node& nothing() {
  static const Node none;
  return none;
}

std::optional<double> number_of(const Node& node) {
  if (node.kind == NodeKind::integer || node.kind == NodeKind::real)
    return node.kind == NodeKind::integer ? static_cast<double>(node.integer) : node.real;
  double value = 0;
  if (node.kind != NodeKind::string) return std::nullopt;
  const auto [end, code] = std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  if (code != std::errc{} || end != node.text.data() + node.text.size()) return std::nullopt;
  return value;
}

}  // namespace

RecordFields RecordFields::child(const char* key) const {
  const Node* node = find(key);
  if (node && node->kind != NodeKind::mapping) {
    fail(*node, key, "a mapping");
    node = nullptr;
  }
  return {node ? *node : nothing(), path_ + "." + key, record_, status_, where_};
}

std::vector<RecordFields> RecordFields::children(const char* key) const {
  const Node* node = find(key);
  std::vector<RecordFields> out;
  if (!node) return out;
  if (node->kind != NodeKind::sequence || node->items.size() > kMaxItems) {
    fail(*node, key, "a list of mappings");
    return out;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    const Node& item = node->items[i];
    if (item.kind != NodeKind::mapping) {
      fail(item, key, "a mapping");
      return {};
    }
    out.emplace_back(item, path_ + "." + key + "[" + std::to_string(i) + "]", record_, status_, where_);
  }
  return out;
}

std::optional<double> RecordFields::real(const char* key) const {
  const Node* node = find(key);
  if (!node || set_apart(*node, key)) return std::nullopt;
  const std::optional<double> value = number_of(*node);
  if (value && std::isfinite(*value) && std::fabs(*value) <= kMaxNumber && *value >= 0) return value;
  fail(*node, key, "a number ≥ 0");
  return std::nullopt;
}

std::optional<std::int64_t> RecordFields::count(const char* key) const {
  const Node* node = find(key);
  const std::optional<double> value = real(key);
  if (!value) return std::nullopt;
  if (*value == std::floor(*value)) return static_cast<std::int64_t>(*value);
  fail(*node, key, "a whole number");
  return std::nullopt;
}

std::vector<std::int64_t> RecordFields::counts(const char* key) const {
  const Node* node = find(key);
  std::vector<std::int64_t> out;
  if (!node) return out;
  if (node->kind != NodeKind::sequence || node->items.size() > kMaxItems) {
    fail(*node, key, "a list of whole numbers");
    return out;
  }
  for (const Node& item : node->items) {
    const std::optional<double> value = number_of(item);
    if (!value || !(*value >= 0) || *value > kMaxNumber || *value != std::floor(*value)) {
      fail(item, key, "a whole number");
      return {};
    }
    out.push_back(static_cast<std::int64_t>(*value));
  }
  return out;
}

std::optional<bool> RecordFields::flag(const char* key) const {
  const Node* node = find(key);
  if (!node || set_apart(*node, key)) return std::nullopt;
  if (node->kind == NodeKind::boolean) return node->boolean;
  if (node->kind == NodeKind::integer && (node->integer == 0 || node->integer == 1)) return node->integer == 1;
  fail(*node, key, "true or false");
  return std::nullopt;
}

std::string RecordFields::word(const char* key) const {
  const Node* node = find(key);
  if (!node || set_apart(*node, key)) return "";
  if (node->kind == NodeKind::boolean) return node->boolean ? "true" : "false";
  if (node->kind == NodeKind::mapping) fail(*node, key, "text");
  return node->text;
}

std::vector<std::string> RecordFields::names(const char* key) const {
  const Node* node = find(key);
  std::vector<std::string> out;
  if (!node) return out;
  if (node->kind != NodeKind::sequence) fail(*node, key, "a list of names");
  for (const Node& item : node->items) {
    if (item.kind != NodeKind::string) fail(item, key, "a name");
    out.push_back(item.text);
  }
  return out;
}

const Node* RecordFields::find(const char* key) const {
  const Node* node = node_.find(key);
  return node && node->kind != NodeKind::null ? node : nullptr;
}

bool RecordFields::set_apart(const Node& node, const char* key) const {
  const bool several = node.kind == NodeKind::sequence || (node.kind == NodeKind::mapping && std::string_view(key) == "seq");
  if (several && record_.irregular.empty()) record_.irregular = key;
  return several;
}

void RecordFields::fail(const Node& node, const char* key, std::string expected) const {
  if (!status_.ok()) return;
  const std::string place =
      where_ + ":" + std::to_string(record_.line) + ":" + std::to_string(node.column) + " (" + path_ + "." + key + ")";
  const bool shown = node.kind != NodeKind::mapping && node.kind != NodeKind::sequence && node.text.size() < 80;
  status_ = Error{ErrorKind::bad_input, place, shown ? base::to_json(node) : std::string(to_string(node.kind)),
                  std::move(expected), "unknown values are written as null"};
}

}  // namespace espalier::runs
