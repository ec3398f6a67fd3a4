// SPDX-License-Identifier: Apache-2.0
#include "calibrate/corpus.h"
#include "plan/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace espalier::calibrate::corpus_test {
namespace {

using testing::ElementsAre;

struct Written {
  std::string id = "r", source = "lab", framework = "Megatron-LM";
  int hidden = 2048;
  int micro_batch = 1;
  std::string more = "";
};

std::string line(const Written& w) {
  return R"({"id":")" + w.id + R"(","source":")" + w.source + R"(","model":{"name":"GPT-)" + std::to_string(w.hidden) +
         R"(","layers":24,"hidden":)" + std::to_string(w.hidden) +
         R"(,"heads":16,"vocab":51200},"seq":2048,"gpu":{"type":"A100","mem_gb":80,"count":8,"per_node":8},"tp":2,"pp":1,"dp":4,)" +
         R"("sp":false,"recompute":"none","microbatch":)" + std::to_string(w.micro_batch) +
         R"(,"global_batch":64,"precision":"fp16","framework":")" + w.framework +
         R"(","status":"ok","measured":{"iteration_s":1.5})" + w.more + "}\n";
}

Corpus corpus_of(const std::string& lines, const SourceNotes& notes = {}, int threads = 1) {
  const auto records = read_all_run_records(lines, "runs.jsonl");
  EXPECT_TRUE(records) << records.error().message();
  return records ? make_corpus(*records, notes, threads) : Corpus{};
}

TEST(Corpus, ARowIsItsRecordMappedAndPredicted) {
  const Corpus corpus = corpus_of(line({}));
  ASSERT_EQ(corpus.rows.size(), 1u);
  const CorpusRow& row = corpus.rows.front();
  EXPECT_EQ(row.result.id, "r");
  EXPECT_EQ(row.device, "a100-sxm-80gb");
  EXPECT_EQ(row.devices, 8);
  EXPECT_EQ(row.group, "GPT-2048|8");
  EXPECT_TRUE(row.trusted);
  EXPECT_TRUE(row.timed());
  EXPECT_DOUBLE_EQ(row.weight, 1);
  EXPECT_EQ(row.run.strategy.tp, 2);
  // With the shipped coefficients, predicting it again gives the prediction of its result.
  EXPECT_DOUBLE_EQ(predicted_s(row, find_engine(row.result.engine)->coefficients), *row.result.predicted_s);
}

// Two of the three measurements are of one configuration and share one weight.
TEST(Corpus, RepeatsShareTheWeightOfOne) {
  const Corpus corpus = corpus_of(line({.id = "a"}) + line({.id = "b", .micro_batch = 2}) + line({.id = "c"}));
  ASSERT_EQ(corpus.rows.size(), 3u);
  EXPECT_DOUBLE_EQ(corpus.rows[0].weight, 0.5);
  EXPECT_DOUBLE_EQ(corpus.rows[1].weight, 1);
  EXPECT_DOUBLE_EQ(corpus.rows[2].weight, 0.5);
}

// One configuration in two sources is two measurements: other people, another machine.
TEST(Corpus, SourcesDoNotShareWeights) {
  const Corpus corpus = corpus_of(line({.source = "lab"}) + line({.source = "other lab"}));
  ASSERT_EQ(corpus.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(corpus.rows[0].weight + corpus.rows[1].weight, 2);
}

TEST(Corpus, FamiliesAreSortedAndMergedByPrefix) {
  const std::string lines = line({.source = "zoo"}) + line({.source = "book: tables"}) + line({.source = "book: figures"});
  EXPECT_THAT(corpus_of(lines).families, ElementsAre("book: figures", "book: tables", "zoo"));
  const Corpus merged = corpus_of(lines, {{"book"}, {"zoo"}});
  EXPECT_THAT(merged.families, ElementsAre("book", "zoo"));
  EXPECT_FALSE(merged.rows[0].trusted);
  EXPECT_TRUE(merged.rows[1].trusted);
}

TEST(Corpus, RecordsThatAreNotPredictedSayWhy) {
  const Corpus corpus = corpus_of(line({.id = "a", .more = R"(,"techniques":["offload"])"}) + line({.id = "b"}));
  ASSERT_EQ(corpus.rows.size(), 1u);
  EXPECT_EQ(corpus.rows.front().result.id, "b");
  ASSERT_EQ(corpus.skipped.size(), 1u);
  EXPECT_EQ(corpus.skipped.front().id, "a");
  EXPECT_EQ(corpus.skipped.front().reason, "outside the uniform space");
}

TEST(Corpus, RowsKeepTheOrderOfTheRecordsForAnyThreads) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += line({.id = "r" + std::to_string(i), .hidden = 1024 + 64 * (i % 4), .micro_batch = 1 << (i % 3)});
  const Corpus one = corpus_of(lines);
  const Corpus many = corpus_of(lines, {}, 3);
  ASSERT_EQ(one.rows.size(), many.rows.size());
  for (std::size_t i = 0; i < one.rows.size(); ++i) {
    EXPECT_EQ(one.rows[i].result.id, many.rows[i].result.id);
    EXPECT_EQ(one.rows[i].result.predicted_s, many.rows[i].result.predicted_s);
    EXPECT_EQ(one.rows[i].weight, many.rows[i].weight);
  }
}

// `compute` multiplies the seconds of every operator. A machine twice as slow takes longer, at most twice as long.
TEST(Corpus, SlowerComputeTakesLonger) {
  const Corpus corpus = corpus_of(line({}) + line({.micro_batch = 2}));
  FrameworkCoefficients slow = find_engine("megatron-lm-2021")->coefficients;
  std::vector<const CorpusRow*> rows;
  for (const CorpusRow& r : corpus.rows) rows.push_back(&r);
  const std::vector<double> before = predicted_s(rows, slow, 1);
  slow.compute *= 2;
  const std::vector<double> after = predicted_s(rows, slow, 1);
  EXPECT_EQ(after, predicted_s(rows, slow, 3));
  ASSERT_EQ(after.size(), 2u);
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_GT(after[i], 1.2 * before[i]);
    EXPECT_LT(after[i], 2.0 * before[i]);
  }
}

// A command line makes a separate engine; other coefficients must not lose its changes.
TEST(Corpus, WhatTheCommandLineChangesStays) {
  const std::string flags = R"(,"extra":{"args":{"--micro-batch-size":1,"--num-layers":24,"--use-distributed-optimizer":true}})";
  const Corpus corpus = corpus_of(line({.framework = "Megatron-Core", .more = flags}));
  ASSERT_EQ(corpus.rows.size(), 1u);
  const CorpusRow& row = corpus.rows.front();
  ASSERT_TRUE(row.run.job.engine_model);
  EXPECT_EQ(row.run.strategy.zero, ZeroStage::optimizer);
  EXPECT_DOUBLE_EQ(predicted_s(row, row.run.job.engine_model->coefficients), *row.result.predicted_s);
}

TEST(Corpus, OnlyAPositiveTimeIsATime) {
  CorpusRow row;
  EXPECT_FALSE(row.timed());
  row.result.measured_s = 0.0;
  EXPECT_FALSE(row.timed());
  row.result.measured_s = 0.1;
  EXPECT_TRUE(row.timed());
}

}  // namespace
}  // namespace espalier::calibrate::corpus_test
