// SPDX-License-Identifier: Apache-2.0
#include "lab/framework_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lab/interval_fit.h"
#include "lab/protocol.h"
#include "lab/training_fit.h"

namespace espalier::lab {
namespace {

std::string record(int id, const std::string& source, int hidden, int micro_batch, double seconds) {
  const auto n = [](auto v) { return std::to_string(v); };
  return R"({"id":")" + source + n(id) + R"(","source":")" + source + R"(","model":{"name":"GPT-)" + n(hidden) +
         R"(","layers":24,"hidden":)" + n(hidden) +
         R"(,"heads":16,"vocab":51200},"seq":2048,"gpu":{"type":"A100","mem_gb":80,"count":8,)" +
         R"("per_node":8},"tp":2,"pp":1,"dp":4,"sp":false,"recompute":"none","microbatch":)" + n(micro_batch) +
         R"(,"global_batch":64,"precision":"fp16","framework":"Megatron-LM","status":"ok","measured":{"iteration_s":)" +
         n(seconds) + "}}\n";
}

/// Returns runs of one source that the model itself generated with other coefficients.
calibrate::Corpus synthetic(const std::string& source, const FrameworkCoefficients& truth) {
  std::string lines;
  int id = 0;
  for (int hidden : {1024, 2048, 4096})
    for (int micro_batch : {1, 2, 4}) lines += record(id++, source, hidden, micro_batch, 1.0);
  calibrate::Corpus corpus = calibrate::make_corpus(*read_all_run_records(lines, "test"), calibrate::SourceNotes{}, 1);
  for (calibrate::CorpusRow& r : corpus.rows) r.result.measured_s = calibrate::predicted_s(r, truth);
  return corpus;
}

TEST(FrameworkFit, RecoversWhatTheDataDetermine) {
  FrameworkCoefficients truth = base_prior().center;
  truth.compute = 1.15;
  const calibrate::Corpus corpus = synthetic("synthetic", truth);
  ASSERT_EQ(corpus.rows.size(), 9u);
  std::vector<const calibrate::CorpusRow*> rows;
  for (const calibrate::CorpusRow& r : corpus.rows) rows.push_back(&r);
  FrameworkFitOptions one_cluster;
  one_cluster.between_sources = 0;
  const FrameworkFit fit = fit_framework(rows, base_prior(), one_cluster);
  for (const calibrate::CorpusRow* r : rows)
    EXPECT_NEAR(calibrate::predicted_s(*r, fit.value) / *r->result.measured_s, 1.0, 0.03) << r->result.label;
}

// A cluster that is slow as a whole does not slow the engine: with a common error allowed, less of it
// enters the coefficients.
TEST(FrameworkFit, WhatASourceHasInCommonIsNotTheEngines) {
  FrameworkCoefficients truth = base_prior().center;
  calibrate::Corpus corpus = synthetic("slow cluster", truth);
  std::vector<const calibrate::CorpusRow*> rows;
  for (calibrate::CorpusRow& r : corpus.rows) {
    *r.result.measured_s *= 1.15;
    rows.push_back(&r);
  }
  FrameworkFitOptions inside, between;
  inside.between_sources = 0;
  const auto bias = [&](const FrameworkFitOptions& options) {
    return calibrate::predicted_s(*rows.front(), fit_framework(rows, base_prior(), options).value) /
           *rows.front()->result.measured_s;
  };
  EXPECT_GT(bias(inside), 0.97);
  EXPECT_LT(bias(between), bias(inside) - 0.02);
}

// All engines are slow on one device, as if its kernels ran at 0.8. The fit lowers that device, and clearing the
// values restores the prior.
TEST(TrainingFit, ADeviceKeepsLessThanItsKernels) {
  calibrate::Corpus corpus = synthetic("source", base_prior().center);
  const double prior = corpus.rows.front().run.job.cluster.groups.front().device.efficiency.sustained;
  set_training_values(corpus, {{{"a100-sxm-80gb", "sustained"}, 0.8}});
  for (calibrate::CorpusRow& r : corpus.rows) r.result.measured_s = calibrate::predicted_s(r, base_prior().center);
  set_training_values(corpus, {});
  EXPECT_NEAR(corpus.rows.front().run.job.cluster.groups.front().device.efficiency.sustained, 0.95, 0.2);
  const TrainingFit fit = fit_training(corpus, {{"megatron-lm-2021", base_prior().center}}, "", {});
  const double fitted = fit.values.at({"a100-sxm-80gb", "sustained"});
  EXPECT_GT(fitted, 0.78);
  EXPECT_LT(fitted, 0.9);
  EXPECT_EQ(fit.sources.at({"a100-sxm-80gb", "sustained"}), "source");
  EXPECT_TRUE(fit_training(corpus, {{"megatron-lm-2021", base_prior().center}}, "source", {}).values.empty());
  EXPECT_GT(prior, 0);
}

