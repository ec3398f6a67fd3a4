// SPDX-License-Identifier: Apache-2.0
// Represents JSON and YAML as one strict tree with positions, so that every message can state a place.
//
// The functions read_json and read_yaml turn untrusted text into a Document or an Error with "where:line:column".
// Limits are part of the contract: a hostile file ends in bounded time and memory. They bound text size, nesting
// depth, number of nodes and length of a scalar. Both reject duplicate keys, NaN and infinities, invalid UTF-8, YAML
// anchors, aliases, tags and several documents.
//
// A Reader walks a mapping and records the requested keys. `finish()` then reports the first unknown one with a "did
// you mean". Every getter returns the value or records the first Error in the shared ErrorSink (`first()`). So
// readers are straight lists of fields without an `if` after each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"

namespace espalier::base {

struct Limits {
  std::size_t max_bytes = 16u << 20;  ///< text size
  std::size_t max_depth = 64;         ///< nesting
  std::size_t max_nodes = 2'000'000;  ///< values in the tree
  std::size_t max_scalar_bytes = 1u << 20;
};

enum class NodeKind : std::uint8_t { null, boolean, integer, real, string, sequence, mapping };
std::string_view to_string(NodeKind kind);

/// Holds a value with its place. `line` and `column` start at 1.
struct Node {
  // These are declared here and defaulted below, where Node is complete: clang 14 in C++20 mode needs it for the
  // vector of pairs.
  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  NodeKind kind = NodeKind::null;
  std::int32_t line = 1, column = 1;
  bool boolean = false;
  std::int64_t integer = 0;                           ///< kind == integer
  double real = 0;                                    ///< kind == real or integer
  std::string text;                                   ///< kind == string; for numbers: the literal as written
  std::vector<Node> items;                            ///< sequence
  std::vector<std::pair<std::string, Node>> members;  ///< mapping, in file order
  [[nodiscard]] const Node* find(std::string_view key) const;
};
inline Node::Node() = default;
inline Node::Node(const Node&) = default;
inline Node::Node(Node&&) noexcept = default;
inline Node& Node::operator=(const Node&) = default;
inline Node& Node::operator=(Node&&) noexcept = default;
inline Node::~Node() = default;

/// Holds a parsed text and its name in messages.
struct Document {
  std::string where;
  Node root;
};

Result<Document> read_json(std::string_view text, const std::string& where, const Limits& limits = {});
/// Reads the YAML 1.2 core schema (no yes/no booleans, no octal, no sexagesimal) and JSON, which is a subset.
Result<Document> read_yaml(std::string_view text, const std::string& where, const Limits& limits = {});
/// Writes a tree as canonical JSON: one line, members in file order, shortest round-trip numbers. Reading it gives
/// an equal tree.
std::string to_json(const Node& node);
/// Reads a whole file of at most max_bytes; an Error for larger files, directories, and missing or unreadable files.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 16u << 20);

/// Corrects `path` below `folder`: its first part that does not exist is replaced by the most similar name in that
/// place. Empty if no name there is similar, or if the corrected path does not exist either.
std::string similar_path(const std::string& folder, const std::string& path);

/// Collects the first error of a reading; later ones are dropped.
class ErrorSink {
 public:
  void add(Error error) {
    if (first_.ok()) first_ = std::move(error);
  }
  [[nodiscard]] bool ok() const { return first_.ok(); }
  [[nodiscard]] const Status& first() const { return first_; }

 private:
  Status first_;
};

/// Reads the members of one mapping. `path` is the JSON path, "$" for the root. The error kind is bad_input.
class Reader {
 public:
  Reader(const Document& document, const Node& mapping, std::string path, ErrorSink& sink);
  static Reader root(const Document& document, ErrorSink& sink) { return {document, document.root, "$", sink}; }

