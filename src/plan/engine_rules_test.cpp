// SPDX-License-Identifier: Apache-2.0
// Tests the catalogue of engine rules. docs/engine-rules.md has a heading for every id and its condition. Each id
// rejects a configuration that another engine accepts.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/source_dir.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "plan/engine_faults.h"
#include "plan/engine_rules.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::engine_rules_test {
namespace {

using D = Dimension;
using Sentences = std::map<std::string, std::set<std::string>>;

// ---- the page -----------------------------------------------------------------------------------------------------

struct Page {
  Sentences sentences;
  std::map<std::string, std::set<std::string>> engines;
  std::set<std::string> with_versions, with_source, written;  ///< written: ids that exports satisfy
};

void read_item(const std::string& id, const std::string& item, bool written, Page& page) {
  if (item.starts_with("Versions: ")) {
    page.with_versions.insert(id);
  } else if (item.starts_with("Source: ")) {
    page.with_source.insert(id);
  } else if (item.starts_with("Engines: ")) {
    for (std::size_t at = 9; at < item.size();) {
      const std::size_t end = item.find_first_of(",.", at);
      page.engines[id].insert(item.substr(at, end - at));
      at = end + 2;
    }
  } else if (!written) {
    page.sentences[id].insert(item);
  }
}

Page read_page() {
  std::ifstream in(std::string(ESPALIER_SOURCE_DIR) + "/docs/engine-rules.md");
  EXPECT_TRUE(in);
  Page page;
  std::string id;
  bool written = false, of_files = false;  // rules of files: src/exchange/format_rules_test.cpp
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) {
      written = line == "## Kept by what is written";
      of_files = line == "## What files cannot say";
    }
    if (of_files) continue;
    if (line.starts_with("### ")) {
      id = line.substr(4);
      if (written) page.written.insert(id);
    }
    if (line.starts_with("- ")) read_item(id, line.substr(2), written, page);
  }
  return page;
}

TEST(EngineRulePage, SaysWhatTheCodeSays) {
  const Page page = read_page();
  Sentences code;
  std::map<std::string, std::set<std::string>> engines;
  for (const EngineModel& engine : engine_catalogue())
    for (const auto& [id, sentence] : engine_rule_catalogue(engine)) {
      code[id].insert(sentence);
      engines[id].insert(engine.name);
    }
  for (const auto& [id, sentences] : code)
    EXPECT_EQ(page.sentences.contains(id) ? page.sentences.at(id) : std::set<std::string>{}, sentences) << id;
  for (const auto& [id, sentences] : page.sentences) EXPECT_TRUE(code.contains(id)) << id;
  for (const auto& [id, names] : engines) {
    if (!page.engines.contains(id)) continue;  // reported above
    EXPECT_EQ(page.engines.at(id), names) << id;
    EXPECT_TRUE(page.with_versions.contains(id)) << id;
    EXPECT_TRUE(page.with_source.contains(id)) << id;
  }
  EXPECT_EQ(page.written, (std::set<std::string>{"TT-CUDA-GRAPHS"}));
}

// ---- examples -----------------------------------------------------------------------------------------------------

struct Configuration {
  Strategy strategy;
  Schedule schedule;
};

Configuration with(std::vector<std::pair<D, std::int64_t>> values) {
  Configuration c{{}, {ScheduleKind::one_f_one_b, 1, 1, 1, 1}};
  for (const auto& [dimension, value] : values) set(dimension, value, c.strategy, c.schedule);
  return c;
}

/// Returns two ranks that split an operator in space and time.
Configuration partitioned() {
  Configuration c = with({{D::dp, 4}, {D::tp, 2}});
  c.strategy.partition = BlockPartition("attn.qkv K");
  return c;
}

