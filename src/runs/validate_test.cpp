// SPDX-License-Identifier: Apache-2.0
#include "runs/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/document.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "planner/estimate.h"

namespace espalier::runs::validate_test {
namespace {

using testing::HasSubstr;

/// Returns a llama-like run with everything stated. `changes` are members that replace or add to it.
std::string line(const std::string& changes = "") {
  std::string text =
      R"j({"id": "r1", "source": "lab", "model": {"name": "llama-like", "layers": 16, "hidden": 2048, "ffn": 8192, "heads": 32, "kv_heads": 32,
          "vocab": 131072, "params": 1342177280}, "seq": 4096, "gpu": {"type": "H100", "mem_gb": 80, "count": 16, "per_node": 8},
          "interconnect": {"intra": "NVLink", "inter": "8x400 Gbps per node"}, "zero_stage": 1, "recompute": "none", "microbatch": 2,
          "global_batch": 256, "precision": "bf16 (fp32 grad accumulation)", "schedule": "1f1b", "framework": "nanotron", "status": "ok")j";
  std::erase(text, '\n');
  for (const char* field : {"tp", "pp", "dp", "sp", "measured"}) {
    if (changes.find(std::string("\"") + field + "\"") != std::string::npos) continue;
    text += std::string(", \"") + field + "\": " +
            (field == std::string("sp")         ? "false"
             : field == std::string("measured") ? R"({"iteration_s": 2.0, "peak_mem_gb": 40})"
             : field == std::string("dp")       ? "4"
                                                : "2");
  }
  return text + changes + "}\n";
}

RunRecord record(const std::string& text) {
  auto records = read_all_run_records(text, "test");
  EXPECT_TRUE(records) << records.error().message();
  return records ? records->front() : RunRecord{};
}
RunMapping mapped(const std::string& text) { return map_run(record(text), job::run_defaults()); }
std::string skipped(const std::string& text) {
  const auto mapping = mapped(text);
  const auto* skip = std::get_if<RunSkip>(&mapping);
  return skip ? skip->reason : "mapped";
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(MapRun, AFullyStatedRunBecomesAJob) {
  const auto mapping = mapped(line());
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping))
      << std::get<RunSkip>(mapping).reason << " " << std::get<RunSkip>(mapping).detail;
  const auto& run = std::get<MappedRun>(mapping);
  EXPECT_EQ(run.job.engine, "nanotron");
  // The count decides for tied embeddings, against the architecture's default.
  EXPECT_EQ(parameter_count(run.job.model) / 1'000'000, 1342);
  EXPECT_EQ(run.job.cluster.devices(), 16);
  EXPECT_EQ(run.job.training.precision, Precision::bf16);
  EXPECT_EQ(run.strategy.tp, 2);
  EXPECT_EQ(run.strategy.dp, 4);
  EXPECT_EQ(run.strategy.zero, ZeroStage::optimizer);
  EXPECT_EQ(run.strategy.shard, 4);
  EXPECT_EQ(run.schedule.stages, 2);
  EXPECT_EQ(run.schedule.microbatches, 32);  // 256 / (2 · 4)
  for (const auto& d : run.defaults) EXPECT_FALSE(d.source.empty()) << d.field;
}

// A recipe switches on options of the engine; engines without them run unchanged.
TEST(MapRun, SwitchesOfARecipeAreOptionsOfTheEngine) {
  const std::string extra = R"(, "techniques": ["flex-dispatcher", "cuda-graphs"])";
  const auto engine_of = [&](const char* framework) {
    const auto mapping = mapped(replaced(line(extra), "\"nanotron\"", framework));
    return std::holds_alternative<MappedRun>(mapping) ? std::get<MappedRun>(mapping).job.engine
                                                      : std::get<RunSkip>(mapping).reason;
  };
  EXPECT_EQ(engine_of("\"Megatron-Bridge\""), "megatron-bridge+flex-dispatcher+cuda-graphs");
  EXPECT_EQ(engine_of("\"nanotron\""), "nanotron");
}

// A published table may lack its recipe in the records. The newest recipe published for the model and the device at
// or below the release then applies.
TEST(MapRun, APublishedRecipeSaysWhatARecordDoesNot) {
  const auto engine_of = [](const std::string& rest) {
    const std::string text = replaced(replaced(line(rest), "nanotron", "Megatron-Bridge"), "llama-like", "Qwen3-235B-A22B");
    const auto mapping = mapped(replaced(text, "\"H100\"", "\"GB200\""));
    return std::holds_alternative<MappedRun>(mapping) ? std::get<MappedRun>(mapping).job.engine
                                                      : std::get<RunSkip>(mapping).reason;
  };
  EXPECT_EQ(engine_of(R"(, "release": "25.09")"), "megatron-bridge+cuda-graphs");
  EXPECT_EQ(engine_of(R"(, "release": "25.11.1")"), "megatron-bridge+flex-dispatcher+moe-graphs");
  EXPECT_EQ(engine_of(R"(, "release": "25.04")"), "megatron-bridge");  // before the first recipe
  EXPECT_EQ(engine_of(R"(, "release": "26.04")"), "megatron-bridge");  // the newest one has no options
  EXPECT_EQ(engine_of(R"(, "release": "new")"), "release unknown");
  EXPECT_EQ(engine_of(R"(, "table": "25.09 container, Pre-Training")"), "megatron-bridge+cuda-graphs");
  EXPECT_EQ(engine_of(R"(, "release": "25.09", "extra": {"recipe": {"moe_a2a_overlap": false}})"), "megatron-bridge");
}