  [[nodiscard]] bool has(std::string_view key) const;          ///< present and not null; marks the key as known
  [[nodiscard]] const Node* find(std::string_view key) const;  ///< nullptr when absent; marks the key as known
  // required_* record an error if the key is absent; optional_* return `fallback` if it is absent or null.
  std::int64_t required_int(std::string_view key, std::int64_t low, std::int64_t high);
  std::int64_t optional_int(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback);
  double required_real(std::string_view key, double low, double high);
  double optional_real(std::string_view key, double low, double high, double fallback);
  bool optional_bool(std::string_view key, bool fallback);
  std::string required_string(std::string_view key);
  std::string optional_string(std::string_view key, std::string fallback);
  /// Reads one of `choices` and returns its index; suggests the nearest ("did you mean") otherwise.
  std::size_t optional_choice(std::string_view key, const std::vector<std::string_view>& choices, std::size_t fallback);
  std::vector<std::int64_t> optional_int_list(std::string_view key, std::int64_t low, std::int64_t high);
  /// Reads a quantity with unit: "80GiB", "100Gb/s", "50 GB/s", "5us" -> bytes, bytes/s, seconds. Rejects a bare
  /// number with a hint.
  std::int64_t optional_bytes(std::string_view key, std::int64_t fallback);
  double optional_bandwidth(std::string_view key, double fallback);
  double optional_duration(std::string_view key, double fallback);
  /// Returns the sub-mapping; if it is absent an empty mapping (and an error, if required).
  Reader child(std::string_view key, bool required);
  /// Calls f(reader of item i) for each mapping of a sequence.
  void each(std::string_view key, bool required, const std::function<void(Reader&)>& f);
  /// Marks keys as known without reading them.
  void ignore(std::initializer_list<std::string_view> keys);
  /// Checks for unknown keys: the first one becomes an error with "did you mean".
  void finish();
  /// Returns the keys that were not requested (foreign formats report them as notes).
  [[nodiscard]] std::vector<std::string> unread() const;

  [[nodiscard]] std::string where(const Node& node, std::string_view key) const;  ///< "file:line:column ($.path.key)"
  /// Records an error at `key`. Empty `found` becomes the value at the key, empty `hint` a pointer to the file formats.
  void fail(std::string_view key, std::string found, std::string expected, std::string hint = "");
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Node& node() const { return *node_; }
  [[nodiscard]] const Document& document() const { return *document_; }
  [[nodiscard]] ErrorSink& sink() const { return *sink_; }

 private:
  void missing(std::string_view key, const std::string& expected);

  const Document* document_;
  const Node* node_;
  std::string path_;
  ErrorSink* sink_;
  std::int32_t line_, column_;              ///< place of errors about absent keys
  mutable std::vector<bool> known_;         ///< by member
  mutable std::vector<std::string> asked_;  ///< requested keys, present or not: the list of "expected one of"
};

/// Parses quantities with units: "80GiB" "80 GB" "1.5TiB" (bytes); "400Gb/s" "50GB/s" (bytes per second; b = bit, B =
/// byte); "5us" "1.5ms" "2s" "300ns".
std::optional<std::int64_t> parse_bytes(std::string_view text);
std::optional<double> parse_bandwidth(std::string_view text);
std::optional<double> parse_duration(std::string_view text);

/// Returns the edit distance: insertions, deletions, substitutions and swaps of neighbours count 1.
std::size_t edit_distance(std::string_view a, std::string_view b);
/// Returns the candidate closest to `word` by edit distance, if it is close enough to suggest.
std::optional<std::string> did_you_mean(std::string_view word, const std::vector<std::string>& candidates);
/// Returns a hint: `did you mean "a"?`, or `did you mean "a", "b" or "c"?` if several candidates begin with the word.
/// Empty if there is none.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

/// Writes JSON with stable key order, no locale, shortest round-trip doubles, fixed nine digits for seconds.
class JsonWriter {
 public:
  explicit JsonWriter(int indent = 2) : indent_(indent) {}
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(double number);
  JsonWriter& value(bool flag);
  JsonWriter& null();
  JsonWriter& seconds(std::int64_t nanoseconds);  ///< 5120000000 -> 5.120000000
  JsonWriter& raw(std::string_view json);         ///< an already serialised value, which the caller has indented
  /// Arrays and objects begun after this call are written on one line until the matching end.
  JsonWriter& compact_next();
  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  JsonWriter& begin(char bracket);
  JsonWriter& end(char bracket);
  JsonWriter& scalar(std::string_view text);
  void separate();
  void newline();
  int indent_;
  std::string out_;
  std::vector<char> stack_;
  std::vector<bool> compact_;
  bool first_ = true, after_key_ = false, compact_pending_ = false;
};

/// Returns a stable 64-bit content hash as 16 hex digits (xxh64), which names inputs in plan.json.
std::string content_hash(std::string_view bytes);

}  // namespace espalier::base

namespace espalier {
// All modules use readers and writers of documents, so these names need no prefix.
using base::JsonWriter;
using base::Node;
using base::NodeKind;
using base::Reader;
}  // namespace espalier
