// SPDX-License-Identifier: Apache-2.0
// Tests the assertions of frameworks about their flags. Every row of tests/assertions/flags.yaml is imported. It is
// either accepted or rejected by the assertion that it names. Every shipped assertion rejects some row.
#include "exchange/assertions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/document.h"
#include "base/format.h"
#include "data/source_dir.h"
#include "espalier/imported_configuration.h"
#include "espalier/job.h"

namespace espalier::exchange::assertions_test {
namespace {

using testing::HasSubstr;

struct Row {
  std::string format, text, refused, source;
  std::int64_t devices = 0;
};

std::string text_of(const base::Node& row, const char* key) {
  const base::Node* node = row.find(key);
  return node == nullptr ? "" : node->text;
}

std::vector<Row> rows() {
  const std::string path = std::string(ESPALIER_SOURCE_DIR) + "/tests/assertions/flags.yaml";
  const auto document = base::read_yaml(base::read_file(path).value(), path);
  EXPECT_TRUE(document) << document.error().message();
  std::vector<Row> out;
  for (const base::Node& row : document->root.find("rows")->items) {
    Row r{"deepspeed", text_of(row, "json"), text_of(row, "refused"), text_of(row, "source"), 0};
    r.devices = std::stoll(text_of(row, "devices"));
    if (const std::string base = text_of(row, "base"); !base.empty()) {
      r.format = base == "titan" ? "torchtitan" : "megatron-args";
      r.text = text_of(*document->root.find("bases"), base.c_str());
      const std::string without = text_of(row, "without");
      if (const std::size_t at = r.text.find(without); !without.empty() && at != std::string::npos)
        r.text.erase(at, without.size());
      r.text += " " + text_of(row, "flags");
    }
    out.push_back(std::move(r));
  }
  return out;
}

ConfigurationRequest request_of(const Row& row) {
  ConfigurationRequest request;
  request.name = "flags";
  request.text = row.text;
  request.devices = row.devices;
  if (row.format == "deepspeed") request.sequence_length = 4096;
  return request;
}

std::string cluster_of(std::int64_t devices) {
  const std::int64_t each = devices % 8 == 0 ? 8 : 1;
  return cat("{nodes: ", devices / each, ", devices_per_node: ", each, ", device: h100-sxm-80gb}");
}

/// Returns the plan of a configuration whose flags describe the model.
Result<Plan> plan_of_flags(const Row& row, const ImportedConfiguration& c) {
  const auto job = load_job(
      cat("model: ", c.model, "\ncluster: ", cluster_of(row.devices), "\ntraining: {sequence_length: ", c.sequence_length,
          ", global_batch: ", c.global_batch, ", precision: ", to_string(c.precision), "}\nengine: ", c.engine, "\n"),
      "flags", ".", {});
  if (!job) return job.error();
  return plan_of(*job, c);
}

TEST(Assertions, EveryRowIsRefusedByItsNameOrTaken) {
  int refused = 0, taken = 0;
  for (const Row& row : rows()) {
    const auto read = find_configuration_format(row.format)->read(request_of(row));
    if (!row.refused.empty()) {
      ++refused;
      ASSERT_FALSE(read) << row.text;
      EXPECT_EQ(read.error().kind, ErrorKind::check_failed) << row.text;
      EXPECT_THAT(read.error().found, testing::ContainsRegex(row.refused + "(;|$)")) << row.text;
      EXPECT_THAT(read.error().expected, HasSubstr(row.source)) << row.text;
      continue;
    }
    ++taken;
    EXPECT_TRUE(read) << row.text << ": " << (read ? "" : read.error().message());
    if (!read || row.format != "megatron-args") continue;
    const auto plan = plan_of_flags(row, *read);
    EXPECT_TRUE(plan) << row.text << ": " << (plan ? "" : plan.error().message());
  }
  EXPECT_GE(refused, 60);
  EXPECT_GE(taken, 60);
}

TEST(Assertions, EveryOneRefusesARow) {
  const std::vector<Row> all = rows();
  for (const char* format : {"megatron-args", "torchtitan", "deepspeed"}) {
    std::set<std::string> ids, seen;
    for (const Assertion& rule : assertion_table(format).assertions) ids.insert(rule.id);
    EXPECT_FALSE(ids.empty()) << format;
    for (const Row& row : all)
      if (row.format == format && !row.refused.empty()) seen.insert(row.refused);
    EXPECT_EQ(seen, ids) << format;
  }
}

/// Returns a request for a file on eight devices.
ConfigurationRequest on_eight(std::vector<std::string> ignored = {}) {
  ConfigurationRequest request;
  request.name = "f";
  request.devices = 8;
  request.ignored = std::move(ignored);
  return request;
}

AssertionTable table_of(const std::string& rows) {
  const auto read = read_assertions(
      "schema: espalier.assertions/1\nformats:\n  - format: megatron-args\n    version: X 1\n    defaults: {pp: 1}\n    derived: "
      "{all: "
      "tp * pp}\n    assertions:\n" +
          rows,
      "x");
  EXPECT_TRUE(read) << (read ? "" : read.error().message());
  return read->front();
}

// Eight devices with tp 3 give 8 mod (3 · 1) = 2.
TEST(Assertions, TermsAreArithmetic) {
  const AssertionTable table =
      table_of("      - {id: W, says: divides, when: [], needs: [world_size % all = 0], source: \"x.py:1\", hint: h}\n");
  EXPECT_TRUE(broken_assertions(table, on_eight(), {{"tp", "4", 1, 0}}).ok());
  const auto broken = broken_assertions(table, on_eight(), {{"tp", "3", 1, 0}});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().found, "settings that violate W");
  EXPECT_EQ(broken.error().expected, "what X 1 asserts: divides (x.py:1)");
  EXPECT_EQ(broken.error().hint, "h");
  // tp is unknown and decides nothing.
  EXPECT_TRUE(broken_assertions(table, on_eight(), {}).ok());
  EXPECT_TRUE(broken_assertions(table, on_eight({"tp"}), {{"tp", "3", 1, 0}}).ok());  // ignored
}

// 24 heads on eight devices: tp 3 divides the heads and not the devices, tp 5 neither.
TEST(Assertions, DegreesHaveNearestValues) {
  const AssertionTable table = table_of(
      "      - {id: H, says: divides, adjust: tp, when: [], needs: [heads % tp = 0, tp % heads = 0], source: \"x.py:1\"}\n");
  const auto hint = [&](const char* heads, const char* tp) {
    const auto broken = broken_assertions(table, on_eight(), {{"heads", heads, 1, 0}, {"tp", tp, 1, 0}});
    return broken.ok() ? "none" : broken.error().hint;
  };
  EXPECT_EQ(hint("24", "3"), "none");
  EXPECT_EQ(hint("24", "5"), "--tp 4 or 8 would do");
  EXPECT_EQ(hint("7", "16"), "--tp 1 would do");
  EXPECT_EQ(hint("2", "3"), "--tp 2 or 4 would do");
}

TEST(Assertions, FlagsAreOnOrOff) {
  const AssertionTable table = table_of("      - {id: A, says: a, when: [a, \"!b\"], needs: [c, kind = full], source: s}\n");
  const auto broken = [&](std::vector<Setting> settings) { return !broken_assertions(table, on_eight(), settings).ok(); };
  EXPECT_TRUE(broken({{"a", "True", 1}, {"kind", "part", 2}}));
  EXPECT_FALSE(broken({{"a", "True", 1}}));  // kind is unknown
  EXPECT_FALSE(broken({{"a", "False", 1}, {"kind", "part", 2}}));
  EXPECT_FALSE(broken({{"a", "True", 1}, {"b", "True", 1}, {"kind", "part", 2}}));
  EXPECT_FALSE(broken({{"a", "True", 1}, {"kind", "full", 2}}));
  EXPECT_FALSE(broken({{"a", "True", 1}, {"c", "True", 1}, {"kind", "part", 2}}));
  EXPECT_TRUE(broken({{"a", "True", 1}, {"c", "True", 1}, {"no_c", "True", 2}, {"kind", "part", 2}}));
}

TEST(Assertions, BadTablesAreNamed) {
  const auto read = read_assertions(
      "schema: espalier.assertions/1\nformats:\n  - {format: megatron-args, version: X 1, assertions: [{id: A, says: s}]}\n",
      "x.yaml");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message(), HasSubstr("source"));
}

}  // namespace
}  // namespace espalier::exchange::assertions_test
