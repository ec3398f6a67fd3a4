// SPDX-License-Identifier: Apache-2.0
// Tests configurations of Hugging Face transformers as its own classes write them. (tests/models/class_defaults.json
// states their sources.) Each has exactly the parameters of the class, which leaves out multi-token prediction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/document.h"
#include "data/source_dir.h"
#include "espalier/model.h"

namespace espalier::model {
namespace {

const base::Document& document() {
  static const base::Document read = [] {
    const std::string path = std::string(ESPALIER_SOURCE_DIR) + "/tests/models/class_defaults.json";
    const auto text = base::read_file(path);
    EXPECT_TRUE(text.ok());
    auto result = base::read_json(*text, path);
    EXPECT_TRUE(result.ok());
    return std::move(*result);
  }();
  return read;
}

const base::Node& member(const base::Node& node, const std::string& key) {
  for (const auto& [name, value] : node.members)
    if (name == key) return value;
  ADD_FAILURE() << key;
  return node;
}

TEST(ClassDefaults, HaveExactlyTheParametersOfTheirClasses) {
  std::set<std::string> types;
  for (const base::Node& row : member(document().root, "models").items) {
    const base::Node& config = member(row, "config");
    const std::string type = member(config, "model_type").text;
    const auto m = load_model(base::to_json(config), type);
    ASSERT_TRUE(m.ok()) << m.error().message();
    EXPECT_EQ(m->family, type);
    EXPECT_EQ(parameter_count(*m) - m->mtp_parameters, member(row, "parameters").integer) << type;
    EXPECT_TRUE(types.insert(type).second) << type;
    EXPECT_GT(training_flops(*m, {.main = 512, .encoder = 576, .decoder = 128}).count(), 0) << type;
  }
  EXPECT_GE(types.size(), 100u);
}

}  // namespace
}  // namespace espalier::model
