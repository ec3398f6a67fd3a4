// SPDX-License-Identifier: Apache-2.0
// Builds a Node tree from the events of a JSON or YAML parser. It enforces the limits that both share: nesting
// depth, number of values, length of a scalar, duplicate keys. Every method returns false after an error;
// `error()` then describes it. Containers are kept on an explicit stack and moved into their parent when they end,
// so nothing here recurses.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/document.h"
#include "base/text.h"

namespace espalier::base {

class TreeBuilder {
 public:
  TreeBuilder(const std::string& where, const Limits& limits) : where_(where), limits_(limits) {}

  /// Adds a complete scalar; its line and column are set from `place`.
  bool scalar(Node node, TextPosition place);
  /// Begins a sequence or mapping.
  bool begin(NodeKind kind, TextPosition place);
  bool key(std::string name, TextPosition place);
  bool end();
  /// Stops the reading with an error of the caller.
  bool fail(TextPosition place, std::string found, std::string expected, std::string hint);

  /// Returns whether the next scalar is the key of a mapping (for parsers that do not distinguish keys from values).
  [[nodiscard]] bool expects_key() const;
  [[nodiscard]] bool failed() const { return !status_.ok(); }
  [[nodiscard]] const Error& error() const { return status_.error(); }
  [[nodiscard]] Node take_root() { return std::move(root_); }

 private:
  struct Frame {
    Node node;
    std::vector<TextPosition> key_places;  // mapping: the place of each member's key
    std::string key;
    bool has_key = false;
  };
  bool count(TextPosition place);
  bool attach(Node node);
  bool check_duplicates(const Frame& frame);

  std::string where_;
  Limits limits_;
  std::vector<Frame> stack_;
  Node root_;
  std::size_t nodes_ = 0;
  Status status_;
};

/// Reads JSON and reports why it failed: `syntax` is true for text that is not JSON, false for a rule that also
/// holds for YAML.
Result<Document> read_json_or_reason(std::string_view text, const std::string& where, const Limits& limits, bool& syntax);

}  // namespace espalier::base