/// Returns the mapped run of a line, or a failure with the reason.
MappedRun run_of(const std::string& text) {
  const auto mapping = mapped(text);
  if (const auto* skip = std::get_if<RunSkip>(&mapping)) ADD_FAILURE() << skip->reason << " " << skip->detail;
  return std::holds_alternative<MappedRun>(mapping) ? std::get<MappedRun>(mapping) : MappedRun{};
}

TEST(MapRun, PublishedRecipesNameOptionsOfTheirEngine) {
  for (const job::FrameworkDefault& framework : job::run_defaults().frameworks)
    for (const auto& recipe : framework.recipes)
      for (const std::string& option : recipe.options)
        EXPECT_NE(find_engine(framework.engine + "+" + option), nullptr) << framework.engine << " " << option;
}

// Tests the hosts of one source's nodes, which its records do not name.
TEST(MapRun, AHostHoldsForItsSourcesAlone) {
  const auto launch_us = [](const MappedRun& run) {
    return run.job.cluster.groups.front().device.efficiency.kernel_launch.count() * 1e6;
  };
  EXPECT_DOUBLE_EQ(launch_us(run_of(line())), 3.5);
  const MappedRun rented = run_of(replaced(line(), "\"lab\"", "\"HF Ultra-Scale Playbook figures\""));
  EXPECT_DOUBLE_EQ(launch_us(rented), 4.5);
  EXPECT_THAT(rented.job.cluster_source, HasSubstr("aws-p5"));
}

// Tests the state of nanotron's runs on one cluster: 512 devices and a pipeline. Other clusters are not in it.
TEST(MapRun, AStateHoldsForItsSourcesAlone) {
  const auto engine_of = [&](const std::string& text) {
    const auto mapping = mapped(text);
    return std::holds_alternative<MappedRun>(mapping) ? std::get<MappedRun>(mapping).job.engine
                                                      : std::get<RunSkip>(mapping).reason;
  };
  const std::string large = replaced(line(R"(, "tp": 2, "pp": 2, "dp": 128)"), "\"count\": 16", "\"count\": 512");
  EXPECT_EQ(engine_of(large), "nanotron");
  EXPECT_EQ(engine_of(replaced(large, "\"lab\"", "\"HF Ultra-Scale Playbook figures\"")), "nanotron+slow-messages");
  EXPECT_EQ(engine_of(replaced(line(), "\"lab\"", "\"HF Ultra-Scale Playbook figures\"")), "nanotron");
}

// Tests states and activations of published recipes: the moments of NeMo's fine-tuning, and blocks of Megatron-Bridge
// that wait in host memory.
TEST(MapRun, RecipesSayWhatMemoryHolds) {
  const auto memory_of = [](const std::string& text) {
    const auto mapping = mapped(text);
    EXPECT_TRUE(std::holds_alternative<MappedRun>(mapping)) << std::get<RunSkip>(mapping).reason;
    const Job& job = std::get<MappedRun>(mapping).job;
    return job.engine_model ? job.engine_model->memory : find_engine(job.engine)->memory;
  };
  const std::string nemo =
      replaced(replaced(line(R"(, "table": "Finetuning LLAMA2-70B SFT")"), "nanotron", "NeMo 24.07"), "llama-like", "Llama2-70B");
  EXPECT_EQ(memory_of(nemo).states.optimizer, 4);
  EXPECT_EQ(memory_of(nemo).states.master, 0);
  EXPECT_EQ(memory_of(replaced(nemo, "Finetuning", "Pre-training")).states.optimizer, 8);
  const auto bridge = [&](const std::string& rest) {
    const std::string text = replaced(replaced(line(rest), "nanotron", "Megatron-Bridge"), "llama-like", "Llama3-70B");
    const MappedRun run =
        std::get<MappedRun>(mapped(replaced(replaced(text, "\"H100\"", "\"GB200\""), "\"mem_gb\": 80", "\"mem_gb\": 192")));
    EXPECT_TRUE(run.strategy.offload == Offload::none || run.job.cluster.groups.front().host.known());
    return run.strategy.offload == Offload::none ? 0.0 : run.job.engine_model->memory.offloaded_activations;
  };
  EXPECT_EQ(bridge(R"(, "fsdp": true)"), 1.0);  // 20 of its 16 blocks
  EXPECT_EQ(bridge(""), 0.0);
  EXPECT_EQ(bridge(R"(, "fsdp": true, "extra": {"recipe": {"cpu_offloading_num_layers": 4}})"), 0.25);
}

// Transformer Engine of the old LTS container has no deterministic kernel of fused attention.
TEST(MapRun, DeterminismMayKeepTheScores) {
  const auto engine_of = [](const std::string& container, const std::string& flag) {
    const std::string extra = R"(, "table": "test / golden_values_)" + container +
                              R"(.json", "extra": {"args": {"--micro-batch-size": 2, "--num-layers": 16)" + flag + "}}";
    const auto mapping = mapped(replaced(line(extra), "nanotron", "Megatron-Core"));
    return std::holds_alternative<MappedRun>(mapping) ? std::get<MappedRun>(mapping).job.engine
                                                      : std::get<RunSkip>(mapping).reason;
  };
  const std::string deterministic = R"(, "--deterministic-mode": true)";
  EXPECT_EQ(engine_of("lts_dgxa100_dracooci", deterministic), "megatron-core-unfused");
  EXPECT_EQ(engine_of("lts_dgxa100_dracooci", ""), "megatron-core");
  EXPECT_EQ(engine_of("dev_dgx_h100", deterministic), "megatron-core");
}

