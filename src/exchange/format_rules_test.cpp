// SPDX-License-Identifier: Apache-2.0
// Tests rules that keep formats from writing plans. The rules of the engine come first, then those of the format
// alone. Every id accepts one plan, rejects another, and appears in docs/engine-rules.md with its demand. Features
// that can be left out are left out and listed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "data/source_dir.h"
#include "espalier/exchange.h"
#include "espalier/planner.h"

namespace espalier::exchange::format_rules_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  Job job;
  Plan plan;
};

Job job_of(const std::string& engine) {
  auto job = load_job(
      std::string("model: ") + ESPALIER_SOURCE_DIR +
          "/models/llama-2-7b/config.json\ncluster: {nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}\nengine: " + engine +
          "\ntraining: {sequence_length: 1024, global_batch: 64, precision: bf16}\n",
      "test", ".", {});
  EXPECT_TRUE(job);
  return std::move(*job);
}

/// Returns a plan on sixteen devices that the engine of every format runs, with a ZeRO stage that the engine has.
/// With `stages` it is a pipeline of two.
Case sound(bool stages, ZeroStage zero = ZeroStage::parameters) {
  Job job = job_of("generic");
  Strategy s;
  s.dp = stages ? 8 : 16;
  s.zero = zero;
  s.shard = s.dp;
  s.overlap = {true, true, stages && zero != ZeroStage::optimizer, false};
  const auto result = estimate(job, s, {ScheduleKind::one_f_one_b, stages ? 2 : 1, 1, stages ? 8 : 4, 1});
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return {std::move(job), result->plan};
}

Case sound_for(const Exporter& format, bool stages) {
  return sound(stages, format.engine.starts_with("megatron") ? ZeroStage::optimizer : ZeroStage::parameters);
}

/// Changes every range, so that the plan stays uniform.
void in_all(Plan& plan, const std::function<void(Strategy&)>& change) {
  for (Stage& stage : plan.only_pipeline().stages)
    for (Chunk& chunk : stage.chunks)
      for (LayerRange& range : chunk.ranges) change(range.strategy);
}

using Break = std::function<void(Case&)>;
/// Returns, by id, changes that break only this rule and none of the engine. The id has no prefix where several
/// formats share it.
std::map<std::string, Break> breaks() {
  std::map<std::string, Break> out;
  const auto of_fsdp1 = [](const std::function<void(Strategy&)>& change) {
    return [change](Case& c) {
      c.plan.engine = "fsdp1";
      in_all(c.plan, change);
    };
  };
  out["ONE-PIPELINE"] = [](Case& c) { c.plan.pipelines.push_back(c.plan.pipelines[0]); };
  out["STAGES"] = [](Case& c) { c.plan.only_pipeline().schedule.stages = 1; };
  out["SELECTIVE"] = of_fsdp1([](Strategy& s) { s.recompute.kind = RecomputeKind::selective; });
  out["RECOMP-ALL"] = of_fsdp1([](Strategy& s) { s.recompute = {RecomputeKind::full, 3, {}}; });
  out["NODE-SHARDS"] = of_fsdp1([](Strategy& s) { s.shard = 4; });
  out["OPTIONS"] = [](Case& c) { c.plan.engine = "megatron-core+fused-experts"; };
  out["NO-OPTIONS"] = [](Case& c) { c.plan.engine = "megatron-bridge+bf16-moments"; };
  // No weights of the ends give chunks of 5, 8, 3 and 16 blocks.
  out["CUT"] = [](Case& c) {
    Pipeline& pipeline = c.plan.only_pipeline();
    pipeline.schedule.kind = ScheduleKind::interleaved;
    pipeline.schedule.virtual_stages = 2;
    const std::int32_t first[] = {0, 6, 14, 17}, last[] = {5, 13, 16, 33};
    const Strategy s = c.plan.strategy();
    for (Stage& stage : pipeline.stages) stage.chunks.assign(2, Chunk{});
    for (std::size_t k = 0; k < 4; ++k) pipeline.stages[k % 2].chunks[k / 2].ranges = {{first[k], last[k], s}};
  };
  return out;
}

bool of_pipelines(const std::string& format, const std::string& name) { return format == "schedule-csv" || name == "CUT"; }

/// Tests changes that break a rule of the engine, in every format that writes a framework's files.
TEST(FormatRules, TheEngineIsAskedFirst) {
  for (const Exporter& format : exporters()) {
    if (format.engine.empty()) continue;
    Case c = sound_for(format, false);
    ASSERT_FALSE(format.fault(c.job, c.plan)) << format.name << ": " << format.fault(c.job, c.plan)->found;
    in_all(c.plan, [](Strategy& s) { s.partition = BlockPartition("attn.qkv K"); });
    const auto fault = format.fault(c.job, c.plan);
    ASSERT_TRUE(fault) << format.name;
    EXPECT_THAT(fault->id, testing::EndsWith("-NO-PARTITION"));
    EXPECT_FALSE(format.write({&c.job, &c.plan}));
    c = sound_for(format, false);
    auto& ranges = c.plan.only_pipeline().stages[0].chunks[0].ranges;
    ranges.push_back(ranges[0]);
    ranges[0].last = 3;
    ranges[1].first = 4;
    ranges[1].strategy.tp = 2;
    ranges[1].strategy.dp = 8;
    ranges[1].strategy.shard = 8;
    EXPECT_TRUE(format.fault(c.job, c.plan) || format.name == "galvatron") << format.name;
  }
}

