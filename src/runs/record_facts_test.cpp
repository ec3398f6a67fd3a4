// SPDX-License-Identifier: Apache-2.0
#include "runs/record_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/document.h"
#include "runs/remarks.h"

namespace espalier::runs::record_facts_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const RecordDictionary& dictionary() { return record_dictionary(); }

Node node(const std::string& json) {
  auto document = base::read_json(json, "record");
  EXPECT_TRUE(document) << document.error().message();
  return document ? document->root : Node{};
}

RunRecord record(const std::string& json) {
  auto records = read_all_run_records(json, "runs.jsonl");
  EXPECT_TRUE(records) << records.error().message();
  return records ? records->front() : RunRecord{};
}

std::vector<std::string> techniques(const std::string& json) { return published_techniques(node(json), dictionary()); }

TEST(Says, ADeniedWordIsNotSaid) {
  const auto said = [](const char* text, const char* word) { return says(text, {word}, dictionary().denied); };
  EXPECT_TRUE(said("FSDP + torch.compile; seq 8192", "torch.compile"));
  EXPECT_TRUE(said("casino LoRA", "lora"));
  EXPECT_TRUE(said("no LoRA in table 1, LoRA in table 2", "lora"));
  EXPECT_FALSE(said("explorable", "lora"));
  EXPECT_FALSE(said("kernels TE + TorchSDPA, xHSDP", "hsdp"));
}

TEST(Says, EveryDenialOfTheDictionary) {
  for (const std::string& before : dictionary().denied.before)
    EXPECT_FALSE(says("SFT, " + before + "LoRA", {"lora"}, dictionary().denied)) << before;
  for (const std::string& after : dictionary().denied.after)
    EXPECT_FALSE(says("LoRA" + after, {"lora"}, dictionary().denied)) << after;
}

// A word counts in the fields of its row alone.
TEST(PublishedTechniques, EveryWordInEachOfItsFields) {
  for (const RecordDictionary::Words& row : dictionary().techniques)
    for (const std::string& word : row.words)
      for (const char* field : {"framework", "table", "notes", "recompute", "schedule"}) {
        const bool counts = std::find(row.fields.begin(), row.fields.end(), field) != row.fields.end();
        const auto found = techniques(std::string("{\"") + field + R"(": "4 nodes, )" + word + " of step 3\"}");
        EXPECT_EQ(std::find(found.begin(), found.end(), row.technique) != found.end(), counts) << word << " in " << field;
      }
}

TEST(PublishedTechniques, SwitchesComeBeforeWords) {
  EXPECT_THAT(techniques(R"({"notes": "torch.compile", "extra": {"compile": false}})"), IsEmpty());
  EXPECT_THAT(techniques(R"({"notes": "eager", "extra": {"compile": true}})"), ElementsAre("compile"));
  EXPECT_THAT(techniques(R"({"extra": {"torch_compile": true}})"), ElementsAre("compile"));
  EXPECT_THAT(techniques(R"({"notes": "torch.compile", "extra": {"torch_compile": false}})"), IsEmpty());
  EXPECT_THAT(techniques(R"({"extra": {"act_cpu_offload": true}})"), ElementsAre("offload"));
  EXPECT_THAT(techniques(R"({"extra": {"act_cpu_offload": false}})"), IsEmpty());
}

TEST(PublishedTechniques, SwitchesOfARecipe) {
  const auto recipe = [](const std::string& members) { return techniques(R"({"extra": {"recipe": {)" + members + "}}}"); };
  EXPECT_THAT(recipe(R"("cpu_offloading_num_layers": 40)"), ElementsAre("offload"));
  EXPECT_THAT(recipe(R"("cpu_offloading_num_layers": 0)"), IsEmpty());
  for (const char* backend : {"deepep", "hybridep"})
    EXPECT_THAT(recipe(std::string(R"("moe_flex_dispatcher_backend": ")") + backend + "\""), ElementsAre("flex-dispatcher"));
  EXPECT_THAT(recipe(R"("moe_flex_dispatcher_backend": "allgather")"), IsEmpty());
  EXPECT_THAT(recipe(R"("moe_a2a_overlap": true)"), ElementsAre("overlap-experts"));
  EXPECT_THAT(recipe(R"("cuda_graph_impl": "full_iteration")"), ElementsAre("cuda-graphs", "fused-experts"));
  EXPECT_THAT(recipe(R"("cutedsl_fused_grouped_mlp": true)"), ElementsAre("fused-experts"));
  EXPECT_THAT(recipe(R"("recompute_modules": ["core_attn", "moe_act"])"), ElementsAre("recompute-modules"));
  EXPECT_THAT(recipe(R"("recompute_modules": ["core_attn"])"), IsEmpty());
}

