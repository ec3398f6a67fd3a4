// SPDX-License-Identifier: Apache-2.0
// Tests known answers: measurements made by the model itself under other coefficients must give these coefficients
// back.
#include "calibrate/user_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "espalier/configuration.h"
#include "job/calibration_file.h"
#include "plan/engine.h"
#include "planner/estimate.h"
#include "planner/interval.h"
#include "planner/own_confidence.h"

namespace espalier::calibrate {
namespace {

Job job_of(int layers, int nodes, int batch) {
  const std::string text =
      "model: {model_type: llama, vocab_size: 32000, hidden_size: 4096, intermediate_size: 11008, num_hidden_layers: " +
      std::to_string(layers) + ", num_attention_heads: 32, max_position_embeddings: 4096}\n" +
      "cluster: {nodes: " + std::to_string(nodes) + ", devices_per_node: 8, device: h100-sxm-80gb}\n" +
      "training: {sequence_length: 4096, global_batch: " + std::to_string(batch) + "}\nengine: megatron-core\n";
  auto job = load_job(text, "job.yaml", "/nonexistent", {});
  EXPECT_TRUE(job.ok()) << job.error().message();
  return *job;
}

struct Case {
  Job job;
  Strategy strategy;
  Schedule schedule;
};

Case case_of(int layers, int nodes, int batch, int tp, int micro_batch) {
  Case c{job_of(layers, nodes, batch), {}, {}};
  c.strategy.tp = tp;
  c.strategy.sp = tp > 1 ? SequenceParallel::megatron : SequenceParallel::none;
  c.strategy.dp = 0;
  c.strategy.shard = 0;
  c.schedule.micro_batch = micro_batch;
  c.schedule.microbatches = 0;
  complete_configuration(c.job, c.strategy, c.schedule);
  return c;
}

std::vector<Case> cases(int tp) {
  return {case_of(8, 1, 64, tp, 1), case_of(16, 1, 32, tp, 2), case_of(32, 2, 64, tp, 1), case_of(24, 4, 128, tp, 1),
          case_of(12, 1, 16, tp, 1)};
}

/// Returns Megatron lines with the model's predictions under `truth`.
std::string log_of(const Case& c, const FrameworkCoefficients& truth) {
  EngineModel engine = *find_engine("megatron-core");
  engine.coefficients = truth;
  const auto p = planner::predict_with(c.job, engine, c.strategy, c.schedule);
  EXPECT_TRUE(p.ok()) << p.error().message();
  const std::string ms = std::to_string(static_cast<double>(p->iteration_ns) * 1e-6);
  std::string out;
  for (int i = 10; i <= 50; i += 10)
    out += " iteration " + std::to_string(i) + "/ 100 | elapsed time per iteration (ms): " + ms +
           " | global batch size: " + std::to_string(c.job.training.global_batch) + " |\n";
  return out;
}

UserRuns runs_of(const std::vector<Case>& all, const FrameworkCoefficients& truth) {
  UserRuns runs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Status status = add_log(log_of(all[i], truth), "run" + std::to_string(i) + ".log", all[i].job, all[i].strategy,
                                  all[i].schedule, -1, {"h100-sxm-80gb", ""}, runs);
    EXPECT_TRUE(status.ok()) << status.error().message();
  }
  return runs;
}

const ParameterFit& named(const UserFit& fit, std::string_view name) {
  for (const ParameterFit& p : fit.parameters)
    if (p.name == name) return p;
  ADD_FAILURE() << name;
  return fit.parameters.front();
}

TEST(UserCalibration, FindsASlowerMachineAndLeavesTheRest) {
  FrameworkCoefficients truth = find_engine("megatron-core")->coefficients;
  truth.compute *= 1.1;
  const UserRuns runs = runs_of(cases(1), truth);
  std::vector<double> before;
  for (const UserRow& r : runs.rows) before.push_back(predicted_s(r.row, find_engine("megatron-core")->coefficients));
  const UserFit fit = fit_user(runs.rows, before, "megatron-core", 1);
  EXPECT_EQ(fit.configurations, 5);
  EXPECT_NEAR(fit.coefficients.compute / truth.compute, 1, 0.05);  // shrunk towards the prior, shared with elementwise
  EXPECT_FALSE(named(fit, "tensor_communication").identified);     // tp is 1: nothing to learn from
  EXPECT_EQ(named(fit, "tensor_communication").value, find_engine("megatron-core")->coefficients.tensor_communication);
  EXPECT_GT(fit.before.mape, 0.05);
  EXPECT_LT(fit.held_out.mape, 0.02);
  EXPECT_LT(fit.low, 1);
  EXPECT_GT(fit.low, 0.85);  // four pseudo-runs of 8 % keep it from closing
  EXPECT_LT(fit.low, 0.96);
  const UserFit threads = fit_user(runs.rows, before, "megatron-core", 3);
  EXPECT_EQ(threads.coefficients, fit.coefficients);
}

TEST(UserCalibration, OneRunIsNotCrossValidated) {
  const FrameworkCoefficients shipped = find_engine("megatron-core")->coefficients;
  const UserRuns runs = runs_of({case_of(8, 1, 64, 2, 1)}, shipped);
  const UserFit fit = fit_user(runs.rows, {*runs.rows[0].row.result.measured_s}, "megatron-core", 1);
  EXPECT_EQ(fit.held_out.n, 0);
  EXPECT_EQ(fit.runs[0].held_out_s, 0);
  EXPECT_FALSE(fit.warnings.empty());
  EXPECT_NEAR(fit.coefficients.compute, shipped.compute, 1e-3);
  // One run is no evidence about others, so the interval is the shipped one, whose origin it names.
  const planner::PredictionInterval own = planner::interval_for(planner::shipped_intervals(), "megatron-core", "h100-sxm-80gb");
  EXPECT_DOUBLE_EQ(fit.low, own.low);
  EXPECT_DOUBLE_EQ(fit.high, own.high);
  EXPECT_EQ(fit.interval_basis.substr(0, 10), "as shipped");
}

// A plan claims only the evidence in the calibration's file: one run has no cross-validation, and neither have two.
TEST(UserCalibration, ClaimsNoCrossValidationThatDidNotHappen) {
  FrameworkCoefficients truth = find_engine("megatron-core")->coefficients;
  truth.compute *= 1.1;
  const auto basis = [&](std::vector<Case> all) {
    UserInputs inputs;
    inputs.device = "h100-sxm-80gb";
    inputs.runs = runs_of(all, truth);
    const auto made = calibrate_user(std::move(inputs));
    EXPECT_TRUE(made.ok()) << made.error().message();
    const auto read = read_calibration(to_yaml(*made), "mine.yaml");
    EXPECT_TRUE(read.ok()) << read.error().message() << to_yaml(*made);
    return planner::calibrated_confidence(**read, 1.0, 8)->basis;
  };
  const std::vector<Case> five = cases(1);
  EXPECT_NE(basis({five[0]}).find("not cross-validated (none: 1 configuration"), std::string::npos) << basis({five[0]});
  EXPECT_NE(basis({five[0], five[1]}).find("not cross-validated (none: 2 configurations"), std::string::npos);
  EXPECT_NE(basis(five).find("held out (leave one of 5 configurations out)"), std::string::npos) << basis(five);
}

// The prior sigma of log(compute) is 0.10. A machine 1.8 times as slow is ln 1.8 / 0.10 = 5.9 widths away.
TEST(UserCalibration, AFarCoefficientIsAWarning) {
  FrameworkCoefficients truth = find_engine("megatron-core")->coefficients;
  truth.compute *= 1.8;
  const UserRuns runs = runs_of(cases(1), truth);
  std::vector<double> before;
  for (const UserRow& r : runs.rows) before.push_back(predicted_s(r.row, find_engine("megatron-core")->coefficients));
  const UserFit fit = fit_user(runs.rows, before, "megatron-core", 1);
  ASSERT_GT(named(fit, "compute").widths(), 3) << named(fit, "compute").value;
  const bool warned = std::any_of(fit.warnings.begin(), fit.warnings.end(),
                                  [](const std::string& w) { return w.find("prior widths") != std::string::npos; });
  EXPECT_TRUE(warned);
}

TEST(UserCalibration, LogWithoutTimeCountsTokens) {
  // 64 samples of 4096 tokens at 2048 tokens/s on each of 8 devices take 16 s.
  Case c = case_of(8, 1, 64, 1, 1);
  UserRuns runs;
  const Status status = add_log("step: 10  loss: 1.0  memory: 1.0GiB(1%)  tps: 2,048  tflops: 1.0  mfu: 1%\n", "dir/t.log", c.job,
                                c.strategy, c.schedule, -1, {"h100-sxm-80gb", ""}, runs);
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_DOUBLE_EQ(*runs.rows.front().row.result.measured_s, 16);
  EXPECT_EQ(runs.inputs.front().kind, "torchtitan log");
}

TEST(UserCalibration, LogThatContradictsItsConfigurationIsRefused) {
  Case c = case_of(8, 1, 64, 1, 1);
  UserRuns runs;
  const std::string log = " iteration 10/ 100 | elapsed time per iteration (ms): 5000 | global batch size: 32 |\n";
  const auto batch = add_log(log, "m.log", c.job, c.strategy, c.schedule, -1, {"h100-sxm-80gb", ""}, runs);
  ASSERT_FALSE(batch.ok());
  EXPECT_NE(batch.error().found.find("32"), std::string::npos);
  const auto device = add_log(log, "m.log", c.job, c.strategy, c.schedule, -1, {"a100-sxm-80gb", ""}, runs);
  EXPECT_FALSE(device.ok());
}

runlog::NcclTable table_of(const Cluster& cluster, runlog::CollectiveTest test, int ranks, int nodes) {
  runlog::NcclTable t{"t.txt:1", test, ranks, nodes, 1, ranks / nodes, "", true, {}};
  for (std::int64_t bytes = 1024; bytes <= (std::int64_t{1} << 30); bytes *= 4)
    t.rows.push_back({1, bytes, 1e6 * modelled_s(cluster, t, static_cast<double>(bytes))});
  return t;
}

double value_of(const LevelFit& level, std::string_view name) {
  for (const LevelFit::Field& f : level.fields)
    if (f.field->name == name) return f.value;
  ADD_FAILURE() << name;
  return 0;
}

TEST(UserFabric, FindsTheEfficiencyOfEachLevel) {
  const auto shipped = load_cluster("{nodes: 2, device: h100-sxm-80gb}", "c");
  Cluster truth = *shipped;
  truth.groups.front().intra.front().efficiency *= 0.8;
  truth.inter.front().efficiency *= 0.5;  // now slower than the node: it shows
  const auto fit = fit_user_fabric(*shipped, {table_of(truth, runlog::CollectiveTest::all_reduce, 8, 1),
                                              table_of(truth, runlog::CollectiveTest::all_gather, 16, 2)});
  ASSERT_TRUE(fit.ok()) << fit.error().message();
  ASSERT_EQ(fit->levels.size(), 2u);
  EXPECT_TRUE(fit->levels[0].inside_node);
  EXPECT_FALSE(fit->levels[1].inside_node);
  EXPECT_NEAR(value_of(fit->levels[0], "efficiency") / truth.groups.front().intra.front().efficiency, 1, 0.1);
  EXPECT_NEAR(value_of(fit->levels[1], "efficiency") / truth.inter.front().efficiency, 1, 0.15);
  EXPECT_GT(fit->before, 0.15);
  EXPECT_LT(fit->held_out, 0.06);
}

TEST(UserFabric, RefusesMoreRanksThanTheNodeHas) {
  const auto cluster = load_cluster("{nodes: 1, device: h100-sxm-80gb}", "c");
  runlog::NcclTable t{"t.txt:7", runlog::CollectiveTest::all_reduce, 16, 1, 1, 16, "", true, {{1, 1 << 20, 100}}};
  const auto fit = fit_user_fabric(*cluster, {t});
  ASSERT_FALSE(fit.ok());
  EXPECT_EQ(fit.error().where, "t.txt:7");
}

TEST(UserCalibration, TheFileReadsBack) {
  FrameworkCoefficients truth = find_engine("megatron-core")->coefficients;
  truth.compute *= 1.1;
  UserInputs inputs;
  inputs.device = "h100-sxm-80gb";
  inputs.runs = runs_of(cases(2), truth);
  const auto cluster = load_cluster("{nodes: 1, device: h100-sxm-80gb}", "c");
  Cluster slower = *cluster;
  slower.groups.front().intra.front().efficiency *= 0.8;
  inputs.tables = {table_of(slower, runlog::CollectiveTest::reduce_scatter, 8, 1)};
  const auto made = calibrate_user(std::move(inputs));
  ASSERT_TRUE(made.ok()) << made.error().message();
  const auto read = read_calibration(to_yaml(*made), "mine.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message() << "\n" << to_yaml(*made);
  EXPECT_EQ((*read)->engine, "megatron-core");
  EXPECT_NEAR((*read)->coefficients.compute, made->fit->coefficients.compute, 1e-5);
  EXPECT_EQ((*read)->runs, 5);
  EXPECT_EQ((*read)->fabric.size(), made->fabric->levels.size());
  EXPECT_EQ((*read)->devices_high, 32);
}

TEST(UserCalibration, DevicesMayBeCutShort) {
  EXPECT_EQ(*resolve_device("h100-sxm"), "h100-sxm-80gb");
  EXPECT_EQ(*resolve_device("h200-sxm"), "h200-sxm");
  const auto several = resolve_device("a100");
  ASSERT_FALSE(several.ok());
  EXPECT_NE(several.error().found.find("a100-sxm-80gb"), std::string::npos);
  EXPECT_FALSE(resolve_device("nothing").ok());
  EXPECT_FALSE(resolve_device("").ok());
}

}  // namespace
}  // namespace espalier::calibrate