/// Returns configurations of eight devices from which the examples are one or two steps away.
std::vector<Configuration> starts() {
  return {with({{D::dp, 8}}),
          with({{D::dp, 4}, {D::tp, 2}}),
          with({{D::dp, 4}, {D::tp, 2}, {D::sp, 1}}),
          with({{D::dp, 4}, {D::pp, 2}}),
          with({{D::dp, 2}, {D::pp, 4}, {D::schedule, 2}, {D::vpp, 2}}),
          with({{D::dp, 2}, {D::pp, 4}, {D::schedule, 2}, {D::vpp, 2}, {D::overlap_p2p, 1}}),
          with({{D::dp, 4}, {D::cp, 2}}),
          with({{D::dp, 4}, {D::cp, 2}, {D::zero, 3}, {D::shard, 8}}),
          with({{D::dp, 8}, {D::ep, 4}}),
          with({{D::dp, 2}, {D::cp, 2}, {D::pp, 2}}),
          with({{D::dp, 8}, {D::zero, 1}, {D::shard, 8}}),
          with({{D::dp, 8}, {D::zero, 3}, {D::shard, 8}}),
          with({{D::dp, 8}, {D::zero, 3}, {D::shard, 8}, {D::overlap_grad, 1}, {D::overlap_param, 1}}),
          with({{D::dp, 8}, {D::zero, 3}, {D::shard, 8}, {D::offload, static_cast<std::int64_t>(Offload::parameters)}}),
          with({{D::dp, 4}, {D::tp, 2}, {D::zero, 3}, {D::shard, 4}}),
          with({{D::dp, 8}, {D::ep, 4}, {D::zero, 3}, {D::shard, 8}}),
          with({{D::dp, 8}, {D::recompute, 2}, {D::recompute_layers, 8}}),
          partitioned()};
}

/// Returns the starts, and all configurations that differ from one in one value.
std::vector<Configuration> examples() {
  std::vector<Configuration> out;
  for (const Configuration& start : starts()) {
    out.push_back(start);
    for (int i = 0; i < kDimensions; ++i) {
      const auto d = static_cast<D>(i);
      const std::int64_t end = enum_size(d);
      const std::vector<std::int64_t> counts{1, 2, 3, 4, 8, 16};
      std::vector<std::int64_t> values = counts;
      if (d == D::zero) values = {0, 1, 2, 3};
      if (d != D::zero && end > 0) values.clear();
      for (std::int64_t v = 0; d != D::zero && v < end; ++v) values.push_back(v);
      for (const std::int64_t v : values) {
        out.push_back(start);
        set(d, v, out.back().strategy, out.back().schedule);
      }
    }
  }
  out.push_back(starts().front());
  out.back().strategy.recompute = {RecomputeKind::selective, 0, {RecomputeModule::mlp, RecomputeModule::act}};
  return out;
}

/// Returns models, precisions, lengths and clusters that some engine does not support.
std::vector<std::function<void(RuleFacts&)>> engine_problems() {
  return {[](RuleFacts& f) { f.family = "whisper"; },
          [](RuleFacts& f) { f.precision = Precision::tf32; },
          [](RuleFacts& f) { f.precision = Precision::fp8; },
          [](RuleFacts& f) { f.precision = Precision::nvfp4; },
          [](RuleFacts& f) { f.context_length = f.tokens - 1; },
          [](RuleFacts& f) {
            f.node_sizes = {8, 4};
          },
          [](RuleFacts& f) { f.first_blocks = 7; },
          [](RuleFacts& f) { f.adam = false; }};
}

/// Returns the problems: with or without experts, sequences that tp or cp does not divide, frozen weights
/// and packed samples.
std::vector<RuleFacts> problems(SplitPolicy policy) {
  std::vector<RuleFacts> out;
  for (const int experts : {0, 4}) {
    const Model model = plan_test::decoder({8, 8, 4, 16, 512, 1000, experts, 256});
    for (const int sequence : {64, 63, 66})
      out.push_back(rule_facts(model, plan_test::cluster(1, 8), plan_test::training(sequence, 16), policy));
    out.push_back(out[out.size() - 3]);
    out.back().freezes = true;
    out.push_back(out[out.size() - 4]);
    out.back().packs = true;
    const RuleFacts usual = out[out.size() - 5];
    for (const auto& change : engine_problems()) {
      out.push_back(usual);
      change(out.back());
    }
  }
  return out;
}

