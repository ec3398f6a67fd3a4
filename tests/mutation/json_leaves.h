// SPDX-License-Identifier: Apache-2.0
// Changes leaves of a JSON document to another plausible value, an absurd one, or none. The mutation of every leaf
// and the fuzzer of `check` share it; the fuzzer passes the results through the check of documents.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/check.h"
#include "espalier/documents.h"
#include "espalier/job.h"
#include "report/digest.h"

namespace espalier::mutation {

using Engine = std::mt19937;

struct Leaf {
  std::string path;                ///< "search.phases[0].name"
  std::vector<std::size_t> steps;  ///< by place in members or items, from the root
};

inline void walk(const Node& node, const std::string& path, std::vector<std::size_t>& steps, std::vector<Leaf>& out) {
  const bool mapping = node.kind == NodeKind::mapping, sequence = node.kind == NodeKind::sequence;
  if (!mapping && !sequence) {
    out.push_back({path, steps});
    return;
  }
  const std::size_t count = mapping ? node.members.size() : node.items.size();
  for (std::size_t i = 0; i < count; ++i) {
    steps.push_back(i);
    if (mapping)
      walk(node.members[i].second, path.empty() ? node.members[i].first : path + "." + node.members[i].first, steps, out);
    else
      walk(node.items[i], path + "[" + std::to_string(i) + "]", steps, out);
    steps.pop_back();
  }
}

/// Returns the answer of `espalier check`; a document that cannot be read gives a report with one finding, "reader".
inline CheckReport checked(const std::string& text) {
  const auto refused = [](const Error& error) { return CheckReport{{{"reader", false, error.message()}}}; };
  if (report::is_answer_to_change(text)) {
    const auto report = report::check_answer_to_change(text, "answer");
    return report ? *report : refused(report.error());
  }
  const auto document = report::read_plan_document(text, "document");
  if (!document) return refused(document.error());
  const auto job = job_of_plan(document->plan);
  if (!job) return refused(job.error());
  const auto report =
      document->result ? report::check_result(*job, *document->result, text) : report::check_plan(*job, document->plan);
  return report ? *report : refused(report.error());
}

inline std::vector<Leaf> leaves_of(const Node& root) {
  std::vector<Leaf> out;
  std::vector<std::size_t> steps;
  walk(root, "", steps, out);
  return out;
}

inline Node& leaf_at(Node& root, const Leaf& leaf) {
  Node* node = &root;
  for (const std::size_t i : leaf.steps) node = node->kind == NodeKind::mapping ? &node->members[i].second : &node->items[i];
  return *node;
}

inline void remove_leaf(Node& root, const Leaf& leaf) {
  Leaf parent = leaf;
  parent.steps.pop_back();
  Node& node = leaf_at(root, parent);
  const auto at = static_cast<std::ptrdiff_t>(leaf.steps.back());
  if (node.kind == NodeKind::mapping)
    node.members.erase(node.members.begin() + at);
  else
    node.items.erase(node.items.begin() + at);
}

/// Returns the document with a digest that fits its content, as if someone edited the document and
/// recomputed the digest.
inline std::string resealed(Node root) {
  for (auto& [key, node] : root.members)
    if (key == "digest") {
      node.kind = NodeKind::string;
      node.text = report::digest_of(root);
    }
  return base::to_json(root);
}

inline void set_integer(Node& node, std::int64_t value) {
  node.kind = NodeKind::integer;
  node.integer = value;
  node.real = static_cast<double>(value);
  node.text.clear();
}
inline void set_real(Node& node, double value) {
  node.kind = NodeKind::real;
  node.real = value;
  node.text.clear();
}

inline std::size_t below(Engine& engine, std::size_t n) {
  return engine() % n;
}  // not std::uniform_int_distribution: this is the same on every library

/// Returns another plausible text: a hash with one digit changed, a word of the document, or the text with
/// an additional letter.
inline std::string other_text(const std::string& text, const std::vector<std::string>& words, Engine& engine) {
  const bool hash = text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hash) return text.substr(0, 15) + (text.back() == '0' ? "1" : "0");
  const std::string& word = words[below(engine, words.size())];
  return below(engine, 2) == 0 && word != text ? word : text + "x";
}

/// Gives the leaf another value of its type.
inline void change(Node& node, const std::vector<std::string>& words, Engine& engine) {
  switch (node.kind) {
    case NodeKind::null: return set_integer(node, 1);
    case NodeKind::boolean: node.boolean = !node.boolean; return;
    case NodeKind::integer: {
      const std::int64_t n = node.integer, half = INT64_MAX / 2;
      if (n >= half || n <= -half) return set_integer(node, n / 2);
      const std::int64_t choices[] = {n + 1, n > 0 ? n - 1 : 2, n > 1 ? n / 2 : 3, n * 2 + 2};
      return set_integer(node, choices[below(engine, 4)]);
    }
    case NodeKind::real: {
      const double r = node.real, choices[] = {r + 1e-9, r * 0.9 + 1e-9, r * 1.001 + 1e-9, r * 2 + 1e-9};
      return set_real(node, choices[below(engine, 4)]);
    }
    case NodeKind::string: node.text = other_text(node.text, words, engine); return;
    case NodeKind::sequence:
    case NodeKind::mapping: return;
  }
}

/// Gives the leaf a value that no document should hold and that readers and checks must survive.
inline void make_absurd(Node& node, Engine& engine) {
  constexpr std::int64_t whole[] = {-1, 0, 7, 1000, 65'535, 1 << 20, 2'147'483'647, std::int64_t{1} << 40, std::int64_t{1} << 62};
  switch (below(engine, 8)) {
    case 0: node = Node(); return;
    case 1: return set_real(node, 1e300);
    case 2: return set_real(node, 1e-300);
    default: return set_integer(node, whole[below(engine, 9)]);
  }
}

inline std::vector<std::string> words_of(const Node& root, const std::vector<Leaf>& leaves) {
  std::vector<std::string> out;
  for (const Leaf& leaf : leaves) {
    Node copy = leaf_at(const_cast<Node&>(root), leaf);
    if (copy.kind == NodeKind::string) out.push_back(copy.text);
  }
  return out;
}

}  // namespace espalier::mutation
