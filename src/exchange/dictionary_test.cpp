// SPDX-License-Identifier: Apache-2.0
// Checks that an import treats every key as its dictionary row states, and that contradictory tables are rejected.
#include "exchange/dictionary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "espalier/imported_configuration.h"

namespace espalier::exchange::dictionary_test {
namespace {

using testing::HasSubstr;
using Verdict = KeyRow::Verdict;

constexpr const char* kFlags =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --vocab-size 1000 --bf16 ";

/// Returns the verdict of an import on one flag with a value that no row calls harmless: "refused" or the kind.
std::string kind_of(const KeyRow& row) {
  std::string text = kFlags;
  const std::string flag = row.flags.empty() ? "--" + row.key : row.flags.front();
  // The key that the row belongs to is on, and is ignored.
  ConfigurationRequest request{"file", "", 8, {}, {}, {}, {}, "", nullptr};
  if (!row.with.empty()) text += "--" + row.with + " 17 ";
  if (row.key == "bias_swiglu_fusion") text += "--swiglu ";  // with another activation it has no effect
  request.text = text + flag + (row.type == "flag" || row.type == "off" ? "" : " 17");
  const auto read = find_configuration_format("megatron-args")->read(request);
  if (!read && read.error().message().find(row.text) != std::string::npos) return "refused";
  if (!read) return read.error().kind == ErrorKind::check_failed ? "asserted" : read.error().message();
  for (const ImportedKey& key : read->keys)
    if (key.key == row.key && key.line > 0) return std::string(to_string(key.kind));
  return "absent";
}

TEST(Dictionary, EveryRowOfMegatronIsWhatBecomesOfItsKey) {
  for (const KeyRow& row : key_table("megatron-args").rows) {
    // These rows are tested in imported_keys_test and refusals_test.
    if (row.verdict == Verdict::reads || row.verdict == Verdict::alias) continue;
    // A key that belongs to a rejected key is reported with it, or not reached.
    if (row.verdict == Verdict::changes && !row.with.empty()) continue;
    const char* const expected = row.verdict == Verdict::without_effect ? "without effect"
                                 : row.verdict == Verdict::noted        ? "read"
                                 : row.verdict == Verdict::refused      ? "refused"
                                                                        : "known, not modelled";
    const std::string kind = kind_of(row);
    if (kind == "asserted") continue;  // Megatron requires other flags with it: assertions_test
    EXPECT_EQ(kind, expected) << row.key;
  }
}

TEST(Dictionary, ReasonsHaveSources) {
  for (const char* format : {"megatron-args", "torchtitan", "deepspeed", "accelerate", "launchers", "programs"}) {
    const KeyTable& table = key_table(format);
    EXPECT_FALSE(table.version.empty()) << format;
    for (const KeyRow& row : table.rows) {
      EXPECT_FALSE(row.text.empty()) << row.key;
      EXPECT_EQ(row.key.find('*'), std::string::npos) << row.key;  // one row per key: no prefixes
      if (row.verdict == Verdict::without_effect) {
        EXPECT_FALSE(table.reason_of(row).source.empty()) << row.key;
      }
      EXPECT_EQ(table.find(row.key), &row);
    }
  }
}

TEST(Dictionary, NamesTheSameKeyHoweverItIsWritten) {
  const KeyTable& table = key_table("megatron-args");
  EXPECT_EQ(table.find("layernorm_epsilon"), table.find("norm_epsilon"));
  EXPECT_EQ(table.find("overlap_p2p_communication_warmup_flush"), table.find("overlap_p2p_comm_warmup_flush"));
  EXPECT_EQ(table.find("no_masked_softmax_fusion")->type, "off");
  EXPECT_EQ(table.find("nproc_per_node")->text, "launcher_processes");  // from the launchers' table
  EXPECT_EQ(table.find("no_such_key"), nullptr);
  EXPECT_EQ(plain_key("--tensor-model-parallel-size"), "tensor_model_parallel_size");
}

std::string fault_of(const std::string& rows) {
  const auto read = read_key_table(
      "schema: espalier.dictionary/1\nformat: f\nframework: F\nversion: '1'\nsource: s\n"
      "reasons:\n  - {class: logging, why: printed, source: log.py}\nkeys:\n" +
          rows,
      "dictionary.yaml");
  return read ? "accepted" : read.error().message();
}

TEST(Dictionary, RefusesTablesThatContradictThemselves) {
  EXPECT_EQ(fault_of("  - {key: a, type: flag, reads: strategy.tp}\n"), "accepted");
  EXPECT_THAT(fault_of("  - {key: a, type: flag, reads: x}\n  - {key: a, type: flag, reads: y}\n"),
              HasSubstr("a second row of a"));
  EXPECT_THAT(fault_of("  - {key: a, type: flag, reads: x}\n  - {key: b, flags: ['--a'], type: flag, reads: y}\n"),
              HasSubstr("a second row of a"));
  EXPECT_THAT(fault_of("  - {key: a, type: flag}\n"), HasSubstr("a with 0 verdicts"));
  EXPECT_THAT(fault_of("  - {key: a, type: flag, reads: x, refused: y}\n"), HasSubstr("a with 2 verdicts"));
  EXPECT_THAT(fault_of("  - {key: a, type: flag, effect: magic}\n"), HasSubstr("a of class magic"));
  EXPECT_THAT(fault_of("  - {key: a, type: colour, reads: x}\n"), HasSubstr("a of type colour"));
  EXPECT_THAT(fault_of("  - {key: a, type: flag, changes: x, with: b}\n"), HasSubstr("a that refers to b"));
  EXPECT_THAT(fault_of("  - {key: a, type: flag, reads: x, colour: red}\n"), HasSubstr("colour"));
}

}  // namespace
}  // namespace espalier::exchange::dictionary_test
