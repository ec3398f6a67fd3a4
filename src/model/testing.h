// SPDX-License-Identifier: Apache-2.0
// Provides helpers for this module's tests: loading a text, finding kinds and operators by name.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "espalier/model.h"

namespace espalier::model::testing {

inline Model load(const std::string& json) {
  auto result = load_model(json, "test.json");
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() ? *result : Model{};
}

/// Returns the error's full message; empty (and a failure) if the text was accepted.
inline std::string error_of(const std::string& json) {
  const auto result = load_model(json, "test.json");
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error().message();
}

inline const LayerKind& kind(const Model& model, const std::string& name) {
  const auto at = std::find_if(model.kinds.begin(), model.kinds.end(), [&](const LayerKind& k) { return k.name == name; });
  if (at != model.kinds.end()) return *at;
  ADD_FAILURE() << "no layer kind " << name;
  static const LayerKind none;
  return none;
}

inline const Operator& op(const LayerKind& layer, const std::string& name) {
  const auto at = std::find_if(layer.operators.begin(), layer.operators.end(), [&](const Operator& o) { return o.name == name; });
  if (at != layer.operators.end()) return *at;
  ADD_FAILURE() << "no operator " << name << " in " << layer.name;
  static const Operator none;
  return none;
}

inline std::vector<std::string> names(const LayerKind& layer) {
  std::vector<std::string> result;
  for (const Operator& o : layer.operators) result.push_back(o.name);
  return result;
}

/// Returns the names of the layers in pipeline order.
inline std::vector<std::string> order(const Model& model) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < model.layers.size(); ++i) result.push_back(model.layer(i).name);
  return result;
}

inline bool noted(const Model& model, ModelNote::Kind note, const std::string& key) {
  return std::any_of(model.notes.begin(), model.notes.end(), [&](const ModelNote& n) { return n.kind == note && n.key == key; });
}

}  // namespace espalier::model::testing