TEST(PublishedTechniques, AllConditionsOfASwitchHold) {
  const auto graphs = [](const char* implementation, const char* scope) {
    return techniques(std::string(R"({"extra": {"recipe": {"cuda_graph_impl": ")") + implementation +
                      R"(", "cuda_graph_scope": )" + scope + "}}}");
  };
  EXPECT_THAT(graphs("transformer_engine", R"(["attn", "moe_router"])"), ElementsAre("moe-graphs"));
  EXPECT_THAT(graphs("transformer_engine", R"(["moe_router"])"), IsEmpty());
  EXPECT_THAT(graphs("transformer_engine", R"(["attn"])"), IsEmpty());
  EXPECT_THAT(graphs("local", R"(["attn", "moe_router"])"), IsEmpty());
}

TEST(PublishedTechniques, ValuesOfAnotherTypeAreNoSwitches) {
  for (const char* extra :
       {R"({"compile": "true"})", R"({"compile": 1})", R"({"compile": [true]})", R"({"act_cpu_offload": {"x": true}})",
        R"({"recipe": []})", R"({"recipe": "moe_a2a_overlap"})", R"({"recipe": {"moe_a2a_overlap": "true"}})",
        R"({"recipe": {"cpu_offloading_num_layers": "40"}})", R"({"recipe": {"cpu_offloading_num_layers": -1}})",
        R"({"recipe": {"cuda_graph_impl": ["full_iteration"]}})", R"({"recipe": {"recompute_modules": "moe_act"}})",
        R"({"recipe": {"recompute_modules": [1, {}, null, ["moe_act"]]}})", "[]", "7", "null", R"("compile")"})
    EXPECT_THAT(techniques(std::string(R"({"extra": )") + extra + "}"), IsEmpty()) << extra;
  EXPECT_THAT(techniques(R"({"notes": ["LoRA"], "table": {"LoRA": 1}, "framework": 5})"), IsEmpty());
}

TEST(StatedAdapter, RankAndTargetsInEitherNotation) {
  const auto stated = [](const std::string& lora) {
    return stated_adapter(node(R"({"extra": {"lora": )" + lora + "}}"), dictionary()).value_or(RunAdapter{});
  };
  EXPECT_EQ(stated(R"({"rank": 16, "alpha": 32, "dropout": 0.1, "targets": ["q_proj", "v_proj"]})").rank, 16);
  EXPECT_THAT(stated(R"({"rank": 16, "targets": ["c_attn"]})").targets, ElementsAre("c_attn"));
  EXPECT_THAT(stated(R"({"r": 4, "target_modules": "all-linear"})").targets, ElementsAre("all-linear"));
  EXPECT_EQ(stated(R"({"dim": 8, "target_modules": ["linear_qkv"]})").rank, 8);
  EXPECT_EQ(stated(R"({"rank": 8})").source, "");
}

TEST(StatedAdapter, HostileValuesStateNone) {
  for (const char* lora : {"null", "7", "[]", "{}", R"("all-linear")", R"({"rank": -1, "targets": [1]})",
                           R"({"rank": "16", "targets": {"q_proj": 1}})", R"({"rank": 1.5, "targets": [["q_proj"]]})"})
    EXPECT_FALSE(stated_adapter(node(std::string(R"({"extra": {"lora": )") + lora + "}}"), dictionary())) << lora;
}

TEST(AssumedAdapter, ByFrameworkWithItsSource) {
  EXPECT_THAT(assumed_adapter("NeMo AutoModel 25.11", dictionary())->targets, ElementsAre("all-linear"));
  const auto other = assumed_adapter("", dictionary());
  EXPECT_EQ(other->rank, 8);
  EXPECT_THAT(other->targets, ElementsAre("linear_qkv"));
  EXPECT_THAT(other->source, testing::HasSubstr("assumed"));
}

TEST(PublishedRelease, BeginsItsField) {
  const auto release = [](const char* json) { return published_release(node(json), dictionary()); };
  EXPECT_EQ(release(R"({"table": "26.02.01 container, Pre-Training"})"), "26.02.01");
  EXPECT_EQ(release(R"({"framework": "NeMo 24.07"})"), "24.07");
  EXPECT_EQ(release(R"({"framework": "NeMo25.09.01, Megatron-Core"})"), "25.09.01");
  for (const char* none :
       {R"({"table": "26.02 containers"})", R"({"table": "results, 26.02 container"})", R"({"table": "26 container"})",
        R"({"framework": "NeMo 2.0"})", R"({"framework": "NeMo 24.071"})", R"({"framework": "NeMo"})",
        R"({"framework": "my NeMo 24.07"})", R"({"framework": ["NeMo 24.07"]})", R"({"notes": "NeMo 24.07"})", "{}"})
    EXPECT_EQ(release(none), "") << none;
}

TEST(MemoryWords, WhatTheToolCounts) {
  const auto read = [](const char* words) { return read_memory_words(words, dictionary()); };
  EXPECT_EQ(read("nvidia-smi, max over first/last node"), MemoryKind::device);
  EXPECT_EQ(read("device"), MemoryKind::device);
  EXPECT_EQ(read("peak memory = max over ranks of max RESERVED MB/1024"), MemoryKind::reserved);
  EXPECT_EQ(read("max over ranks of torch.cuda.max_memory_allocated (GiB)"), MemoryKind::allocated);
  EXPECT_FALSE(read("as shown"));
}

