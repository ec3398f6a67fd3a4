// SPDX-License-Identifier: Apache-2.0
// Builds the tree from events, with limits. See tree_builder.h.
#include "base/tree_builder.h"

#include <algorithm>
#include <numeric>

#include "base/invariant.h"

namespace espalier::base {

bool TreeBuilder::fail(TextPosition place, std::string found, std::string expected, std::string hint) {
  if (status_.ok())
    status_ = Error{ErrorKind::bad_input, at(where_, place), std::move(found), std::move(expected), std::move(hint)};
  return false;
}

bool TreeBuilder::expects_key() const {
  return !stack_.empty() && stack_.back().node.kind == NodeKind::mapping && !stack_.back().has_key;
}

bool TreeBuilder::count(TextPosition place) {
  if (++nodes_ <= limits_.max_nodes) return true;
  return fail(place, "more than " + std::to_string(limits_.max_nodes) + " values", "a smaller file", "is this the right file?");
}

bool TreeBuilder::attach(Node node) {
  if (stack_.empty()) {
    root_ = std::move(node);
    return true;
  }
  Frame& frame = stack_.back();
  if (frame.node.kind == NodeKind::sequence) {
    frame.node.items.push_back(std::move(node));
    return true;
  }
  ESPALIER_CHECK(frame.has_key);
  frame.node.members.emplace_back(std::move(frame.key), std::move(node));
  frame.key.clear();
  frame.has_key = false;
  return true;
}

bool TreeBuilder::scalar(Node node, TextPosition place) {
  if (!count(place)) return false;
  if (node.text.size() > limits_.max_scalar_bytes) {
    return fail(place, "a value of " + std::to_string(node.text.size()) + " bytes",
                "at most " + std::to_string(limits_.max_scalar_bytes) + " bytes", "is a closing quote missing?");
  }
  node.line = place.line;
  node.column = place.column;
  return attach(std::move(node));
}

bool TreeBuilder::begin(NodeKind kind, TextPosition place) {
  if (!count(place)) return false;
  if (stack_.size() >= limits_.max_depth) {
    return fail(place, "lists and mappings nested more than " + std::to_string(limits_.max_depth) + " deep",
                "at most " + std::to_string(limits_.max_depth) + " levels", "is this the right file?");
  }
  Frame frame;
  frame.node.kind = kind;
  frame.node.line = place.line;
  frame.node.column = place.column;
  stack_.push_back(std::move(frame));
  return true;
}

bool TreeBuilder::key(std::string name, TextPosition place) {
  ESPALIER_CHECK(expects_key());
  if (name.size() > limits_.max_scalar_bytes) {
    return fail(place, "a key of " + std::to_string(name.size()) + " bytes",
                "at most " + std::to_string(limits_.max_scalar_bytes) + " bytes", "is a closing quote missing?");
  }
  Frame& frame = stack_.back();
  frame.key = std::move(name);
  frame.key_places.push_back(place);
  frame.has_key = true;
  return true;
}

// Sorting the members once at the end keeps a mapping of a million keys at n log n.
bool TreeBuilder::check_duplicates(const Frame& frame) {
  const auto& members = frame.node.members;
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return members[a].first < members[b].first; });
  std::size_t worst = members.size();  // the earliest repeated key in file order
  std::size_t original = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (members[order[i]].first == members[order[i - 1]].first && order[i] < worst) {
      worst = order[i];
      original = order[i - 1];
    }
  }
  if (worst == members.size()) return true;
  const TextPosition first = frame.key_places[original];
  return fail(frame.key_places[worst], "the key " + in_quotes(members[worst].first) + " a second time", "each key once",
              "it appears first in line " + std::to_string(first.line) + "; remove one of the two");
}

bool TreeBuilder::end() {
  ESPALIER_CHECK(!stack_.empty());
  Frame frame = std::move(stack_.back());
  stack_.pop_back();
  if (frame.node.kind == NodeKind::mapping && !check_duplicates(frame)) return false;
  return attach(std::move(frame.node));
}

}  // namespace espalier::base
