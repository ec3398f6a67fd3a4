// SPDX-License-Identifier: Apache-2.0
#include "job/overrides.h"

#include <algorithm>
#include <charconv>

namespace espalier::job {
namespace {

Error usage(const std::string& text, std::string found, std::string expected,
            const std::string& example = "training.global_batch=128") {
  return Error{ErrorKind::usage, "--set " + text, std::move(found), std::move(expected), "for example --set " + example};
}

std::vector<std::string> split(const std::string& dotted) {
  std::vector<std::string> parts(1);
  for (char c : dotted) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

base::Node* item_of(base::Node& sequence, const std::string& index) {
  std::size_t i = 0;
  const auto [end, code] = std::from_chars(index.data(), index.data() + index.size(), i);
  if (code != std::errc{} || end != index.data() + index.size() || i >= sequence.items.size()) return nullptr;
  return &sequence.items[i];
}

base::Node& member_of(base::Node& mapping, const std::string& key) {
  for (auto& [name, node] : mapping.members) {
    if (name == key) return node;
  }
  return mapping.members.emplace_back(key, base::Node{}).second;
}

void remove_member(base::Node& mapping, const std::string& key) {
  std::erase_if(mapping.members, [&](const auto& member) { return member.first == key; });
}

}  // namespace

Result<Override> parse_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    return usage(text, "no \"=\"", "path=value", text.empty() ? "training.global_batch=128" : text + "=VALUE");
  Override change;
  change.text = text;
  change.path = split(text.substr(0, equals));
  if (std::any_of(change.path.begin(), change.path.end(), [](const std::string& p) { return p.empty(); })) {
    return usage(text, "an empty name in the path", "names joined by dots");
  }
  const std::string value = text.substr(equals + 1);
  if (value.empty()) return change;
  auto document = base::read_yaml(value, "--set " + text);
  if (!document) return document.error();
  change.value = std::move(document.value().root);
  return change;
}

Status apply_override(base::Node& root, const Override& change, std::size_t depth) {
  base::Node* node = &root;
  for (std::size_t i = depth; i < change.path.size(); ++i) {
    const std::string& name = change.path[i];
    if (node->kind == base::NodeKind::null) node->kind = base::NodeKind::mapping;
    if (node->kind == base::NodeKind::sequence) {
      base::Node* item = item_of(*node, name);
      if (!item)
        return usage(change.text, "\"" + name + "\" in a list of " + std::to_string(node->items.size()), "an index of the list");
      node = item;
    } else if (node->kind == base::NodeKind::mapping) {
      if (i + 1 == change.path.size() && change.value.kind == base::NodeKind::null) {
        remove_member(*node, name);
        return {};
      }
      node = &member_of(*node, name);
    } else {
      return usage(change.text, "\"" + name + "\" below " + base::to_json(*node), "a path into mappings");
    }
  }
  *node = change.value;
  return {};
}

}  // namespace espalier::job
