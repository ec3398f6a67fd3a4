// SPDX-License-Identifier: Apache-2.0
// Reads strict JSON (RFC 8259) into a Node tree.
//
// The event parser of nlohmann/json decides what is legal; it keeps its own explicit stack, so nesting cannot overflow
// ours. It does not report where a value begins, so a Follower walks the same text one token behind the events.
#include <nlohmann/json.hpp>

#include "base/invariant.h"
#include "base/text.h"
#include "base/tree_builder.h"

namespace espalier::base {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Walks the tokens of a text that a parser has already accepted up to and including the current token.
class Follower {
 public:
  explicit Follower(std::string_view text) : text_(text) {
    if (text_.substr(0, 3) == kByteOrderMark) offset_ = line_start_ = 3;
  }

  /// Moves to the start of the next token (a value, key or bracket); skips separators.
  void seek() {
    while (offset_ < text_.size()) {
      const char c = text_[offset_];
      if (c == '\n') {
        ++line_;
        line_start_ = offset_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != ',' && c != ':') {
        return;
      }
      ++offset_;
    }
  }

  /// Returns the token at the current place and moves behind it.
  std::string_view take() {
    const std::size_t begin = offset_;
    const char c = text_[begin];
    ++offset_;
    if (c == '"') {
      while (offset_ < text_.size() && text_[offset_] != '"') offset_ += text_[offset_] == '\\' ? 2u : 1u;
      offset_ = std::min(offset_ + 1, text_.size());
    } else if (is_word(c)) {
      while (offset_ < text_.size() && is_word(text_[offset_])) ++offset_;
    }
    return text_.substr(begin, offset_ - begin);
  }

  [[nodiscard]] TextPosition place() const { return {line_, static_cast<std::int32_t>(offset_ - line_start_) + 1}; }
  [[nodiscard]] std::size_t offset() const { return offset_; }

 private:
  static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.' ||
           c == '_';
  }
  std::string_view text_;
  std::size_t offset_ = 0, line_start_ = 0;
  std::int32_t line_ = 1;
};

/// Translates the expectation of nlohmann's message into our terms.
std::string expectation(const std::string& message) {
  const std::size_t begin = message.find("; expected ");
  std::string wanted = begin == std::string::npos ? "" : message.substr(begin + 11);
  if (wanted == "string literal") return "a key in double quotes";
  if (wanted == "'}'") return "',' or '}'";
  if (wanted == "']'") return "',' or ']'";
  if (wanted == "end of input") return "nothing after the first value";
  if (wanted == "':'") return "':' after the key";
  return "a JSON value";
}

/// Returns a hint for the most common mistakes.
std::string syntax_hint(std::string_view token, std::string_view before, const std::string& expected) {
  if (token == "NaN" || token == "nan" || token == "Infinity" || token == "-Infinity" || token == "inf") {
    return "JSON has no NaN or Infinity; write a finite number or null";
  }
  if (token == "True" || token == "False" || token == "None") return "JSON writes true, false and null";
  if (token.empty()) return "the file ends too early; was it copied completely?";
  if (token.front() == '\'') return "strings need double quotes";
  if (token.front() == '#' || token.front() == '/') return "JSON has no comments";
  if ((token.front() == '}' || token.front() == ']') && !before.empty() && before.back() == ',') {
    return "remove the comma before it";
  }
  if (expected.starts_with("','")) return "is a comma missing before it?";
  if (expected.starts_with("a key")) return "keys are written \"name\": value";
  return "check quotes, commas and brackets near this place";
}

class JsonEvents {
 public:
  using json = nlohmann::json;
  JsonEvents(std::string_view text, TreeBuilder& tree) : text_(text), follower_(text), tree_(tree) {}