// A quarter of the operators is recomputed: 2 of the 8 blocks of a stage.
TEST(MapRun, ShareOfRecomputedOperators) {
  const std::string aceso =
      replaced(replaced(line(R"(, "extra": {"recompute_op_fraction": 0.25})"), "\"nanotron\"", "\"Aceso\""),
               "\"zero_stage\": 1, \"recompute\": \"none\"", "\"zero_stage\": 0, \"recompute\": \"selective\"");
  const auto mapping = mapped(aceso);
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping)) << std::get<RunSkip>(mapping).reason;
  EXPECT_EQ(std::get<MappedRun>(mapping).strategy.recompute.kind, RecomputeKind::full);
  EXPECT_EQ(std::get<MappedRun>(mapping).strategy.recompute.layers, 2);
  EXPECT_EQ(skipped(replaced(aceso, "recompute_op_fraction", "something")), "recompute outside the uniform space");
}

// Bins of the samples' lengths hold 288 tokens in the mean where 512 are stated, and 128 where 128 are.
TEST(MapRun, BinnedSamples) {
  const auto tokens = [](const char* seq) {
    std::string text = replaced(line(R"(, "tp": 1, "pp": 1, "dp": 16)"), "\"nanotron\"", "\"PyTorch DDP + APEX LAMB\"");
    text = replaced(replaced(text, "\"zero_stage\": 1", "\"zero_stage\": 0"), "\"seq\": 4096", std::string("\"seq\": ") + seq);
    const auto mapping = mapped(text);
    return std::holds_alternative<MappedRun>(mapping) ? std::get<MappedRun>(mapping).job.training.sequence.main : 0;
  };
  EXPECT_EQ(tokens("512"), 288);
  EXPECT_EQ(tokens("128"), 128);
}

TEST(MapRun, TheNetworkOfTheRecordIsUsed) {
  const auto fast = mapped(line());
  const auto slow = mapped(replaced(line(), "8x400 Gbps per node", "1 x 100 Gb/s Ethernet"));
  const auto& f = std::get<MappedRun>(fast).job.cluster.inter.front();
  const auto& s = std::get<MappedRun>(slow).job.cluster.inter.front();
  EXPECT_NEAR(f.bandwidth.count() / s.bandwidth.count(), 32.0, 1e-6);  // 8 · 400 against 1 · 100
}

TEST(MapRun, SkipsSayWhy) {
  EXPECT_EQ(skipped(line(R"(, "tp": null)")), "tp missing");
  EXPECT_EQ(skipped(line(R"(, "tp": [1, 2])")), "not uniform");
  EXPECT_EQ(skipped(replaced(line(), "\"seq\": 4096", "\"seq\": null")), "seq missing");
  EXPECT_EQ(skipped(replaced(line(), "\"ok\"", "\"suspect\"")), "status suspect");
  EXPECT_EQ(skipped(replaced(line(), "llama-like", "T5-large")), "architecture not supported");
  EXPECT_EQ(skipped(replaced(replaced(line(), "llama-like", "mystery"), "\"layers\": 16", "\"layers\": null")),
            "architecture unknown");
  EXPECT_EQ(skipped(replaced(line(), "\"H100\"", "\"H900\"")), "device not in the catalogue");
  EXPECT_EQ(skipped(replaced(line(), "\"mem_gb\": 80", "\"mem_gb\": 64")), "device not in the catalogue");
  EXPECT_EQ(skipped(replaced(line(), "\"none\"", "\"every second block\"")), "recompute outside the uniform space");
  EXPECT_EQ(skipped(replaced(line(), "\"global_batch\": 256", "\"global_batch\": 255")), "rule divide-batch");
  EXPECT_EQ(skipped(line(R"(, "dp": 8)")), "rule world");
  EXPECT_EQ(skipped(replaced(line(), "\"1f1b\"", "\"interleaved-1f1b\"")), "vpp missing");
  EXPECT_EQ(skipped(replaced(line(), "bf16 (fp32 grad accumulation)", "int4")), "precision unknown");
}

TEST(MapRun, DefaultsAreUsedOnlyWithASource) {
  const auto with = mapped(replaced(line(), "\"precision\": \"bf16 (fp32 grad accumulation)\"", "\"precision\": null"));
  ASSERT_TRUE(std::holds_alternative<MappedRun>(with));
  const auto& defaults = std::get<MappedRun>(with).defaults;
  const auto it = std::find_if(defaults.begin(), defaults.end(), [](const auto& d) { return d.field == "precision"; });
  ASSERT_NE(it, defaults.end());
  EXPECT_EQ(it->value, "bf16");
  EXPECT_THAT(it->source, HasSubstr("nanotron"));
  // A framework without a default for it is skipped.
  EXPECT_EQ(skipped(replaced(replaced(line(), "\"recompute\": \"none\"", "\"recompute\": null"), "nanotron", "unheard-of")),
            "recompute missing");
}

