// SPDX-License-Identifier: Apache-2.0
// TOML 1.0 to a Node tree, by toml++. Dates and times become strings: no document that is read here has any.
//
// Bounds: toml++ recurses once per nested value (kMaxNested) and makes a table of every part of a dotted key; both are bounded here before it
// sees the text, so that the tree it builds can be destroyed on any stack.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_MAX_NESTED_VALUES 64
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/text.h"
#include "base/toml.h"
#include "base/tree_builder.h"

namespace espalier::base {
namespace {

constexpr std::size_t kMaxTomlBytes = 2u << 20;
constexpr std::size_t kMostDots = 100;  ///< in a line, outside quotes: parts of keys

Place place_at(const toml::source_position& at) {
  return {std::max<std::int32_t>(1, static_cast<std::int32_t>(at.line)),
          std::max<std::int32_t>(1, static_cast<std::int32_t>(at.column))};
}

Error fault(const std::string& where, Place place, const std::string& found, const std::string& hint) {
  return {ErrorKind::bad_input, at(where, place), found, "TOML 1.0", hint};
}

/// A line whose keys have more parts than any settings need.
Status long_keys(std::string_view text, const std::string& where) {
  std::size_t dots = 0;
  Place place;
  char quote = 0;
  for (const char c : text) {
    if (c == '\n') {
      ++place.line;
      dots = 0;
      quote = 0;
    } else if (quote != 0) {
      quote = c == quote ? '\0' : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '.' && ++dots > kMostDots) {
      return fault(where, place, "a line with more than " + std::to_string(kMostDots) + " dots outside quotes",
                   "a key of so many parts is no setting");
    }
  }
  return {};
}

class Walk {
 public:
  explicit Walk(TreeBuilder& tree) : tree_(tree) {}

  /// Recurses at most as deep as the tree allows (Limits::max_depth).
  bool visit(const toml::node& node) {
    const Place place = place_at(node.source().begin);
    if (const toml::table* table = node.as_table()) return visit_table(*table, place);
    if (const toml::array* array = node.as_array()) {
      if (!tree_.begin(NodeKind::sequence, place)) return false;
      for (const toml::node& item : *array)
        if (!visit(item)) return false;
      return tree_.end();
    }
    return scalar(node, place);
  }

 private:
  bool visit_table(const toml::table& table, Place place) {
    if (!tree_.begin(NodeKind::mapping, place)) return false;
    for (const auto& [key, value] : table) {
      if (!tree_.key(std::string(key.str()), place_at(key.source().begin))) return false;
      if (!visit(value)) return false;
    }
    return tree_.end();
  }

  bool scalar(const toml::node& node, Place place) {
    Node out;
    if (const auto* flag = node.as_boolean()) {
      out.kind = NodeKind::boolean;
      out.boolean = flag->get();
    } else if (const auto* whole = node.as_integer()) {
      out = *number_node(std::to_string(whole->get()));
    } else if (const auto* real = node.as_floating_point()) {
      if (!std::isfinite(real->get()))
        return tree_.fail(place, "a number that is not finite", "a finite number", "leave the key out where it is optional");
      out = *number_node(shortest(real->get()));
    } else {
      out.kind = NodeKind::string;
      out.text = text_of(node);
    }
    return tree_.scalar(std::move(out), place);
  }

  static std::string text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    std::ostringstream out;
    node.visit([&out](const auto& value) {
      if constexpr (!toml::is_container<decltype(value)>) out << value;
    });
    return out.str();
  }

  TreeBuilder& tree_;
};

}  // namespace

Result<Document> read_toml(std::string_view text, const std::string& where, const Limits& limits) {
  if (Status problem = check_text(text, where, std::min(limits.max_bytes, kMaxTomlBytes))) return *problem;
  if (Status problem = long_keys(text, where)) return *problem;
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fault(where, place_at(error.source().begin), "TOML that cannot be parsed (" + std::string(error.description()) + ")",
                 "check the brackets and quotes near this place");
  }
  TreeBuilder tree(where, limits);
  if (!Walk(tree).visit(parsed.table())) return tree.error();
  return Document{where, tree.take_root()};
}

}  // namespace espalier::base
