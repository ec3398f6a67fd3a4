// SPDX-License-Identifier: Apache-2.0
#include "report/digest.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace espalier::report {
namespace {

void append_canonical(const Node& node, std::string& out);

void append_number(const Node& node, std::string& out) {
  const bool whole = node.kind == NodeKind::real && std::abs(node.real) < kExact && node.real == std::floor(node.real);
  if (whole)
    out += std::to_string(static_cast<std::int64_t>(node.real));
  else if (node.kind == NodeKind::integer)
    out += std::to_string(node.integer);
  else
    out += base::to_json(node);
}

/// Ends a list whose items are each followed by a comma.
void close(std::string& out, char bracket) {
  if (out.back() == ',') out.pop_back();
  out += bracket;
}

void append_mapping(const Node& node, std::string& out, const std::vector<std::string>& without) {
  std::vector<const std::pair<std::string, Node>*> members;
  for (const auto& member : node.members)
    if (std::find(without.begin(), without.end(), member.first) == without.end()) members.push_back(&member);
  std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  out += '{';
  for (const auto* member : members) {
    Node key;
    key.kind = NodeKind::string;
    key.text = member->first;
    out += base::to_json(key) + ":";
    append_canonical(member->second, out);
    out += ',';
  }
  close(out, '}');
}

void append_canonical(const Node& node, std::string& out) {
  switch (node.kind) {
    case NodeKind::mapping: return append_mapping(node, out, {});
    case NodeKind::sequence:
      out += '[';
      for (const Node& item : node.items) {
        append_canonical(item, out);
        out += ',';
      }
      return close(out, ']');
    case NodeKind::integer:
    case NodeKind::real: return append_number(node, out);
    case NodeKind::null:
    case NodeKind::boolean:
    case NodeKind::string: out += base::to_json(node);
  }
}

const Node* at(const Node& root, const std::string& key) {
  const std::size_t dot = key.find('.');
  const Node* node = root.find(key.substr(0, dot));
  return node == nullptr || dot == std::string::npos ? node : at(*node, key.substr(dot + 1));
}

}  // namespace

std::string digest_of(const Node& root) {
  std::string text;
  append_mapping(root, text, {"digest", "timing"});
  return base::content_hash(text);
}

std::string sealed(const std::function<std::string(const std::string& digest)>& write) {
  std::string plain = write("");
  const auto document = base::read_json(plain, "document");
  return document ? write(digest_of(document->root)) : plain;
}

void write_digest(base::JsonWriter& w, const std::string& digest) {
  if (!digest.empty()) w.key("digest").value(digest);
}

void write_made_by(base::JsonWriter& w, const MadeBy& made_by) {
  w.key("made_by").compact_next().begin_object();
  w.key("version").value(made_by.version).key("calibration").value(made_by.calibration).end_object();
}

bool has_digest(const Node& root) { return root.find("digest") != nullptr; }

Finding check_digest(const Node& root, const std::vector<std::string>& binds) {
  const Node* claimed = root.find("digest");
  const std::string found = digest_of(root);
  if (claimed == nullptr)
    return {"digest", false,
            "the document names its build but has no digest: it was edited, or written before digests existed; plan again"};
  if (claimed->kind != NodeKind::string || claimed->text != found)
    return {"digest", false,
            base::cat("claimed ", base::to_json(*claimed), ", the content has ", found, ": edited after it was written")};
  // Wall-clock values, which no other run repeats, have a separate digest.
  const Node* timing = root.find("timing");
  const Node* own = timing == nullptr ? nullptr : timing->find("digest");
  if (timing != nullptr && (own == nullptr || own->text != digest_of(*timing)))
    return {"digest", false, base::cat("timing: its content has ", digest_of(*timing), ": edited after it was written")};
  return {"digest", true, base::cat("as written", binds.empty() ? "" : "; nothing else verifies ", base::joined(binds))};
}

std::vector<std::string> present_keys(const Node& root, const std::vector<std::string>& keys) {
  std::vector<std::string> out;
  for (const std::string& key : keys)
    if (at(root, key) != nullptr) out.push_back(key);
  return out;
}

}  // namespace espalier::report
