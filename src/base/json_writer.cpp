// SPDX-License-Identifier: Apache-2.0
// Writes JSON text with stable order and no locale. In strings that are not valid UTF-8 (a file name, say) each bad
// byte becomes U+FFFD, so that the output is always valid JSON.
#include <array>
#include <charconv>
#include <cmath>

#include "base/document.h"
#include "base/invariant.h"
#include "base/text.h"

namespace espalier::base {
namespace {

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t length = utf8_length(text, i);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4u];
      out += digits[byte & 15u];
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
}

void write(JsonWriter& writer, const Node& node) {
  switch (node.kind) {
    case NodeKind::null: writer.null(); return;
    case NodeKind::boolean: writer.value(node.boolean); return;
    case NodeKind::integer: writer.value(node.integer); return;
    case NodeKind::real: writer.value(node.real); return;
    case NodeKind::string: writer.value(std::string_view(node.text)); return;
    case NodeKind::sequence:
      writer.begin_array();
      for (const Node& item : node.items) write(writer, item);
      writer.end_array();
      return;
    case NodeKind::mapping:
      writer.begin_object();
      for (const auto& [key, value] : node.members) {
        writer.key(key);
        write(writer, value);
      }
      writer.end_object();
      return;
  }
}

}  // namespace

// Writes a comma and a line break (or a space) before everything except the first item of a container.
void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  ESPALIER_CHECK(stack_.empty() ? first_ : true);  // one value at the top
  ESPALIER_CHECK(stack_.empty() || stack_.back() == '[');
  if (!stack_.empty()) newline();
}

void JsonWriter::newline() {
  if (!first_) out_ += ',';
  if (compact_.back()) {
    if (!first_) out_ += ' ';
  } else {
    out_ += '\n';
    out_.append(stack_.size() * static_cast<std::size_t>(indent_), ' ');
  }
  first_ = false;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  ESPALIER_CHECK(!stack_.empty() && stack_.back() == '{' && !after_key_);
  newline();
  out_ += '"';
  append_escaped(out_, name);
  out_ += "\": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin_object() { return begin('{'); }
JsonWriter& JsonWriter::begin_array() { return begin('['); }
JsonWriter& JsonWriter::end_object() { return end('{'); }
JsonWriter& JsonWriter::end_array() { return end('['); }

JsonWriter& JsonWriter::begin(char bracket) {
  separate();
  out_ += bracket;
  compact_.push_back(indent_ <= 0 || compact_pending_ || (!compact_.empty() && compact_.back()));
  compact_pending_ = false;
  stack_.push_back(bracket);
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  ESPALIER_CHECK(!stack_.empty() && stack_.back() == bracket && !after_key_);
  const bool on_own_line = !first_ && !compact_.back();
  stack_.pop_back();
  compact_.pop_back();
  if (on_own_line) {
    out_ += '\n';
    out_.append(stack_.size() * static_cast<std::size_t>(indent_), ' ');
  }
  out_ += bracket == '{' ? '}' : ']';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::scalar(std::string_view text) {
  separate();
  out_ += text;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  out_ += '"';
  append_escaped(out_, text);
  out_ += '"';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) { return scalar(std::to_string(number)); }

JsonWriter& JsonWriter::value(double number) {
  ESPALIER_CHECK(std::isfinite(number));
  return scalar(shortest(number));
}

JsonWriter& JsonWriter::value(bool flag) { return scalar(flag ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return scalar("null"); }
JsonWriter& JsonWriter::raw(std::string_view json) { return scalar(json); }

JsonWriter& JsonWriter::seconds(std::int64_t nanoseconds) {
  constexpr std::uint64_t second = 1'000'000'000;
  const bool negative = nanoseconds < 0;
  // Unsigned negation is also defined for the smallest value.
  const std::uint64_t magnitude =
      negative ? 0 - static_cast<std::uint64_t>(nanoseconds) : static_cast<std::uint64_t>(nanoseconds);
  const std::string fraction = std::to_string(magnitude % second);
  return scalar((negative ? "-" : "") + std::to_string(magnitude / second) + "." + std::string(9 - fraction.size(), '0') +
                fraction);
}

JsonWriter& JsonWriter::compact_next() {
  compact_pending_ = true;
  return *this;
}

std::string to_json(const Node& node) {
  JsonWriter writer(0);
  write(writer, node);
  return writer.text();
}

}  // namespace espalier::base