TEST(FormatRules, ACutNamesTheNearestEvenOnes) {
  const Exporter& torchtitan = *find_exporter("torchtitan");
  Case c = sound_for(torchtitan, true);
  breaks().at("CUT")(c);
  const auto fault = torchtitan.fault(c.job, c.plan);
  ASSERT_TRUE(fault);
  EXPECT_THAT(fault->hint, testing::StartsWith("with --set search.fix.pp=2 the 32 blocks can be cut evenly"));
}

TEST(FormatRules, EveryIdRefusesAPlanWhereAnotherIsAccepted) {
  const auto all = breaks();
  std::size_t seen = 0;
  for (const Exporter& format : exporters()) {
    if (format.rules == nullptr) continue;
    for (const FormatRule& rule : format.rules()) {
      const std::string name = rule.id.substr(rule.id.find('-') + 1);
      const auto at = all.find(name);
      ASSERT_NE(at, all.end()) << rule.id;
      Case c = sound_for(format, of_pipelines(format.name, name));
      EXPECT_FALSE(format.fault(c.job, c.plan)) << format.name << ": " << format.fault(c.job, c.plan)->id;
      at->second(c);
      const auto fault = format.fault(c.job, c.plan);
      ASSERT_TRUE(fault) << format.name << " " << rule.id;
      EXPECT_EQ(fault->id, rule.id) << format.name;
      EXPECT_FALSE(fault->found.empty() || fault->expected.empty());
      const Error error = to_error(*fault, format);
      EXPECT_EQ(error.kind, ErrorKind::check_failed);
      EXPECT_THAT(error.found, HasSubstr(rule.id));
      ++seen;
    }
  }
  EXPECT_GE(seen, 8U);
}

TEST(FormatRules, ThePageHasAHeadingForEveryId) {
  std::ifstream in(std::string(ESPALIER_SOURCE_DIR) + "/docs/engine-rules.md");
  std::map<std::string, std::set<std::string>> page, code;
  std::string id;
  bool files = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) files = line == "## What files cannot say";
    if (files && line.starts_with("### ")) id = line.substr(4);
    if (files && line.starts_with("- ") && !line.starts_with("- Engines: ")) page[id].insert(line.substr(2));
  }
  for (const Exporter& format : exporters())
    if (format.rules != nullptr)
      for (const FormatRule& rule : format.rules()) code[rule.id].insert(rule.sentence);
  EXPECT_EQ(page, code);
}

// ---- closest plans ------------------------------------------------------------------------------------------------

TEST(ClosestPlan, OfAPlanThatCanBeSaidIsThatPlan) {
  const Case c = sound(false);
  const auto closest = closest_plan(*find_exporter("accelerate-fsdp"), c.job, c.plan);
  ASSERT_TRUE(closest);
  EXPECT_EQ(closest->plan, c.plan);
  EXPECT_THAT(closest->lost, IsEmpty());
}

TEST(ClosestPlan, ChangesOneValueAndSaysSo) {
  Case c = sound(false);
  in_all(c.plan, [](Strategy& s) { s.recompute.kind = RecomputeKind::selective; });
  const auto closest = closest_plan(*find_exporter("accelerate-fsdp"), c.job, c.plan);
  ASSERT_TRUE(closest) << closest.error().message();
  EXPECT_THAT(closest->lost, ElementsAre(HasSubstr("; written with recompute full")));
  EXPECT_EQ(closest->plan.strategy().recompute.layers, 32);
  const auto text = find_exporter("accelerate-fsdp")->write({&c.job, &closest->plan, std::nullopt, closest->lost});
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("\n# not as planned: "));
}

TEST(ClosestPlan, OneStrategyForLayersOfSeveral) {
  Case c = sound(false);
  auto& ranges = c.plan.only_pipeline().stages[0].chunks[0].ranges;
  ranges.push_back(ranges[0]);
  ranges[0].last = 3;
  ranges[1].first = 4;
  ranges[1].strategy.recompute = {RecomputeKind::full, 1, {}};
  const auto closest = closest_plan(*find_exporter("deepspeed"), c.job, c.plan);
  ASSERT_TRUE(closest) << closest.error().message();
  EXPECT_TRUE(closest->plan.uniform());
  ASSERT_FALSE(closest->lost.empty());
  EXPECT_THAT(closest->lost.front(), HasSubstr("for all layers"));
}

