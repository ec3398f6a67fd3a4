// SPDX-License-Identifier: Apache-2.0
// Reads lists with one entry per layer: layer_types, mlp_layer_types.
#include <algorithm>
#include <string>

#include "model/family.h"

namespace espalier::model {

std::vector<std::string> per_layer_list(Fields& fields, std::string_view key, std::int64_t layers,
                                        const std::vector<std::string_view>& allowed) {
  const base::Node* node = fields.reader().find(key);
  if (node == nullptr || node->kind == base::NodeKind::null) return {};
  std::string choices;
  for (const auto choice : allowed) choices += (choices.empty() ? "" : ", ") + std::string(choice);
  if (node->kind != base::NodeKind::sequence || node->items.size() != static_cast<std::size_t>(layers)) {
    const bool list = node->kind == base::NodeKind::sequence;
    fields.fail(key, list ? std::to_string(node->items.size()) + " entries" : std::string(base::to_string(node->kind)),
                "a list of " + std::to_string(layers) + " entries, one per layer");
    return {};
  }
  std::vector<std::string> values;
  for (const base::Node& item : node->items) {
    if (std::find(allowed.begin(), allowed.end(), item.text) == allowed.end() || item.kind != base::NodeKind::string) {
      fields.fail(key, "entry \"" + item.text.substr(0, 40) + "\"", "entries out of " + choices,
                  "other kinds of layer are not supported");
      return {};
    }
    values.push_back(item.text);
  }
  return values;
}

std::vector<std::int64_t> windows_of_layer_types(Fields& fields, std::int64_t layers, std::int64_t window) {
  std::vector<std::int64_t> windows;
  std::size_t unlimited = 0;
  for (const std::string& type :
       per_layer_list(fields, "layer_types", layers, {"full_attention", "sliding_attention", "attention"})) {
    windows.push_back(type == "sliding_attention" ? window : 0);
    if (type == "sliding_attention" && window == 0) ++unlimited;
  }
  if (unlimited > 0) {
    fields.note(ModelNote::Kind::left_out, "layer_types",
                "layer_types: " + std::to_string(unlimited) +
                    " sliding layers have no window here, so they attend to the whole sequence");
  }
  return windows;
}

}  // namespace espalier::model