  bool null() { return literal({}); }
  bool boolean(bool value) {
    Node node;
    node.kind = NodeKind::boolean;
    node.boolean = value;
    return literal(std::move(node));
  }
  bool number_integer(json::number_integer_t) { return number(); }
  bool number_unsigned(json::number_unsigned_t) { return number(); }
  bool number_float(json::number_float_t, const std::string&) { return number(); }
  bool string(std::string& value) {
    Node node;
    node.kind = NodeKind::string;
    node.text = std::move(value);
    return literal(std::move(node));
  }
  bool binary(json::binary_t&) { return false; }  // does not occur in text
  bool key(std::string& name) {
    const TextPosition place = next();
    return tree_.key(std::move(name), place);
  }
  bool start_object(std::size_t) { return tree_.begin(NodeKind::mapping, next()); }
  bool start_array(std::size_t) { return tree_.begin(NodeKind::sequence, next()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  [[nodiscard]] bool syntax() const { return syntax_; }

  bool parse_error(std::size_t position, const std::string&, const json::exception& exception) {
    const std::string message = exception.what();
    syntax_ = true;
    follower_.seek();
    const TextPosition place = follower_.place();
    const std::size_t offset = follower_.offset();
    const std::string_view token = offset < text_.size() ? follower_.take() : std::string_view{};
    if (message.find("number overflow") != std::string::npos) {
      syntax_ = false;
      return beyond_double(token, place);
    }
    if (message.find("invalid string") != std::string::npos) {
      const std::size_t inside = std::min(position > 0 ? position - 1 : 0, text_.size());
      return bad_string(message, place, place_of(text_, inside), inside);
    }
    const std::string expected = expectation(message);
    std::string_view before = text_.substr(0, offset);
    before = before.substr(0, before.find_last_not_of(" \t\r\n") + 1);
    return tree_.fail(place, token.empty() ? "the end of the file" : in_quotes(token), expected,
                      syntax_hint(token, before, expected));
  }

 private:
  TextPosition next() {
    follower_.seek();
    const TextPosition place = follower_.place();
    token_ = follower_.take();
    return place;
  }
  bool literal(Node node) {
    const TextPosition place = next();
    return tree_.scalar(std::move(node), place);
  }
  bool close() {
    next();
    return tree_.end();
  }
  // The event comes after "0" of "01" and after "1" of "1abc"; the token shows the whole literal.
  bool number() {
    const TextPosition place = next();
    const std::string_view magnitude = token_.substr(token_.front() == '-' ? 1 : 0);
    const bool leading_zero = magnitude.size() > 1 && magnitude[0] == '0' && magnitude[1] >= '0' && magnitude[1] <= '9';
    if (leading_zero || magnitude.find_first_not_of("0123456789.eE+-") != std::string_view::npos) {
      syntax_ = true;
      return tree_.fail(place, in_quotes(token_), "a number", leading_zero ? "remove the leading zero" : "put text in quotes");
    }
    auto node = number_node(token_);
    if (!node) return beyond_double(token_, place);
    return tree_.scalar(std::move(*node), place);
  }
  bool beyond_double(std::string_view token, TextPosition place) {
    return tree_.fail(place, "the number " + in_quotes(token), "a number that a double can hold (below 1.8e308)",
                      "check the exponent");
  }
  bool bad_string(const std::string& message, TextPosition start, TextPosition place, std::size_t offset) {
    if (message.find("missing closing quote") != std::string::npos) {
      return tree_.fail(start, "a string without closing quote", "'\"' at its end", "add the closing quote");
    }
    const std::string_view near = text_.substr(offset, 1);
    if (message.find("control character") != std::string::npos) {
      return tree_.fail(place, "a line end or tab inside a string", "one line, escapes such as \\n and \\t for the rest",
                        "is the closing quote missing?");
    }
    return tree_.fail(place, "a bad escape in a string, at " + in_quotes(near), "\\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX",
                      "write \\\\ for a backslash");
  }

  std::string_view text_;
  Follower follower_;
  TreeBuilder& tree_;
  std::string_view token_;
  bool syntax_ = false;
};

}  // namespace

Result<Document> read_json_or_reason(std::string_view text, const std::string& where, const Limits& limits, bool& syntax) {
  syntax = false;
  if (Status status = check_text(text, where, limits.max_bytes); !status.ok()) return status.error();
  TreeBuilder tree(where, limits);
  JsonEvents handler(text, tree);
  const bool complete = nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
  syntax = handler.syntax();
  if (tree.failed()) return tree.error();
  ESPALIER_CHECK(complete);
  return Document{where, tree.take_root()};
}

Result<Document> read_json(std::string_view text, const std::string& where, const Limits& limits) {
  bool syntax = false;
  return read_json_or_reason(text, where, limits, syntax);
}

}  // namespace espalier::base