TEST(ClosestPlan, DegreesAreNeverChanged) {
  const Case c = sound(true);
  const auto closest = closest_plan(*find_exporter("accelerate-fsdp"), c.job, c.plan);
  ASSERT_FALSE(closest);
  EXPECT_EQ(closest.error().kind, ErrorKind::check_failed);
  EXPECT_THAT(closest.error().found, HasSubstr("FSDP-NO-PP: "));
  Case several = c;
  several.plan.pipelines.push_back(several.plan.pipelines[0]);
  EXPECT_FALSE(closest_plan(*find_exporter("megatron-core"), several.job, several.plan));
}

// Megatron-LM has ZeRO-1 at most, so that ZeRO-3 over all ranks becomes the nearest stage that it has.
TEST(ClosestPlan, TheNearestZeroStage) {
  const Case c = sound(false);
  const auto closest = closest_plan(*find_exporter("megatron-core"), c.job, c.plan);
  ASSERT_TRUE(closest) << closest.error().message();
  EXPECT_EQ(closest->plan.strategy().zero, ZeroStage::optimizer);
  EXPECT_EQ(closest->plan.strategy().shard, 16);
  EXPECT_THAT(closest->lost, ElementsAre(HasSubstr("MEG-ZERO: ")));
}

// ---- recipes ------------------------------------------------------------------------------------------------------

TEST(Recipes, TorchtitanSaysEveryStage) {
  const Case c = sound(true);
  const auto text = find_exporter("torchtitan-recipe")->write({&c.job, &c.plan});
  ASSERT_TRUE(text);
  for (const char* line :
       {"    config.parallelism.pipeline_parallel_degree = 2\n", "    config.parallelism.pipeline_parallel_schedule = '1F1B'\n",
        "[['tok_embeddings', 'layers.0', ", "'layers.31', 'norm', 'lm_head']]\n", "    config.compile.enable = False\n",
        "    config.training.disable_cuda_graphs = True", "    config.activation_checkpoint = None\n"})
    EXPECT_THAT(*text, HasSubstr(line));
}

TEST(Recipes, BridgeSetsWhatThePlanDecides) {
  const Case c = sound(true, ZeroStage::optimizer);
  const auto text = find_exporter("megatron-bridge")->write({&c.job, &c.plan});
  ASSERT_TRUE(text);
  for (const char* line : {"    cfg.model.pipeline_model_parallel_size = 2\n", "    cfg.ddp.use_distributed_optimizer = True",
                           "    cfg.train.micro_batch_size = 1\n", "    cfg.model.pipeline_dtype = torch.bfloat16\n",
                           "    cfg.model.recompute_granularity = None\n", "def planned(cfg):\n"})
    EXPECT_THAT(*text, HasSubstr(line));
}

// Megatron's own validation rejects offload without the optimizer that keeps types apart (validate_args of core
// 0.19).
TEST(Recipes, MegatronOffloadsAndItsEngineHasOptions) {
  Case c = sound(false);
  in_all(c.plan, [](Strategy& s) {
    s.zero = ZeroStage::optimizer;
    s.offload = Offload::optimizer;
  });
  c.plan.engine = "megatron-core+cuda-graphs+bf16-moments";
  const Exporter& format = *find_exporter("megatron-core");
  const auto text = format.write({&c.job, &c.plan});
  ASSERT_TRUE(text);
  for (const char* flag : {"--optimizer-cpu-offload", "--use-distributed-optimizer", "--cuda-graph-impl full_iteration",
                           "--no-check-for-nan-in-loss-and-grad", "--exp-avg-dtype bf16", "--exp-avg-sq-dtype bf16"})
    EXPECT_THAT(*text, HasSubstr(flag));
  const std::size_t aware = text->find("--use-precision-aware-optimizer");
  ASSERT_NE(aware, std::string::npos);
  EXPECT_EQ(text->find("--use-precision-aware-optimizer", aware + 1), std::string::npos);  // only once
  const auto recipe = find_exporter("megatron-bridge")->write({&c.job, &c.plan});
  EXPECT_FALSE(recipe);
  c.plan.engine = "megatron-bridge";
  const auto plain = find_exporter("megatron-bridge")->write({&c.job, &c.plan});
  ASSERT_TRUE(plain);
  EXPECT_THAT(*plain, HasSubstr("cfg.optimizer.use_precision_aware_optimizer = True"));
}

TEST(Recipes, FilesAreMadeOnEveryNode) {
  const Case c = sound(false);
  for (const char* name : {"accelerate-fsdp", "deepspeed", "torchtitan-recipe"}) {
    const Exporter& format = *find_exporter(name);
    EXPECT_EQ(format.launchers.size(), 4U) << name;
    for (const Launcher launcher : format.launchers) {
      const auto text = format.write({&c.job, &c.plan, launcher});
      ASSERT_TRUE(text) << name << " " << to_string(launcher) << text.error().message();
      EXPECT_THAT(*text, HasSubstr("mktemp -d)/")) << name;
    }
  }
}

}  // namespace
}  // namespace espalier::exchange::format_rules_test