TEST(MapRun, MegatronCommandLinesDecideWhatTheySay) {
  const std::string with = replaced(
      line(R"(, "extra": {"args": {"--num-layers": 16, "--micro-batch-size": 2, "--swiglu": true, "--normalization": "RMSNorm",
      "--position-embedding-type": "rope", "--disable-bias-linear": true, "--untie-embeddings-and-output-weights": true, "--attention-dropout": 0.0,
      "--hidden-dropout": 0.0, "--kv-channels": 64}})"),
      "nanotron", "Megatron-Core");
  std::string one_line = with;
  std::erase(one_line, '\n');
  const auto mapping = mapped(one_line);
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping)) << std::get<RunSkip>(mapping).reason;
  const auto& run = std::get<MappedRun>(mapping);
  EXPECT_EQ(run.job.engine, "megatron-core");
  EXPECT_EQ(run.memory_rank, "last");
  EXPECT_FALSE(run.job.model.tied_embeddings);
  EXPECT_EQ(skipped(replaced(one_line, "\"--swiglu\": true", "\"--mtp-num-layers\": 1")), "outside the uniform space");
  EXPECT_FALSE(run.job.engine_model->memory.keeps_score_buffer);
  const MappedRun local = run_of(replaced(one_line, "\"--swiglu\": true", "\"--transformer-impl\": \"local\""));
  EXPECT_TRUE(local.job.engine_model->memory.keeps_score_buffer);  // Megatron's own attention
}

TEST(MapRun, RecipesOfTheFrameworkComeBeforeItsDefaults) {
  const std::string silent = replaced(replaced(line(), "\"recompute\": \"none\"", "\"recompute\": null"), "nanotron", "JAX pax");
  EXPECT_EQ(run_of(replaced(silent, "llama-like", "GPT-175B")).strategy.recompute.kind, RecomputeKind::full);
  EXPECT_EQ(run_of(replaced(silent, "llama-like", "GPT-5B")).strategy.recompute.kind, RecomputeKind::selective);
  EXPECT_EQ(run_of(replaced(silent, "llama-like", "GPT-126M")).strategy.recompute.kind, RecomputeKind::none);
  EXPECT_EQ(run_of(silent).job.engine, "jax-xla-attention");
  EXPECT_EQ(run_of(replaced(silent, "bf16 (fp32 grad accumulation)", "te bf16")).job.engine, "jax");
}

// NeMo interleaves with one block per chunk. fully_shard under a pipeline gathers once. An expert-parallel dispatcher
// means expert parallelism.
TEST(MapRun, RecipesOfSchedulesAndSharding) {
  const std::string silent = replaced(line(), "\"schedule\": \"1f1b\"", "\"schedule\": null");
  EXPECT_EQ(run_of(replaced(silent, "nanotron", "NeMo 24.07")).schedule.virtual_stages, 8);
  EXPECT_EQ(run_of(replaced(silent, "nanotron", "Megatron-Core")).schedule.virtual_stages, 1);
  EXPECT_EQ(run_of(replaced(replaced(line(), "\"zero_stage\": 1", "\"zero_stage\": 3"), "nanotron", "torchtitan")).strategy.zero,
            ZeroStage::optimizer);
  EXPECT_EQ(
      run_of(replaced(replaced(line(R"(, "pp": 1, "dp": 8, "techniques": ["hsdp"])"), "\"zero_stage\": 1", "\"zero_stage\": 3"),
                      "nanotron", "FSDP"))
          .strategy.shard,
      8);
}

TEST(MapRun, WordsForRecomputation) {
  const auto kind = [](const char* word) {
    return run_of(replaced(line(), "\"none\"", std::string("\"") + word + "\"")).strategy.recompute;
  };
  EXPECT_EQ(kind("minimal_flash").kind, RecomputeKind::selective);
  EXPECT_EQ(kind("off").kind, RecomputeKind::none);
  EXPECT_EQ(kind("every 2 blocks"), (Recompute{RecomputeKind::full, 8}));
  EXPECT_EQ(kind("full").kind, RecomputeKind::full);
}

// The record names its adapters. A published model replaces dimensions that do not describe it. Compiled runs have a
// separate engine.
TEST(MapRun, AdaptersPublishedModelsAndCompiledRuns) {
  const auto adapters = [](const char* text) { return line(std::string(R"(, "techniques": ["lora"], "adapter": )") + text); };
  const Training trained = run_of(adapters(R"({"rank": 16, "targets": ["linear_qkv"]})")).job.training;
  EXPECT_EQ(trained.adapter.rank, 16);
  EXPECT_EQ(trained.adapter.targets, std::vector<std::string>{"linear_qkv"});
  EXPECT_EQ(skipped(adapters(R"({"rank": 8})")), "adapter missing");
  EXPECT_EQ(skipped(adapters(R"({"targets": ["linear_qkv"]})")), "adapter.rank missing");
  EXPECT_EQ(skipped(adapters(R"({"rank": 0, "targets": ["linear_qkv"]})")), "adapter.rank out of range");
  EXPECT_EQ(skipped(adapters(R"({"rank": 65537, "targets": ["linear_qkv"]})")), "unknown adapters");
  EXPECT_EQ(skipped(adapters(R"({"rank": 8, "targets": ["nothing"]})")), "unknown adapters");
  EXPECT_EQ(run_of(line()).job.training.adapter.rank, 0);
  const std::string deepseek =
      replaced(replaced(line(R"(, "pp": 1, "dp": 8, "ep": 8)"), "llama-like", "DeepSeek-V3"), "\"layers\": 16", "\"layers\": 61");
  EXPECT_EQ(run_of(replaced(deepseek, "nanotron", "NeMo 25.04")).strategy.ep, 8);
  EXPECT_EQ(skipped(replaced(line(), "llama-like", "DeepSeek-V3")), "model.layers differ from the published model");
  const std::string titan = replaced(line(), "nanotron", "torchtitan (FSDP2)");
  EXPECT_EQ(run_of(titan).job.engine, "torchtitan");
  EXPECT_EQ(run_of(replaced(titan, "(FSDP2)", "FSDP2 + torch.compile")).job.engine, "torchtitan-compile");
}

