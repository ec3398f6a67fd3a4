// SPDX-License-Identifier: Apache-2.0
// Reads a strict subset of YAML 1.2 (core schema) into a Node tree.
//
// The event parser of yaml-cpp finds the structure; the events are checked here. It rejects anchors, aliases, tags,
// several documents, keys that are not scalars, duplicate keys, .nan and .inf, each with its place. Scalars follow
// the YAML 1.2 core schema without octal and hexadecimal numbers (0o17, 0x1F are strings). So `no`, `on` and
// `12:30` remain text.
//
// yaml-cpp recurses once per nesting level; the handler stops it at Limits::max_depth by an exception (yaml-cpp's
// own guard is at 500). Its scanner may hold a token for every character of a one-line flow collection, so YAML
// text is limited to kMaxYamlBytes. Longer text must be JSON, which is tried first if the text begins with a
// bracket or a quote.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "base/tree_builder.h"

namespace espalier::base {
namespace {

constexpr std::size_t kMaxYamlBytes = 2u << 20;

/// Leaves yaml-cpp's parser once the tree holds an error. It never escapes this file.
struct Stop {};

TextPosition place_at(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t from) {
  while (from < text.size() && is_digit(text[from])) ++from;
  return from;
}

/// Matches [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?   (YAML 1.2.2, section 10.3.2)
bool looks_like_number(std::string_view text) {
  std::size_t i = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::size_t whole = skip_digits(text, i);
  std::size_t digits = whole - i;
  i = whole;
  if (i < text.size() && text[i] == '.') {
    const std::size_t fraction = skip_digits(text, i + 1);
    digits += fraction - i - 1;
    i = fraction;
  }
  if (digits == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    const std::size_t exponent = skip_digits(text, i);
    if (exponent == i) return false;
    i = exponent;
  }
  return i == text.size();
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Adds digits: ".5" and "5." are legal in YAML, but the number reader needs a digit on both sides.
std::string with_digits_around_the_dot(std::string_view text) {
  std::string out(text);
  const std::size_t dot = out.find('.');
  if (dot == std::string::npos) return out;
  if (dot + 1 == out.size() || !is_digit(out[dot + 1])) out.insert(dot + 1, "0");
  if (dot == 0 || !is_digit(out[dot - 1])) out.insert(dot, "0");
  return out;
}

class YamlEvents : public YAML::EventHandler {
 public:
  YamlEvents(std::string_view text, TreeBuilder& tree) : text_(text), tree_(tree) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    require(documents_++ == 0 || tree_.fail(place_at(mark), "more text after the end of the document", "one YAML document",
                                            "remove the '---' line, or the bracket or indentation that ends the document early"));
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_properties(mark, "?", anchor);
    require_scalar_key_is_text(mark);
    require(tree_.scalar({}, place_at(mark)));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    require(tree_.fail(place_at(mark), "a YAML alias (*name)", "plain values", "repeat the value instead"));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    refuse_properties(mark, tag, anchor);
    const TextPosition place = place_at(mark);
    if (tree_.expects_key()) {
      require(tree_.key(value, place));
      return;
    }
    if (tag == "?") {
      plain(value, place);
    } else {
      string(value, place);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(NodeKind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { require(tree_.end()); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    begin(NodeKind::mapping, mark, tag, anchor);
  }
  void OnMapEnd() override { require(tree_.end()); }

  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark); }

  [[nodiscard]] int documents() const { return documents_; }

 private:
  static void require(bool fine) {
    if (!fine) throw Stop{};
  }

  void refuse_anchor(const YAML::Mark& mark) {
    require(tree_.fail(place_at(mark), "a YAML anchor (&name)", "plain values", "write the value where it is used"));
  }

  void refuse_properties(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    // A lone '!' gives the same tag as quotes do; only the text distinguishes them.
    const auto offset = static_cast<std::size_t>(std::max(mark.pos, 0));
    const bool lone = tag == "!" && offset < text_.size() && text_[offset] == '!';
    if (lone || (tag != "?" && tag != "!" && !tag.empty())) {
      require(tree_.fail(place_at(mark), "a YAML tag (!" + std::string(lone ? "" : "name") + ")", "plain values",
                         "remove the tag; write a string in quotes"));
    }
  }

  void require_scalar_key_is_text(const YAML::Mark& mark) {
    require(!tree_.expects_key() ||
            tree_.fail(place_at(mark), "an empty key", "a name before the ':'", "is a key missing, or a ':' too many?"));
  }

  void begin(NodeKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_properties(mark, tag, anchor);
    require(!tree_.expects_key() ||
            tree_.fail(place_at(mark), std::string("a ") + std::string(to_string(kind)) + " as a key", "a name before the ':'",
                       "is a bracket not closed? a key in brackets needs quotes"));
    require(tree_.begin(kind, place_at(mark)));
  }

  void string(const std::string& value, TextPosition place) {
    Node node;
    node.kind = NodeKind::string;
    node.text = value;
    require(tree_.scalar(std::move(node), place));
  }

  /// Adds a scalar without quotes: null, boolean, number or, failing these, a string.
  void plain(const std::string& value, TextPosition place) {
    if (value.empty() || is_one_of(value, {"~", "null", "Null", "NULL"})) {
      require(tree_.scalar({}, place));
    } else if (is_one_of(value, {"true", "True", "TRUE", "false", "False", "FALSE"})) {
      Node node;
      node.kind = NodeKind::boolean;
      node.boolean = value[0] == 't' || value[0] == 'T';
      require(tree_.scalar(std::move(node), place));
    } else if (looks_like_number(value)) {
      number(value, place);
    } else {
      const std::string_view unsigned_part = std::string_view(value).substr(value[0] == '-' || value[0] == '+' ? 1 : 0);
      if (is_one_of(unsigned_part, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})) {
        require(tree_.fail(place, in_quotes(value), "a finite number",
                           "write a finite number, or leave the key out where it is optional"));
      }
      string(value, place);
    }
  }

  void number(const std::string& value, TextPosition place) {
    auto node = number_node(with_digits_around_the_dot(value));
    require(node.has_value() || tree_.fail(place, "the number " + in_quotes(value),
                                           "a number that a double can hold (below 1.8e308)", "check the exponent"));
    node->text = value;
    require(tree_.scalar(std::move(*node), place));
  }

  std::string_view text_;
  TreeBuilder& tree_;
  int documents_ = 0;
};

std::string syntax_hint(const std::string& message) {
  if (message.find("tab") != std::string::npos) return "indent with spaces";
  if (message.find("illegal map value") != std::string::npos)
    return "put a value that contains ': ' in quotes, or check the indentation";
  if (message.find("flow") != std::string::npos) return "check the brackets and commas of the { } or [ ] around this place";
  if (message.find("EOF") != std::string::npos) return "is a closing quote missing?";
  return "check the indentation and the brackets near this place";
}

/// Returns the first line up to `last`, from 1, that is indented with a tab; 0 if there is none. The parser often
/// reports another error one line later.
std::int32_t tabbed_line(std::string_view text, std::int32_t last) {
  for (std::int32_t line = 1; line <= last && !text.empty(); ++line) {
    const std::size_t end = text.find('\n'), first = text.find_first_not_of(' ');
    if (first != std::string_view::npos && first < end && text[first] == '\t') return line;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return 0;
}

Result<Document> parse(std::string_view text, const std::string& where, const Limits& limits) {
  TreeBuilder tree(where, limits);
  YamlEvents handler(text, tree);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(handler);
    // A second call reports any text behind the first document; it returns false for a single document.
    parser.HandleNextDocument(handler);
  } catch (const Stop&) {
    return tree.error();
  } catch (const YAML::Exception& problem) {
    // Marks of errors at the very end may be behind the text.
    const TextPosition place = problem.mark.is_null() ? TextPosition{} : place_at(problem.mark);
    if (const std::int32_t tabbed = tabbed_line(text, place.line); tabbed > 0)
      return Error{ErrorKind::bad_input, at(where, TextPosition{tabbed, 1}), "a tab at the beginning of the line",
                   "spaces: YAML does not allow tabs there", "replace each tab, e.g. sed -i 's/\\t/  /g' FILE"};
    return Error{ErrorKind::bad_input, at(where, place), "YAML that cannot be parsed (" + problem.msg + ")", "YAML 1.2 or JSON",
                 syntax_hint(problem.msg)};
  } catch (const std::exception& problem) {  // out_of_range and the like from inside yaml-cpp: still caused by the text
    return Error{ErrorKind::bad_input, at(where, {}), std::string("YAML that cannot be parsed (") + problem.what() + ")",
                 "YAML 1.2 or JSON", "check the indentation and the brackets"};
  }
  if (handler.documents() == 0) {
    return Error{ErrorKind::bad_input, at(where, {}), "an empty document", "a YAML or JSON value", "are all lines comments?"};
  }
  return Document{where, tree.take_root()};
}

/// Returns whether a text that is neither valid JSON nor valid YAML was meant as JSON: {" [{ [1 …
bool meant_as_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  return second != std::string_view::npos &&
         (is_digit(text[second]) || std::string_view("\"[]{}-").find(text[second]) != std::string_view::npos);
}

}  // namespace

Result<Document> read_yaml(std::string_view text, const std::string& where, const Limits& limits) {
  if (Status status = check_text(text, where, limits.max_bytes); !status.ok()) return status.error();
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  Status json_error;
  if (first != std::string_view::npos && std::string_view("{[\"").find(text[first]) != std::string_view::npos) {
    bool syntax = false;
    Result<Document> document = read_json_or_reason(text, where, limits, syntax);
    if (document.ok() || !syntax || text.size() > kMaxYamlBytes) return document;
    if (text[first] != '"' && (where.ends_with(".json") || meant_as_json(text))) json_error = document.error();
  }
  if (text.size() > kMaxYamlBytes) {
    return Error{ErrorKind::bad_input, at(where, {}), std::to_string(text.size()) + " bytes of YAML",
                 "at most " + std::to_string(kMaxYamlBytes) + " bytes",
                 "is this the right file? large inputs can be written as JSON"};
  }
  Result<Document> document = parse(text, where, limits);
  if (!document.ok() && !json_error.ok()) return json_error.error();
  return document;
}

}  // namespace espalier::base