TEST(FrameworkFit, NoRowsIsThePrior) {
  const FrameworkFit fit = fit_framework({}, base_prior(), {});
  EXPECT_EQ(fit.value, base_prior().center);
  EXPECT_EQ(fit.fitted_scalars(), 0);
}

TEST(Protocol, ASourceLeftOutIsPredictedWithoutItsRows) {
  FrameworkCoefficients truth = base_prior().center;
  truth.elementwise = 1.8;
  calibrate::Corpus corpus = synthetic("only", truth);
  ProtocolOptions options;
  options.fit.between_sources = 0;  // otherwise half of a single source's error is attributed to its cluster
  const Protocols p = run_protocols(corpus, options);
  ASSERT_EQ(p.left_out.size(), 1u);  // no other source exists: S uses the priors, G the other folds
  EXPECT_EQ(p.left_out.begin()->second.engines.begin()->second, base_prior().center);
  double source_out = 0, grouped = 0;
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    const double t = *corpus.rows[i].result.measured_s;
    EXPECT_LT(p.source_out[i].predicted_s, t);
    source_out += std::abs(p.source_out[i].predicted_s / t - 1);
    grouped += std::abs(p.grouped[i].predicted_s / t - 1);
  }
  EXPECT_LT(grouped, 0.6 * source_out);
}

/// Returns the errors of G on rows that take `factor` times the time that the priors predict, by hidden size. An
/// unchanged prediction gives 1.
std::vector<double> grouped_errors(calibrate::Corpus& corpus, const std::map<int, double>& factor) {
  for (calibrate::CorpusRow& r : corpus.rows)
    *r.result.measured_s *= factor.at(static_cast<int>(r.run.job.model.layer(1).hidden));
  Known known;
  known.engines["megatron-lm-2021"] = base_prior().center;
  std::vector<Judged> judged(corpus.rows.size());
  judge_grouped(corpus, corpus.families.front(), known, {}, judged);
  std::vector<double> out;
  for (std::size_t i = 0; i < judged.size(); ++i)
    out.push_back(judged[i].predicted_s / (*corpus.rows[i].result.measured_s /
                                           factor.at(static_cast<int>(corpus.rows[i].run.job.model.layer(1).hidden))));
  return out;
}

// A cluster that is slow in all its groups is learnt. Groups that contradict each other change nothing: the earlier
// values are kept.
TEST(GroupedProtocol, RunsChangeOnlyWhatTheySayOfOtherGroups) {
  calibrate::Corpus slow = synthetic("slow", base_prior().center);
  for (const double ratio : grouped_errors(slow, {{1024, 1.2}, {2048, 1.2}, {4096, 1.2}})) {
    EXPECT_GT(ratio, 1.02);
    EXPECT_LT(ratio, 1.25);
  }
  calibrate::Corpus apart = synthetic("apart", base_prior().center);
  for (const double ratio : grouped_errors(apart, {{1024, 1.25}, {2048, 0.8}, {4096, 1.0}})) EXPECT_DOUBLE_EQ(ratio, 1.0);
}

// Uses two chips without earlier data. The next fold does not use what the last one added about them: groups that
// contradict each other still change nothing.
TEST(GroupedProtocol, WhatOneFoldSaysOfDevicesIsForgotten) {
  calibrate::Corpus corpus = synthetic("chips", base_prior().center);
  for (std::size_t i = 0; i < corpus.rows.size(); i += 2) {
    calibrate::CorpusRow& row = corpus.rows[i];
    row.device = row.run.job.cluster.groups.front().device.name = "a100-sxm-40gb";
  }
  for (const double ratio : grouped_errors(corpus, {{1024, 1.25}, {2048, 0.8}, {4096, 1.0}})) EXPECT_DOUBLE_EQ(ratio, 1.0);
}