// 8 NICs of 50 GB/s are 8 · 400 Gb/s = 400 GB/s per node; 400 Gb/s per GPU the same; four Omni-Path links are 50
// GB/s.
TEST(MapRun, NetworksInOtherWords) {
  const auto gbytes = [](const char* words) {
    const MappedRun run = run_of(replaced(line(), "8x400 Gbps per node", words));
    return run.job.cluster.inter.empty() ? 0.0 : 8 * run.job.cluster.inter.front().bandwidth.count() / 1e9;
  };
  EXPECT_NEAR(gbytes("8x50 GB/s"), 400, 1e-9);
  EXPECT_NEAR(gbytes("RDMA 400 Gb/s per GPU"), 400, 1e-9);
  EXPECT_NEAR(gbytes("Omni-Path, 4 links per node"), 50, 1e-9);
  EXPECT_NEAR(gbytes("RoCE 1600 Gbps per node"), 200, 1e-9);
  EXPECT_EQ(skipped(replaced(line(), "8x400 Gbps per node", "1 x 53 GT/s")), "interconnect.inter unknown");
}

TEST(MapRun, SchedulesInOtherWords) {
  const auto with = [](const char* name, const char* vpp) {
    return replaced(line(std::string(R"(, "vpp": )") + vpp), "\"1f1b\"", std::string("\"") + name + "\"");
  };
  EXPECT_EQ(run_of(with("ZB-V", "2")).schedule.kind, ScheduleKind::zb_v);
  EXPECT_EQ(run_of(with("ZB-V", "2")).schedule.virtual_stages, 2);
  EXPECT_EQ(run_of(with("ZB-1p", "1")).schedule.kind, ScheduleKind::zb_h1);
  EXPECT_EQ(run_of(with("1F1B-I", "2")).schedule.kind, ScheduleKind::interleaved);
  EXPECT_EQ(run_of(with("1f1b", "2")).schedule.kind, ScheduleKind::interleaved);
  EXPECT_EQ(skipped(with("1F1B-I", "null")), "vpp missing");
  EXPECT_EQ(skipped(with("1f1b-vocab-1", "1")), "schedule unknown");
  EXPECT_EQ(skipped(with("ZB-2p", "1")), "schedule unknown");
  EXPECT_EQ(skipped(with("ZB-1p", "2")), "vpp does not fit the schedule");
  EXPECT_EQ(skipped(with("ZB-V", "4")), "vpp does not fit the schedule");
}

TEST(MapRun, WordsThatAreNotUnderstoodSkipTheRecord) {
  EXPECT_EQ(skipped(replaced(line(), "bf16 (fp32 grad accumulation)", "bf16 and mxfp6")), "precision unknown");
  EXPECT_EQ(skipped(replaced(line(), "\"none\"", "\"selective (moe_act)\"")), "mapped");
}

// A record that lists its techniques is mapped from its fields alone; that of another publisher also from its text.
TEST(MapRun, ListedTechniquesDecideNotTheText) {
  const std::string said = R"(, "table": "LoRA results", "notes": "torch.compile")";
  const auto titan_of = [](const std::string& text) { return run_of(replaced(text, "nanotron", "torchtitan (FSDP2)")); };
  EXPECT_EQ(run_of(line(said)).job.training.adapter.rank, 8);
  EXPECT_EQ(titan_of(line(said)).job.engine, "torchtitan-compile");
  EXPECT_EQ(run_of(line(said + R"(, "techniques": [])")).job.training.adapter.rank, 0);
  EXPECT_EQ(titan_of(line(said + R"(, "techniques": [])")).job.engine, "torchtitan");
  EXPECT_EQ(skipped(line(R"(, "notes": "activation CPU offload of 20 layers")")), "outside the uniform space");
  EXPECT_EQ(skipped(line(R"(, "techniques": ["offload"])")), "outside the uniform space");
  EXPECT_EQ(skipped(line(R"(, "techniques": ["lora", "galore"])")), "technique unknown");
  const std::string titan = replaced(line(R"(, "techniques": ["compile"])"), "nanotron", "torchtitan (FSDP2)");
  EXPECT_EQ(run_of(titan).job.engine, "torchtitan-compile");
}

// Adapters that no field names are those of the framework's examples, and the answer names the assumption.
TEST(MapRun, AssumedAdaptersAreNoted) {
  const auto note_of = [](const std::string& text) {
    for (const auto& note : run_of(text).defaults)
      if (note.field == "trained weights") return note.value + ": " + note.source;
    return std::string();
  };
  EXPECT_THAT(note_of(line(R"(, "techniques": ["lora"])")), testing::HasSubstr("rank 8 on linear_qkv: LoRA among"));
  EXPECT_EQ(note_of(line(R"(, "techniques": ["lora"], "extra": {"lora": {"rank": 4, "targets": ["q_proj"]}})")), "");
}

TEST(MapRun, TheTypeOfFrozenWeights) {
  const auto with = [](const char* words, const char* techniques) {
    return replaced(line(techniques), "bf16 (fp32 grad accumulation)", words);
  };
  const char* adapters = R"(, "extra": {"lora": {"rank": 16, "targets": ["q_proj", "v_proj"]}})";
  const Training trained = run_of(with("bf16, frozen weights nf4", adapters)).job.training;
  EXPECT_EQ(trained.precision, Precision::bf16);
  EXPECT_EQ(trained.adapter.base, FrozenType::nf4);
  EXPECT_EQ(run_of(with("bf16, frozen weights int8", adapters)).job.training.adapter.base, FrozenType::int8);
  EXPECT_EQ(run_of(with("bf16", adapters)).job.training.adapter.base, FrozenType::compute);
  const MappedRun gptq = run_of(with("fp16, frozen weights int4 (GPTQ)", adapters));
  EXPECT_TRUE(std::any_of(gptq.defaults.begin(), gptq.defaults.end(), [](const auto& d) { return d.field == "frozen weights"; }));
  EXPECT_EQ(skipped(with("fp16, frozen weights fp6", adapters)), "type of frozen weights unknown");
  EXPECT_EQ(skipped(with("bf16, frozen weights nf4", "")), "frozen weights without adapters");
  EXPECT_EQ(skipped(with("mxfp6, frozen weights nf4", adapters)), "precision unknown");
}