TEST(MemoryWords, InTheClausesOfNotesAboutMemory) {
  const auto kind = [](const char* notes) {
    return published_memory_kind(node(std::string(R"({"notes": ")") + notes + "\"}"), dictionary());
  };
  EXPECT_EQ(kind("seq 4096; peak memory = max RESERVED over ranks"), MemoryKind::reserved);
  EXPECT_FALSE(kind("all rights reserved; peak memory as printed"));
  EXPECT_FALSE(published_memory_kind(node(R"({"notes": 5})"), dictionary()));
}

TEST(FrozenWords, TheTypeBehindThePrecision) {
  const auto read = [](const char* words) { return read_frozen_words(words, dictionary()); };
  EXPECT_EQ(read("bf16, frozen weights nf4").precision, "bf16");
  EXPECT_EQ(read("bf16, frozen weights nf4").type, FrozenType::nf4);
  EXPECT_EQ(read("FP16 (frozen base int8)").precision, "fp16");
  EXPECT_EQ(read("FP16 (frozen base int8)").type, FrozenType::int8);
  EXPECT_EQ(read("fp16, frozen weights int4 (GPTQ)").type, FrozenType::nf4);
  EXPECT_THAT(read("fp16, frozen weights int4 (GPTQ)").note, testing::HasSubstr("no int4"));
  EXPECT_EQ(read("fp16, frozen weights nf4").note, "");
  EXPECT_EQ(read("fp16, frozen weights FP6 (any)").unknown, "fp6 (any)");
  EXPECT_EQ(read("frozen weights nf4").precision, "");
  EXPECT_EQ(read("bf16, frozen weights").unknown, "frozen weights");
  EXPECT_EQ(read("bf16, frozen weights bf16").type, FrozenType::compute);
  EXPECT_EQ(read("bf16, frozen weights bf16").unknown, "");
  EXPECT_EQ(read("bf16+fp8(hybrid)").precision, "bf16+fp8(hybrid)");
}

// A field that states a fact comes before the text.
TEST(Facts, FieldsComeFirst) {
  const RunRecord listed = record(
      R"({"techniques": [], "table": "26.02 container, LoRA results", "notes": "HSDP; peak memory reserved", "extra": {"compile": true}})");
  EXPECT_FALSE(listed.techniques.lora || listed.techniques.hsdp || listed.techniques.compile);
  EXPECT_EQ(listed.release, "26.02");
  EXPECT_EQ(listed.measured.memory_kind, "reserved");
  const RunRecord stated = record(
      R"({"table": "26.02 container", "release": "26.04", "measured": {"memory_kind": "nvidia-smi"}, "notes": "peak memory reserved"})");
  EXPECT_EQ(stated.release, "26.04");
  EXPECT_EQ(stated.measured.memory_kind, "nvidia-smi");
  EXPECT_EQ(record(R"({"notes": "peak memory reserved", "extra": {"mem_kind": "allocated"}})").measured.memory_kind, "allocated");
}

TEST(Facts, AdaptersCountInAnyCase) {
  const RunRecord extra = record(R"({"techniques": [], "extra": {"lora": {"rank": 4, "targets": "all-linear"}}})");
  EXPECT_TRUE(extra.techniques.lora);
  EXPECT_EQ(extra.adapter.rank, 4);
  const RunRecord both = record(R"({"adapter": {"rank": 2, "targets": ["attn.qkv"]}, "extra": {"lora": {"rank": 4}}})");
  EXPECT_EQ(both.adapter.rank, 2);
  EXPECT_EQ(both.adapter.source, "");
  EXPECT_NE(record(R"({"techniques": ["lora"]})").adapter.source, "");
  EXPECT_FALSE(record("{}").techniques.lora);
}

// A row that is skipped for its status is not read any further.
TEST(Facts, TheStatusIsReadFirst) {
  for (const char* status : {"suspect", "duplicate", "analytic", "Incomplete_config"}) {
    const RunRecord r =
        record(std::string(R"({"id": "a", "status": ")") + status + R"(", "tp": "two", "techniques": 5, "notes": "LoRA"})");
    EXPECT_EQ(r.status, status);
    EXPECT_FALSE(r.techniques.lora);
  }
}

RC_GTEST_PROP(Published, AnyTextIsRead, (const std::string& text)) {
  Node any;
  any.kind = NodeKind::mapping;
  Node word;
  word.kind = NodeKind::string;
  word.text = text;
  for (const char* key : {"framework", "table", "notes", "recompute", "extra"}) any.members.emplace_back(key, word);
  RC_ASSERT(listed_techniques(published_techniques(any, dictionary())).unknown.empty());
  (void)published_release(any, dictionary());
  (void)published_memory_kind(any, dictionary());
  (void)read_frozen_words(text, dictionary());
  (void)read_frozen_words("bf16, frozen weights " + text, dictionary());
  RC_ASSERT(assumed_adapter(text, dictionary()).has_value());
}

}  // namespace
}  // namespace espalier::runs::record_facts_test
