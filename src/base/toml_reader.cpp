// SPDX-License-Identifier: Apache-2.0
// Reads TOML 1.0 into a Node tree, using toml++. Dates and times become strings: no document that is read here has any.
//
// The parser toml++ recurses once per nested value (kMaxNested) and makes a table of every part of a dotted key. Both
// are bounded here before it receives the text, so that the tree it builds can be destroyed on any stack.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_MAX_NESTED_VALUES 64
// Some assertions of toml++ fail for texts that it rejects a few lines later ("[" alone). So assertions are off, and
// every build rejects these texts.
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
constexpr std::size_t kMostDots = 100;  ///< per line, outside quotes: parts of keys

TextPosition place_at(const toml::source_position& at) {
  return {std::max<std::int32_t>(1, static_cast<std::int32_t>(at.line)),
          std::max<std::int32_t>(1, static_cast<std::int32_t>(at.column))};
}

Error fault(const std::string& where, TextPosition place, const std::string& found, const std::string& hint) {
  return {ErrorKind::bad_input, at(where, place), found, "TOML 1.0", hint};
}

/// Rejects a line whose keys have more parts than any settings need.
Status long_keys(std::string_view text, const std::string& where) {
  std::size_t dots = 0;
  TextPosition place;
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
                   "no setting has a key with this many parts");
    }
  }
  return {};
}

/// Names the part of a TOML text to which a character belongs.
enum class Inside : std::uint8_t { nothing, comment, basic, literal, long_basic, long_literal };

/// Returns the state after `c` at `at`, and moves `at` past all characters that belong to it.
Inside next(Inside now, std::string_view text, std::size_t& at) {
  const char c = text[at];
  const auto three = [&](char quote) { return text.substr(at, 3) == std::string(3, quote); };
  const auto closed = [&](char quote) {  // up to two further quotes belong to the string
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

// toml++ 3.3 must not receive letters beyond ASCII: where it looks for blanks, such a letter leads it to a place that
// it declares unreachable (is_non_ascii_horizontal_whitespace). TOML 1.0 allows them only in strings and comments. In
// strings each of their bytes is therefore written as kEscape and two hexadecimal digits. kEscape itself is written
// likewise, also outside strings, where it means nothing in TOML. In comments both become "?".
constexpr char kEscape = 'Q';

void append_escaped(std::string& out, char c) {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += {kEscape, kDigits[byte >> 4], kDigits[byte & 15]};
}

/// Returns the text for toml++; columns behind an escaped letter are further right.
Result<std::string> in_ascii(std::string_view text, const std::string& where) {
  std::string out;
  out.reserve(text.size());
  Inside now = Inside::nothing;
  TextPosition place;
  for (std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size(); ++at) {
    const std::size_t begin = at;
    if (text[at] == '\n') {
      ++place.line;
      if (now != Inside::long_basic && now != Inside::long_literal) now = Inside::nothing;
    } else if (static_cast<unsigned char>(text[at]) < 0x80) {
      now = next(now, text, at);
    } else if (now == Inside::nothing) {
      return fault(where, place, "a letter beyond ASCII outside quotes and comments", "put it in quotes");
    }
    for (const char c : text.substr(begin, at + 1 - begin)) {
      const bool ascii = static_cast<unsigned char>(c) < 0x80;
      if (ascii && c != kEscape)
        out += c;
      else if (now == Inside::comment)
        out += '?';
      else
        append_escaped(out, c);
    }
  }
  return out;
}

/// Restores the text that in_ascii changed. In a text that toml++ made up, everything else stays.
std::string as_written(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool whole = text[i] == kEscape && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out += whole ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    i += whole ? 2 : 0;
  }
  return out;
}

class TomlWalk {
 public:
  explicit TomlWalk(TreeBuilder& tree) : tree_(tree) {}

  /// Visits a node. The recursion is at most as deep as the tree allows (Limits::max_depth).
  bool visit(const toml::node& node) {
    const TextPosition place = place_at(node.source().begin);
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
  bool visit_table(const toml::table& table, TextPosition place) {
    if (!tree_.begin(NodeKind::mapping, place)) return false;
    for (const auto& [key, value] : table) {
      if (!tree_.key(as_written(key.str()), place_at(key.source().begin))) return false;
      if (!visit(value)) return false;
    }
    return tree_.end();
  }

  bool scalar(const toml::node& node, TextPosition place) {
    Node out;
    if (const auto* flag = node.as_boolean()) {
      out.kind = NodeKind::boolean;
      out.boolean = flag->get();
    } else if (const auto* whole = node.as_integer()) {
      out = *number_node(std::to_string(whole->get()));
    } else if (const auto* real = node.as_floating_point()) {
      if (!std::isfinite(real->get()))
        return tree_.fail(place, "a number that is not finite", "a finite number", "leave the key out if it is optional");
      out = *number_node(shortest(real->get()));
    } else {
      out.kind = NodeKind::string;
      out.text = text_of(node);
    }
    return tree_.scalar(std::move(out), place);
  }

  static std::string text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return as_written(text->get());
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
  if (Status status = check_text(text, where, std::min(limits.max_bytes, kMaxTomlBytes)); !status.ok()) return status.error();
  if (Status status = long_keys(text, where); !status.ok()) return status.error();
  const auto ascii = in_ascii(text, where);
  if (!ascii) return ascii.error();
  const toml::parse_result parsed = toml::parse(*ascii);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fault(where, place_at(error.source().begin), "TOML that cannot be parsed (" + std::string(error.description()) + ")",
                 "check the brackets and quotes near this place");
  }
  TreeBuilder tree(where, limits);
  if (!TomlWalk(tree).visit(parsed.table())) return tree.error();
  return Document{where, tree.take_root()};
}

}  // namespace espalier::base