TEST(MapRun, DevicesAreWholeWords) {
  const auto device = [](const char* type, const char* gigabytes) {
    return replaced(replaced(line(), "\"H100\"", std::string("\"") + type + "\""), "\"mem_gb\": 80",
                    std::string("\"mem_gb\": ") + gigabytes);
  };
  EXPECT_EQ(skipped(device("L40", "48")), "device not in the catalogue");
  EXPECT_EQ(run_of(device("L40S", "48")).job.cluster.groups.front().device.name, "l40s");
  // A V100 on PCIe is not the module on NVLink that the catalogue has.
  EXPECT_EQ(skipped(replaced(replaced(device("V100", "32"), "bf16 (fp32 grad accumulation)", "fp16"), "\"NVLink\"", "\"PCIe\"")),
            "device not in the catalogue");
  EXPECT_EQ(run_of(device("GB300", "288")).job.cluster.groups.front().device.name, "gb300");
  EXPECT_TRUE(run_of(device("GB300", "288")).memory_known);
  EXPECT_TRUE(run_of(device("GB200", "192")).memory_known);
  // 192 GB are not the catalogue's 288, so that the time is compared but the fit is not.
  EXPECT_FALSE(run_of(device("GB300", "192")).memory_known);
}

// 16 trays of 4 fit in one rack of 18; 64 trays are 16 in each of four.
TEST(MapRun, RacksAreOccupiedBySegments) {
  const auto spans = [](const char* count, const char* dp) {
    std::string text = replaced(replaced(line(std::string(R"(, "tp": 1, "pp": 1, "dp": )") + dp), "\"H100\"", "\"GB200\""),
                                "\"mem_gb\": 80", "\"mem_gb\": 192");
    text = replaced(replaced(text, "\"count\": 16, \"per_node\": 8", std::string("\"count\": ") + count + ", \"per_node\": 4"),
                    "\"global_batch\": 256", "\"global_batch\": 512");
    std::vector<std::int64_t> out;
    for (const FabricLevel& level : run_of(text).job.cluster.levels()) out.push_back(level.span);
    return out;
  };
  EXPECT_EQ(spans("64", "64"), (std::vector<std::int64_t>{4, 64}));
  EXPECT_EQ(spans("256", "256"), (std::vector<std::int64_t>{4, 64, 256}));
}

// Sizes alone decide. GPT-2's block at h = 2048 has 12 h² + 13 h weights, ffn 8192 = 4 h. Llama's with ffn 5504 is
// gated and has no biases.
TEST(MapRun, SizesAloneAreEnough) {
  const std::string silent = replaced(line(), "\"name\": \"llama-like\", ", "");
  const MappedRun gated = run_of(silent);  // 16 gated blocks and a tied table give model.params 1,342,177,280
  EXPECT_EQ(parameter_count(gated.job.model) / 1'000'000, 1342);
  const std::string unnamed = replaced(replaced(line(), "llama-like", "our-model"), ", \"params\": 1342177280", "");
  const MappedRun gpt = run_of(unnamed);
  // 16 · (12 · 2048² + 13 · 2048) + 131072 · 2048 (tied) + 4096 · 2048 positions + 2 · 2048 of the last norm
  EXPECT_EQ(parameter_count(gpt.job.model), 16 * (12LL * 2048 * 2048 + 13 * 2048) + 131072LL * 2048 + 4096LL * 2048 + 2 * 2048);
  const MappedRun llama = run_of(replaced(unnamed, "\"ffn\": 8192", "\"ffn\": 5504"));
  // 16 · (4 · 2048² + 3 · 2048 · 5504 + 2 · 2048) + 2 · 131072 · 2048 + 2048
  EXPECT_EQ(parameter_count(llama.job.model),
            16 * (4LL * 2048 * 2048 + 3LL * 2048 * 5504 + 2 * 2048) + 2 * 131072LL * 2048 + 2048);
}

TEST(MapRun, ModelsFromAConfigFile) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "espalier_config_of_a_record";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tiny.json")
      << R"({"model_type": "gpt2", "n_layer": 16, "n_embd": 1024, "n_head": 16, "n_positions": 4096, "vocab_size": 50304})";
  const auto of = [&](const std::string& model) {
    std::string text = line();
    const std::size_t begin = text.find("\"model\": {"), end = text.find('}', begin);
    text.replace(begin, end - begin + 1, "\"model\": " + model);
    auto records = read_all_run_records(text, (folder / "runs.jsonl").string());
    EXPECT_TRUE(records) << records.error().message();
    return map_run(records->front(), job::run_defaults());
  };
  const auto mapping = of(R"({"config": "tiny.json"})");
  ASSERT_TRUE(std::holds_alternative<MappedRun>(mapping))
      << std::get<RunSkip>(mapping).reason << std::get<RunSkip>(mapping).detail;
  EXPECT_EQ(std::get<MappedRun>(mapping).job.model.blocks(), 16);
  EXPECT_EQ(std::get<RunSkip>(of(R"({"config": "none.json"})")).reason, "model.config cannot be read");
  EXPECT_EQ(std::get<RunSkip>(of(R"({"config": "tiny.json", "layers": 12})")).reason, "model.layers differ from model.config");
}

