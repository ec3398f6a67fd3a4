// SPDX-License-Identifier: Apache-2.0
// TOML 1.0 to a Node tree, by toml++. Dates and times become strings: no document that is read here has any.
//
// Bounds: toml++ recurses once per nested value (kMaxNested) and makes a table of every part of a dotted key; both are bounded here before it
// sees the text, so that the tree it builds can be destroyed on any stack.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_MAX_NESTED_VALUES 64
// Some of its assertions do not hold of texts that it refuses a few lines later ("[" alone): every build refuses them, as those without assertions do.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
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

/// Where of a TOML text a character stands.
enum class Inside : std::uint8_t { nothing, comment, basic, literal, long_basic, long_literal };

/// The state after `c` at `at`, which is moved past what belongs to it.
Inside next(Inside now, std::string_view text, std::size_t& at) {
  const char c = text[at];
  const auto three = [&](char quote) { return text.substr(at, 3) == std::string(3, quote); };
  const auto closed = [&](char quote) {  // up to two quotes more belong to the string
    at += 2;
    for (int more = 0; more < 2 && at + 1 < text.size() && text[at + 1] == quote; ++more) ++at;
    return Inside::nothing;
  };
  switch (now) {
    case Inside::nothing:
      if (c == '#') return Inside::comment;
      if (c != '"' && c != '\'') return now;
      if (!three(c)) return c == '"' ? Inside::basic : Inside::literal;
      at += 2;
      return c == '"' ? Inside::long_basic : Inside::long_literal;
    case Inside::basic:
    case Inside::long_basic:
      if (c == '\\' && at + 1 < text.size() && text[at + 1] != '\n') ++at;
      if (c != '"') return now;
      if (now == Inside::basic) return Inside::nothing;
      return three('"') ? closed('"') : now;
    case Inside::literal: return c == '\'' ? Inside::nothing : now;
    case Inside::long_literal: return three('\'') ? closed('\'') : now;
    case Inside::comment: break;
  }
  return now;
}

/// Whether a quote stands where no string begins: toml++ then reads on as if it were a letter, and what follows is not quoted.
bool inside_a_word(std::string_view text, std::size_t at) {
  constexpr std::string_view kBefore = " \t\r\n=,[{.";
  return at > 0 && (text[at] == '"' || text[at] == '\'') && kBefore.find(text[at - 1]) == std::string_view::npos &&
         !(at == 3 && text.starts_with("\xEF\xBB\xBF"));
}

/// Letters beyond ASCII where TOML 1.0 has none. toml++ 3.3 must not see them: where it looks for blanks, such a letter leads it to a place that it
/// declares unreachable (is_non_ascii_horizontal_whitespace). It looks for blanks in long basic strings, too, behind a backslash at the end of a line.
Status beyond_ascii(std::string_view text, const std::string& where) {
  Inside now = Inside::nothing;
  Place place;
  for (std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size(); ++at) {
    if (text[at] == '\n') {
      ++place.line;
      if (now != Inside::long_basic && now != Inside::long_literal) now = Inside::nothing;
    } else if (static_cast<unsigned char>(text[at]) >= 0x80 && (now == Inside::nothing || now == Inside::long_basic)) {
      return fault(where, place, "a letter beyond ASCII outside quotes and comments",
                   now == Inside::nothing ? "put it in quotes" : "put it in a string of one line");
    } else if (now == Inside::nothing && inside_a_word(text, at)) {
      return fault(where, place, "a quote inside a word", "a string begins behind a blank, or one of = , [ { .");
    } else {
      now = next(now, text, at);
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
  if (Status problem = beyond_ascii(text, where)) return *problem;
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