// A source with one model on one number of GPUs has its configurations left out instead. Three runs are too few to
// change the coefficients.
TEST(GroupedProtocol, OfASingleGroupItsConfigurationsAreLeftOut) {
  calibrate::Corpus corpus = synthetic("one", base_prior().center);
  std::erase_if(corpus.rows, [](const calibrate::CorpusRow& r) { return r.group != "GPT-2048|8"; });
  std::vector<const calibrate::CorpusRow*> rows;
  for (const calibrate::CorpusRow& r : corpus.rows) rows.push_back(&r);
  EXPECT_EQ(folds_of(rows, 5), (std::vector<int>{0, 1, 2}));
  for (const double ratio : grouped_errors(corpus, {{2048, 1.2}})) EXPECT_DOUBLE_EQ(ratio, 1.0);
}

TEST(Protocol, RepeatsOfOneConfigurationShareTheWeightOfOne) {
  const std::string line = record(1, "a", 1024, 1, 1.0);
  const calibrate::Corpus corpus = calibrate::make_corpus(
      *read_all_run_records(line + line + record(2, "a", 1024, 2, 1.0), "test"), calibrate::SourceNotes{}, 1);
  ASSERT_EQ(corpus.rows.size(), 3u);
  EXPECT_DOUBLE_EQ(corpus.rows[0].weight, 0.5);
  EXPECT_DOUBLE_EQ(corpus.rows[1].weight, 0.5);
  EXPECT_DOUBLE_EQ(corpus.rows[2].weight, 1.0);
}

TEST(Intervals, QuantilesByHand) {
  // With the weights 1, 1, 2, the second value reaches half of the weight and the third nine tenths.
  EXPECT_DOUBLE_EQ(weighted_quantile({{3, 2}, {1, 1}, {2, 1}}, 0.5), 2);
  EXPECT_DOUBLE_EQ(weighted_quantile({{3, 2}, {1, 1}, {2, 1}}, 0.9), 3);
  EXPECT_DOUBLE_EQ(weighted_quantile({}, 0.9), 0);
}

// Two sources with one engine are off by 0.3 in opposite directions. Under S, the errors contain what they share, so
// nothing is added between clusters. Neither source predicts a third well.
TEST(Intervals, SourcesShareAnErrorWhereNothingOfThemWasKnown) {
  std::vector<Residual> residuals;
  for (int i = 0; i < 50; ++i) {
    residuals.push_back({0.3 + 0.001 * (i % 3), 1.0, "a", "nanotron", "l4"});
    residuals.push_back({-0.3 + 0.001 * (i % 3), 1.0, "b", "nanotron", "l4"});
  }
  const auto known = fit_intervals(residuals, residuals, true, {});
  const auto own = planner::interval_for(known, "nanotron", "l4");
  // Two effective runs of variance 0.09 meet a thousand prior runs of the same variance: 1.2824 · 0.3 on both sides.
  EXPECT_GT(own.high, std::exp(1.28 * 0.29));
  EXPECT_LT(own.high, std::exp(1.89 * 0.4));
  EXPECT_NEAR(std::log(own.high), -std::log(own.low), 0.01);
}

TEST(Intervals, UnknownPairsFallBackAndSaySo) {
  std::vector<Residual> residuals;
  for (int i = 0; i < 100; ++i) residuals.push_back({0.002 * (i - 50), 1.0, "s", "nanotron", "h100-sxm-80gb"});
  const auto table = fit_intervals(residuals, residuals, false, {});
  const auto own = planner::interval_for(table, "nanotron", "h100-sxm-80gb");
  EXPECT_EQ(own.basis, "calibrated: h100-sxm-80gb, nanotron, 100 runs");
  // The quantiles -0.082 and 0.08 combine in quadrature with 1.2816 · 0.12 between clusters.
  EXPECT_NEAR(own.low, std::exp(-0.174), 0.01);
  EXPECT_NEAR(own.high, std::exp(0.173), 0.01);
  const auto elsewhere = planner::interval_for(table, "nanotron", "l4");
  EXPECT_EQ(elsewhere.basis.rfind("uncalibrated", 0), 0u);
  EXPECT_LT(elsewhere.low, own.low);  // wider for a device without runs
  EXPECT_EQ(planner::interval_for({}, "generic", "l4").basis, "uncalibrated: priors of l4, engine generic");
}

}  // namespace
}  // namespace espalier::lab