// nvidia-smi counts the allocator's segments and the context; torch's own count covers tensors.
TEST(ValidateRuns, MemoryIsComparedInTheKindThatWasMeasured) {
  const PredictFunction ten = [](const Job&, const Strategy&, const Schedule&) -> Result<Prediction> {
    Prediction p;
    p.iteration_ns = 1'000'000'000;
    p.peak_memory_bytes = 10'000'000'000;
    p.peak_memory_bytes_per_stage = {10'000'000'000, 9'000'000'000};
    p.fits = true;
    return p;
  };
  const auto bytes = [&](const char* extra) {
    const auto outcome = evaluate_run(record(replaced(line(extra), "nanotron", "Megatron-Core")), ten);
    return std::get<RunResult>(outcome).predicted_bytes.value_or(0);
  };
  const std::int64_t context = find_device("h100-sxm-80gb")->context_reserve.count();
  EXPECT_EQ(bytes(R"(, "extra": {"mem_kind": "nvidia-smi, max over nodes"})"), 9'000'000'000 + context);
  EXPECT_EQ(bytes(R"(, "extra": {"mem_kind": "max over ranks of max RESERVED MB/1024"})"), 9'000'000'000);
  EXPECT_LT(bytes(""), 9'000'000'000);
  EXPECT_EQ(bytes(R"(, "extra": {"mem_kind": "as estimated by the author"})"), 0);
}

// Memory decides how many of the 8 blocks per stage are recomputed: the run fits from 5 on.
TEST(ValidateRuns, ASubsetOfTheBlocksIsWhatMemoryRequires) {
  const PredictFunction five = [](const Job&, const Strategy& s, const Schedule&) -> Result<Prediction> {
    Prediction p;
    p.iteration_ns = 1'000'000'000 + s.recompute.layers;
    p.fits = s.recompute.layers >= 5;
    return p;
  };
  const auto outcome = evaluate_run(record(replaced(line(), "\"none\"", "\"selective (block subset)\"")), five);
  ASSERT_TRUE(std::holds_alternative<RunResult>(outcome));
  EXPECT_DOUBLE_EQ(*std::get<RunResult>(outcome).predicted_s, 1.000000005);
  // A switch for all blocks is on where the run does not fit without it.
  const std::string silent = replaced(replaced(line(R"(, "pp": 1, "dp": 8)"), "\"none\"", "null"), "nanotron", "PyTorch FSDP");
  const auto settled = settled_run(record(silent), five);
  ASSERT_TRUE(std::holds_alternative<MappedRun>(settled));
  EXPECT_EQ(std::get<MappedRun>(settled).strategy.recompute, (Recompute{RecomputeKind::full, 16}));
}

TEST(RunDefaults, EveryEntryNamesKnownDevicesAndEngines) {
  for (const auto& d : job::run_defaults().devices) {
    EXPECT_NE(find_device(d.device), nullptr) << d.device;
    EXPECT_FALSE(d.source.empty());
  }
  for (const auto& f : job::run_defaults().frameworks) {
    EXPECT_TRUE(find_engine(f.engine)) << f.engine;
    EXPECT_TRUE(f.memory_rank == "fullest" || f.memory_rank == "first" || f.memory_rank == "last") << f.memory_rank;
    EXPECT_TRUE(f.memory_kind == "allocated" || f.memory_kind == "reserved" || f.memory_kind == "device") << f.memory_kind;
    for (const auto& [field, value] : f.defaults) EXPECT_FALSE(value.source.empty()) << field;
  }
}

/// Predicts 1 s per tensor degree and 10 GB, which gives known answers for the statistics.
Result<Prediction> fake(const Job&, const Strategy& strategy, const Schedule&) {
  Prediction p;
  p.iteration_ns = std::int64_t{strategy.tp} * 1'000'000'000;
  p.peak_memory_bytes = 20'000'000'000;
  p.peak_memory_bytes_per_stage = {20'000'000'000, 10'000'000'000};
  p.fits = strategy.tp > 1;
  p.confidence.basis = "fake";
  return p;
}

RunFile three_runs() {
  std::string text = line();                                                // predicted 2 s, measured 2 s
  text += line(R"(, "tp": 1, "dp": 8, "measured": {"iteration_s": 4.0})");  // predicted 1 s, measured 4 s
  text += replaced(replaced(line(R"(, "tp": 4, "dp": 2, "measured": {})"), "\"ok\"", "\"oom\""), "r1", "r3");
  text += line(R"(, "tp": null)");
  auto records = read_run_records(text, "t");
  EXPECT_TRUE(records) << records.error().message();
  return std::move(records).value();
}

TEST(ValidateRuns, CountsErrorsFeasibilityRankingAndSkips) {
  const Validation v = validate_runs(three_runs(), fake);
  EXPECT_EQ(v.all.records, 4);
  EXPECT_EQ(v.all.evaluated, 3);
  EXPECT_EQ(v.skipped.at("tp missing"), 1);
  EXPECT_EQ(v.all.time.n, 2);
  EXPECT_DOUBLE_EQ(v.all.time.mape, (0 + 0.75) / 2);
  EXPECT_DOUBLE_EQ(v.all.time.bias, -0.375);
  EXPECT_EQ(v.all.memory.n, 1);
  EXPECT_DOUBLE_EQ(v.all.memory.mape, 1 - 20e9 / (40 * 0x1p30));  // 20 GB of the first stage against 40 GiB
  EXPECT_EQ(v.all.feasibility.true_fit, 1);
  EXPECT_EQ(v.all.feasibility.false_oom, 1);  // tp 1 ran, predicted not to fit
  EXPECT_EQ(v.all.feasibility.false_fit, 1);  // tp 4 did not run, predicted to fit
  EXPECT_EQ(v.all.ranking.groups, 1);
  EXPECT_DOUBLE_EQ(v.all.ranking.mean_top1_regret, 0.5);  // chooses the 4 s run, the other took 2 s
  EXPECT_EQ(v.by_source.at("lab").records, 4);
}

// The prediction is 1 s for tp 1 and 2 s for tp 2. The measurements for tp 1 are 4, 9, 9 s, median 9; for tp 2, 6 s.
// Counted once each, the choice of tp 1 costs 1 − 6/9. With every repeat counted, the first 4 s run would have made
// the choice look perfect.
TEST(ValidateRuns, RepeatsOfAConfigurationRankOnce) {
  std::string text = line(R"(, "measured": {"iteration_s": 6.0})");
  for (const char* seconds : {"4.0", "9.0", "9.0"})
    text += line(std::string(R"(, "tp": 1, "dp": 8, "measured": {"iteration_s": )") + seconds + "}");
  const Validation v = validate_runs(*read_run_records(text, "t"), fake);
  EXPECT_EQ(v.all.time.n, 4);
  EXPECT_EQ(v.all.ranking.groups, 1);
  EXPECT_DOUBLE_EQ(v.all.ranking.mean_top1_regret, 1 - 6.0 / 9.0);
  EXPECT_DOUBLE_EQ(v.all.ranking.kendall_tau, -1);
}

// A step of 10⁻³²⁰ s or of 10¹² s was not measured, nor was a peak of 10²¹ bytes. Before, the error of the first was
// infinite, which JSON cannot represent. Only the fourth line has a time, twice the prediction.
TEST(ValidateRuns, WhatNoMachineCanMeasureIsNotCompared) {
  std::string text;
  for (const char* measured : {R"("iteration_s": 1e-320)", R"("iteration_s": 1e12)", R"("iteration_s": 2.0, "peak_mem_gb": 1e12)",
                               R"("iteration_s": 4.0)"})
    text += line(std::string(R"(, "measured": {)") + measured + "}");
  const Validation v = validate_runs(*read_run_records(text, "t"), fake);
  EXPECT_EQ(v.all.records, 4);
  EXPECT_EQ(v.all.time.n, 2);
  EXPECT_DOUBLE_EQ(v.all.time.mape, (0 + 0.5) / 2);
  EXPECT_EQ(v.all.memory.n, 0);
  EXPECT_THROW((void)RunResult{}.memory_error(), base::InternalError);
}

TEST(ValidateRuns, LinesThatCannotBeReadAreCountedAndShown) {
  RunFile file = three_runs();
  file.unreadable.push_back({ErrorKind::bad_input, "t:9:3", "\"two\"", "a number ≥ 0", ""});
  const Validation v = validate_runs(file, fake);
  EXPECT_EQ(v.all.records, 5);
  EXPECT_EQ(v.all.evaluated, 3);
  EXPECT_EQ(v.skipped.at("line cannot be read"), 1);
  ASSERT_EQ(v.unreadable.size(), 1U);
  EXPECT_EQ(v.unreadable.front().where, "t:9:3");
}

TEST(ValidateRuns, TheRealPredictorTakesTheSameRuns) {
  const Validation v = validate_runs(three_runs(), planner::predict);
  EXPECT_EQ(v.all.evaluated, 3);
  EXPECT_GT(*v.results.front().predicted_s, 0);
  EXPECT_THAT(v.results.front().calibration, HasSubstr("h100-sxm-80gb"));
}

// Sequences packed into one sample have the framework's usual length, where it has one.
TEST(MapRun, PackedSequencesHaveTheUsualLengthOfTheFramework) {
  const auto packed = [](const std::string& text) -> std::int64_t {
    const Lengths lengths = run_of(text).job.training.lengths;
    return lengths.packing == Packing::packed ? lengths.histogram.front().tokens : 0;
  };
  const std::string nemo =
      replaced(replaced(line(R"(, "techniques": ["packed"])"), "nanotron", "NeMo 24.07"), "\"1f1b\"", "null");
  EXPECT_EQ(packed(nemo), 200);
  EXPECT_EQ(packed(replaced(nemo, "[\"packed\"]", "[]")), 0);
  EXPECT_EQ(packed(line(R"(, "techniques": ["packed"])")), 0);  // the length of nanotron's samples is unknown
}

// The head of BERT sees 15 % of 4,096 tokens.
TEST(MapRun, TheHeadOfAnEncoderSeesMaskedTokens) {
  std::string bert = replaced(
      replaced(replaced(line(R"(, "tp": 1, "pp": 1, "dp": 16)"), "nanotron", "PyTorch DDP + APEX LAMB"), "llama-like", "BERT"),
      "\"zero_stage\": 1", "\"zero_stage\": 0");
  const MappedRun run = run_of(bert);
  for (const LayerKind& kind : run.job.model.kinds)
    EXPECT_EQ(tokens_per_sample(kind, run.job.training.sequence), kind.role == LayerRole::head ? 615 : 4096);
}

}  // namespace
}  // namespace espalier::runs::validate_test
