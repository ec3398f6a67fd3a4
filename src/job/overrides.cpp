// SPDX-License-Identifier: Apache-2.0
#include "job/overrides.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

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

/// Returns the path of an override from its element `first` on: ".groups.0.nodes".
std::string dotted(const Override& change, std::size_t first) {
  std::string out;
  for (std::size_t i = first; i < change.path.size(); ++i) out.append(".").append(change.path[i]);
  return out;
}

/// Returns the path at the end of a place in the notation of overrides: ".groups.0.nodes" of
/// "cluster.yaml:1:8 ($.groups[0].nodes)".
std::optional<std::string> path_of(const std::string& where) {
  const std::size_t at = where.rfind("($");  // the last one: "job.yaml ($.model):1:64 ($.n_head)"
  if (at == std::string::npos) return std::nullopt;
  std::string path = where.substr(at + 2, where.rfind(')') - at - 2);
  std::replace(path.begin(), path.end(), '[', '.');
  std::erase(path, ']');
  return path;
}

bool at_or_below(const std::string& path, const std::string& top) {
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '.');
}

/// Returns whether a message gives the value of `key`: "a divisor of num_attention_heads = 7".
bool gives_value(const std::string& text, const std::string& key) {
  return (" " + text).find(" " + key + " = ") != std::string::npos;
}

/// Returns the place of an error as the override `change`, if the error is about its value or about a key that it
/// made.
std::optional<std::string> place_in(const Override& change, const Error& error, const std::string& path) {
  const std::string whole = dotted(change, 0);  // .cluster.nodes in the job; .nodes in the cluster's own file
  for (const std::string& own : {whole, dotted(change, 1)}) {
    if (own.empty() || path.empty()) continue;
    if (at_or_below(path, own)) {
      const std::string rest = path.substr(own.size());
      return "--set " + change.text + (rest.empty() ? "" : " ($" + whole + rest + ")");
    }
    if (at_or_below(own, path) && error.found.starts_with("the unknown key")) return "--set " + change.text;
  }
  return std::nullopt;
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

Result<std::vector<Override>> parse_overrides(const std::vector<std::string>& texts) {
  std::vector<Override> out;
  for (const std::string& text : texts) {
    auto change = parse_override(text);
    if (!change) return change.error();
    out.push_back(std::move(change).value());
  }
  return out;
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

Error blame_override(Error error, const std::vector<Override>& overrides) {
  const auto path = path_of(error.where);
  if (!path) return error;
  for (auto change = overrides.rbegin(); change != overrides.rend(); ++change) {
    if (auto place = place_in(*change, error, *path)) {
      error.where = std::move(*place);
      return error;
    }
  }
  for (auto change = overrides.rbegin(); change != overrides.rend(); ++change) {
    const std::string& key = change->path.back();
    if (!gives_value(error.found, key) && !gives_value(error.expected, key)) continue;
    error.where += " with --set " + change->text;
    break;
  }
  return error;
}

}  // namespace espalier::job
