// SPDX-License-Identifier: Apache-2.0
#include "runs/remarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runs/record_words.h"

namespace espalier::runs::remarks_test {
namespace {

RunRecord record(const std::string& line) {
  auto records = read_all_run_records(line, "runs.jsonl");
  EXPECT_TRUE(records) << records.error().message();
  return records ? records->front() : RunRecord{};
}

// The list of a record is complete: its text is for people.
TEST(Techniques, AListedRecordIsNotReadForWords) {
  const RunTechniques none =
      record(R"({"techniques": [], "table": "LoRA results", "notes": "DeepEP, HSDP, CPU offload, torch.compile"})").techniques;
  EXPECT_FALSE(none.lora || none.deepep || none.hsdp || none.offload || none.compile);
  const RunTechniques two = record(R"({"techniques": ["LoRA", "hsdp"], "extra": {"torch_compile": true}})").techniques;
  EXPECT_TRUE(two.lora && two.hsdp);
  EXPECT_FALSE(two.compile);
  EXPECT_EQ(two.unknown, "");
}

TEST(Techniques, AListedRecordSaysItsMemoryKindItself) {
  const char* words = R"("notes": "peak memory = max RESERVED")";
  EXPECT_EQ(record(std::string("{") + words + "}").measured.memory_kind, "reserved");
  EXPECT_EQ(record(std::string(R"({"techniques": [], )") + words + "}").measured.memory_kind, "");
}

TEST(Techniques, OptionsOfEngines) {
  using testing::ElementsAre;
  const char* recipe =
      R"({"extra": {"recipe": {"moe_flex_dispatcher_backend": "deepep", "moe_a2a_overlap": true, "cuda_graph_impl": "transformer_engine",
      "cuda_graph_scope": ["attn", "moe_router"]}}})";
  std::string one_line = recipe;
  std::erase(one_line, '\n');
  EXPECT_THAT(record(one_line).techniques.options, ElementsAre("flex-dispatcher", "overlap-experts", "moe-graphs"));
  EXPECT_THAT(record(R"({"extra": {"recipe": {"cuda_graph_impl": "full_iteration"}}})").techniques.options,
              ElementsAre("cuda-graphs", "fused-experts"));
  EXPECT_THAT(record(R"({"extra": {"recipe": {"cutedsl_fused_grouped_mlp": true, "recompute_modules": ["mlp", "mla_up_proj"]}}})")
                  .techniques.options,
              ElementsAre("fused-experts"));
  EXPECT_EQ(record(R"({"extra": {"recipe": {"recompute_modules": ["mlp", "mla_up_proj"]}}})").recompute,
            "selective:mlp,mla_up_proj");
  EXPECT_EQ(record(R"({"recompute": "full", "extra": {"recipe": {"recompute_modules": ["mlp"]}}})").recompute, "full");
  for (const char* scope : {R"(["attn"])", R"(["moe_router", "moe_preprocess"])"}) {
    const std::string text =
        std::string(R"({"extra": {"recipe": {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": )") + scope + "}}}";
    EXPECT_TRUE(record(text.c_str()).techniques.options.empty()) << scope;
  }
  EXPECT_TRUE(record(R"j({"notes": "SFT (SQuAD packed to 4096)"})j").techniques.packed);
  EXPECT_THAT(listed_techniques({"lora", "moe-graphs"}).options, ElementsAre("moe-graphs"));
  EXPECT_EQ(listed_techniques({"lora", "moe-graphs"}).unknown, "");
}

TEST(Techniques, NamesThatAreNotKnownAreKept) { EXPECT_EQ(listed_techniques({"lora", "galore", "dora"}).unknown, "galore"); }

TEST(Techniques, AListIsAList) {
  for (const char* wrong : {R"({"techniques": "lora"})", R"({"techniques": [1]})", R"({"techniques": {"lora": true}})"}) {
    const auto file = read_run_records(wrong, "runs.jsonl");
    ASSERT_TRUE(file);
    EXPECT_EQ(file->unreadable.size(), 1u) << wrong;
  }
}

// A published record has no list. Each name counts only in the fields of the table in remarks.h.
TEST(Techniques, PublishedRecordsAreReadForNames) {
  EXPECT_TRUE(record(R"({"table": "LoRA results"})").techniques.lora);
  EXPECT_TRUE(record(R"({"framework": "PyTorch FSDP1 + torch.compile"})").techniques.compile);
  EXPECT_TRUE(record(R"({"notes": "kernels TE + DeepEP"})").techniques.deepep);
  EXPECT_FALSE(record(R"({"table": "DeepEP"})").techniques.deepep);
  EXPECT_TRUE(record(R"({"recompute": "full, offloaded"})").techniques.offload);
  EXPECT_FALSE(record(R"({"table": "fine_grained_offloading"})").techniques.offload);
}

TEST(Techniques, TypedSwitchesComeBeforeWords) {
  EXPECT_FALSE(record(R"({"notes": "torch.compile", "extra": {"compile": false}})").techniques.compile);
  EXPECT_TRUE(record(R"({"extra": {"recipe": {"cpu_offloading_num_layers": 20}}})").techniques.offload);
  EXPECT_FALSE(record(R"({"extra": {"recipe": {"cpu_offloading_num_layers": 0}}})").techniques.offload);
}

// "TorchSDPA" holds the letters of HSDP, "exploration" those of LoRA.
TEST(Techniques, ANameBeginsAWord) {
  EXPECT_FALSE(record(R"({"notes": "kernels TE + DeepEP + TorchSDPA"})").techniques.hsdp);
  EXPECT_TRUE(record(R"({"notes": "PyTorch HSDP"})").techniques.hsdp);
  EXPECT_FALSE(record(R"({"notes": "exploration of batch sizes"})").techniques.lora);
  EXPECT_TRUE(record(R"({"notes": "QLoRA"})").techniques.lora);
  EXPECT_TRUE(says("recompile", {"compile"}));
  EXPECT_FALSE(says("recompile", {"compile"}, Begins::word));
}

TEST(Techniques, ClausesThatSpeakOfMemory) {
  EXPECT_EQ(said_of_memory("time is a median; peak memory = max reserved. seed 1"), " peak memory = max reserved");
  EXPECT_EQ(said_of_memory("all reserved seats"), "");
}

}  // namespace
}  // namespace espalier::runs::remarks_test