/// Returns the ids that some configuration breaks, and whether some configuration breaks none.
std::pair<std::set<std::string>, bool> seen_of(const EngineModel& engine, const std::vector<Configuration>& configurations) {
  std::set<std::string> refused;
  bool accepted = false;
  for (const RuleFacts& facts : problems(engine.split))
    for (Configuration c : configurations) {
      const std::int64_t chunks = std::int64_t{c.schedule.stages} * c.schedule.virtual_stages;
      if (chunks > 16) continue;
      c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts, c.strategy, c.schedule));
      const auto broken = engine_violations(engine, facts, c.strategy, c.schedule);
      for (const RuleViolation& v : broken) refused.insert(v.rule);
      accepted = accepted || (broken.empty() && is_legal(facts, c.strategy, c.schedule));
    }
  return {refused, accepted};
}

/// Returns whether the rule is about the values of an enum, all of which the engine supports.
bool has_all_values(const EngineModel& engine, const std::string& id) {
  const auto all = [](std::size_t values, D d) { return static_cast<std::int64_t>(values) == (d == D::zero ? 4 : enum_size(d)); };
  return (id.ends_with("-SCHEDULE") && all(engine.runs.schedules.size(), D::schedule)) ||
         (id.ends_with("-ZERO") && !id.ends_with("PP-ZERO") && !id.ends_with("OVERLAP-ZERO") &&
          all(engine.runs.zero.size(), D::zero)) ||
         (id.ends_with("-CP-KIND") && all(engine.runs.cp_kinds.size(), D::cp_kind)) ||
         (id.ends_with("-RANK-ORDER") && all(engine.runs.orders.size(), D::order));
}

/// Returns whether a rule is about whole plans: DEVICES, LAYERS, SHARES and ALL-DEVICES.
bool of_whole_plans(const std::string& id) {
  return id.ends_with("-DEVICES") || id.ends_with("-SHARES") || (id.ends_with("-LAYERS") && !id.ends_with("RECOMP-LAYERS"));
}

TEST(EngineRules, EveryIdRefusesAnExampleAndTheEngineAcceptsAnother) {
  const std::vector<Configuration> configurations = examples();
  for (const EngineModel& engine : engine_catalogue()) {
    const auto [refused, accepted] = seen_of(engine, configurations);
    EXPECT_TRUE(accepted) << engine.name;
    for (const auto& [id, sentence] : engine_rule_catalogue(engine)) {
      if (!of_whole_plans(id) && !has_all_values(engine, id)) {
        EXPECT_TRUE(refused.contains(id)) << engine.name << " " << id;
      }
    }
  }
}

TEST(EngineRules, WholePlansHaveExamplesToo) {
  const Model model = plan_test::decoder({});
  Strategy s;
  s.dp = 8;
  const Plan plan = make_uniform_plan(model, plan_test::cluster(1, 8), plan_test::training(64, 16), "generic", s,
                                      {ScheduleKind::one_f_one_b, 1, 1, 2, 1}, SplitPolicy::balanced);
  Plan turned = plan, mixed = plan;
  turned.only_pipeline().stages[0].devices = {{4, 4, 1}, {0, 4, 1}};
  Chunk& chunk = mixed.only_pipeline().stages[0].chunks[0];
  chunk.ranges.push_back(chunk.ranges[0]);
  chunk.ranges[0].last = 4;
  chunk.ranges[1].first = 5;
  chunk.ranges[1].strategy.dp = 4;
  chunk.ranges[1].strategy.tp = 2;
  chunk.ranges[1].strategy.sp = SequenceParallel::ulysses;
  Plan shared = plan, half = plan;
  shared.only_pipeline().stages[0].state_shares = {2, 1};
  half.only_pipeline().stages[0].devices = {{0, 4, 1}};
  for (const EngineModel& engine : engine_catalogue()) {
    EXPECT_TRUE(engine_plan_violations(engine, model, plan).empty()) << engine.name;
    std::set<std::string> broken;
    for (const Plan* p : {&turned, &mixed, &shared, &half})
      for (const RuleViolation& v : engine_faults(engine, model, plan_test::cluster(1, 8), plan.training, *p))
        broken.insert(v.rule);
    for (const auto& [id, sentence] : engine_rule_catalogue(engine)) {
      if (of_whole_plans(id)) {
        EXPECT_TRUE(broken.contains(id)) << engine.name << " " << id;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::plan_test::engine_rules_test
