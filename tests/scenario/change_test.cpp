// SPDX-License-Identifier: Apache-2.0
// Tests plans under change: scenarios 9 to 12 of examples/clusters/scenarios, and the public spot
// traces of data/traces.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "data/source_dir.h"
#include "espalier/adapt.h"
#include "espalier/exchange.h"
#include "espalier/job.h"
#include "espalier/policy.h"

namespace espalier::adapt {
namespace {

const std::string kSource = ESPALIER_SOURCE_DIR;

Job scenario(const std::string& name) {
  return load_job_file(kSource + "/examples/clusters/scenarios/" + name + ".yaml", {}).value();
}

const adapt::Change& of(const adapt::WhatIf& answer, adapt::ActionKind kind) {
  return answer.actions[static_cast<std::size_t>(kind)];
}

/// Compares three prices (without a replica, re-routed, planned again), and the time from which each beats
/// the cheaper one.
TEST(Scenario, NineALostNode) {
  const Job job = scenario("09-a-lost-node");
  const Plan plan = espalier::plan(job, {}).value().plan;
  ASSERT_EQ(plan.strategy().tp, 8);
  ASSERT_EQ(plan.only_pipeline().schedule.stages, 4);
  ASSERT_EQ(plan.strategy().dp, 4);
  adapt::Disturbance d;
  d.lost = {"node:5"};
  const adapt::WhatIf answer = adapt::what_if(job, plan, d, {}).value();
  EXPECT_FALSE(answer.if_stay_ns.has_value());
  const adapt::Change &dropped = of(answer, adapt::ActionKind::shift), &rerouted = of(answer, adapt::ActionKind::reroute),
                      &reshaped = of(answer, adapt::ActionKind::reshape);
  ASSERT_TRUE(dropped.possible && rerouted.possible && reshaped.possible);
  // Three replicas take 171 micro-batches instead of 128, plus three of the pipeline: (171 + 3)/(128 + 3) = 1.33
  // times a step.
  EXPECT_NEAR(static_cast<double>(dropped.iteration_ns) / static_cast<double>(answer.before_ns), 174.0 / 131, 0.02);
  // One stage does 4/3 of its work, and the others fill and drain as before, which is less.
  EXPECT_LT(rerouted.iteration_ns, dropped.iteration_ns);
  EXPECT_GT(rerouted.iteration_ns, answer.before_ns * 115 / 100);
  EXPECT_EQ(dropped.move.peer_bytes, 0);
  EXPECT_EQ(rerouted.move.peer_bytes, 0);
  std::printf("scenario 9: before %.3f s, without a replica %.3f, re-routed %.3f, planned again %.3f (%s, %.0f GiB moved)\n",
              static_cast<double>(answer.before_ns) * 1e-9, static_cast<double>(dropped.iteration_ns) * 1e-9,
              static_cast<double>(rerouted.iteration_ns) * 1e-9, static_cast<double>(reshaped.iteration_ns) * 1e-9,
              reshaped.what.c_str(), static_cast<double>(reshaped.move.peer_bytes) / (1 << 30));
}

/// Each of the C(16, 1) + C(16, 2) = 136 losses has a plan.
TEST(Scenario, NineEveryLossOfTwo) {
  const Job job = scenario("09-a-lost-node");
  const adapt::Survival answer = adapt::survive(job, espalier::plan(job, {}).value().plan, 2, {}).value();
  EXPECT_EQ(answer.losses, 136);
  EXPECT_EQ(answer.covered, 136);
  EXPECT_LE(answer.classes.size(), 20u);
}

/// Restarts take 30 s or 300 s. The policy is never worse than the best plan that is never changed, and within the
/// proven factor. More expensive restarts mean fewer changes.
TEST(Scenario, TenASpotTrace) {
  const Job job = scenario("10-a-spot-trace");
  std::int64_t changes = INT64_MAX;
  for (const double restart : {30.0, 300.0}) {
    adapt::OverTimeOptions options;
    options.change.move.restart_s = restart;
    const adapt::OverTime answer = adapt::plan_over_time(job, options).value();
    const adapt::TraceRun &still = answer.runs[0], &online = answer.runs[2], &best = answer.runs[3];
    EXPECT_GE(online.samples_per_s, still.samples_per_s);
    EXPECT_GE(best.samples_per_s, online.samples_per_s);
    EXPECT_LE(online.lost_s, answer.bound.lost_s());
    EXPECT_LE(online.moves, changes);
    changes = online.moves;
    std::printf(
        "scenario 10, restart %3.0f s: static %.2f samples/s, online %.2f (%lld changes), clairvoyant %.2f, regret %.1f %%\n",
        restart, still.samples_per_s, online.samples_per_s, static_cast<long long>(online.moves), best.samples_per_s,
        100 * answer.regret);
  }
}

/// One uplink has half its bandwidth. Staying costs less than a twentieth. A plan without the node has 31/32 of the
/// devices and does not gain enough to be worth a move for 24 minutes.
TEST(Scenario, ElevenANarrowUplink) {
  const Job job = scenario("11-a-narrow-uplink");
  const Plan plan = espalier::plan(job, {}).value().plan;
  adapt::Disturbance d;
  d.links = {{"node:3", 0.5}};
  const adapt::WhatIf answer = adapt::what_if(job, plan, d, {}).value();
  ASSERT_TRUE(answer.if_stay_ns.has_value());
  EXPECT_DOUBLE_EQ(answer.horizon_s, 1440);
  EXPECT_GE(*answer.if_stay_ns, answer.before_ns);
  EXPECT_LT(*answer.if_stay_ns, answer.before_ns * 105 / 100);
  // Staying loses 3 % of a step. A move that stops everything for half a minute pays after a quarter of an hour, and
  // the advice changes there.
  const auto pays = of(answer, adapt::ActionKind::reshape).break_even_s;
  ASSERT_TRUE(pays.has_value());
  EXPECT_GT(*pays, 600);
  EXPECT_EQ(answer.actions[answer.recommended].action, *pays < 1440 ? adapt::ActionKind::reshape : adapt::ActionKind::stay);
  adapt::ChangeOptions brief;
  brief.horizon_s = *pays - 60;
  const adapt::WhatIf before = adapt::what_if(job, plan, d, brief).value();
  EXPECT_EQ(before.actions[before.recommended].action, adapt::ActionKind::stay);
}

/// The loss of one of eight interfaces leaves between 7/8, shared evenly, and 1/2, two devices on one. A bucket that
/// lasts 535 s does not help a job of hours.
TEST(Scenario, TwelveALostInterfaceAndATokenBucket) {
  const Job job = scenario("11-a-narrow-uplink");
  const Plan plan = espalier::plan(job, {}).value().plan;
  std::int64_t last = 0;
  for (const double factor : {1.0, 7.0 / 8, 0.5}) {
    adapt::Disturbance d;
    d.links = {{"node:3", factor}};
    const adapt::WhatIf answer = adapt::what_if(job, plan, d, {}).value();
    EXPECT_GE(*answer.if_stay_ns, last);
    EXPECT_LE(*answer.if_stay_ns, 2 * answer.before_ns);
    last = *answer.if_stay_ns;
  }
  // Uta et al. measured 9.69 Gb/s for some 533 s, then 1.25: a bucket of (9.69 − 1.25) · 533 Gb. A benchmark of 60 s
  // shows the first rate, training in steps of 10 GB without pauses the second.
  TokenBucket bucket;
  bucket.full = BytesPerSecond(9.69e9 / 8);
  bucket.sustained = BytesPerSecond(1.25e9 / 8);
  bucket.bucket = Bytes(static_cast<std::int64_t>((9.69e9 - 1.25e9) / 8 * 533));
  EXPECT_NEAR(full_rate_lasts(bucket, full_bucket(bucket)).count(), 533, 1);
  EXPECT_NEAR(time_to_move(bucket, full_bucket(bucket), 1e10).count(), 8e10 / 9.69e9, 1e-6);
  EXPECT_NEAR(lasting_time_to_move(bucket, 1e10, Seconds(0)).count(), 8e10 / 1.25e9, 1e-6);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

/// On every public trace the policy is within its proven factor of the clairvoyant one, and not worse than the best
/// plan that is never changed.
TEST(Scenario, PublicTraces) {
  const Job spot = scenario("10-a-spot-trace");
  double regret = 0;
  int traces = 0;
  for (const auto& [file, format] : std::vector<std::pair<std::string, std::string>>{{"bamboo_g4dn_trace", "bamboo"},
                                                                                     {"bamboo_p3_trace", "bamboo"},
                                                                                     {"bamboo_gcloud_a100x1_east1b", "bamboo"},
                                                                                     {"parcae_p3", "parcae"},
                                                                                     {"parcae_gpt15b_trace_hh_55_65", "parcae"},
                                                                                     {"parcae_gpt15b_trace_hl_15_25", "parcae"},
                                                                                     {"parcae_gpt15b_trace_lh_80_90", "parcae"},
                                                                                     {"parcae_gpt15b_trace_ll_10_11", "parcae"},
                                                                                     {"sailor_a100_trace", "sailor"}}) {
    const auto trace =
        exchange::find_trace_format(format)->read({file, text_of(kSource + "/data/traces/" + file + ".csv"), 0, 1});
    ASSERT_TRUE(trace.ok()) << file << ": " << trace.error().message();
    Job job = spot;
    job.cluster =
        load_cluster("{nodes: " + std::to_string(trace->nodes) +
                         ", devices_per_node: 1, device: v100-sxm-16gb, inter_node: {bandwidth: 10Gb/s, nics_per_node: 1}}",
                     "trace")
            .value();
    job.cluster_source = "{\"nodes\": " + std::to_string(trace->nodes) +
                         ", \"devices_per_node\": 1, \"device\": \"v100-sxm-16gb\", \"inter_node\": {\"bandwidth\": \"10Gb/s\", "
                         "\"nics_per_node\": 1}}";
    job.cluster.events = trace->events;
    const auto answer = adapt::plan_over_time(job, {});
    ASSERT_TRUE(answer.ok()) << file << ": " << answer.error().message();
    const adapt::TraceRun &still = answer->runs[0], &online = answer->runs[2], &best = answer->runs[3];
    EXPECT_LE(online.lost_s, answer->bound.lost_s()) << file;
    EXPECT_GE(online.lost_s, best.lost_s * (1 - 1e-9)) << file;
    EXPECT_LE(online.lost_s, still.lost_s * (1 + 1e-9)) << file;
    std::printf(
        "%-32s %4lld epochs, %zu plans: static %7.2f, online %7.2f (%lld changes), clairvoyant %7.2f samples/s, regret %.1f %%\n",
        file.c_str(), static_cast<long long>(answer->epochs), answer->plans.size(), still.samples_per_s, online.samples_per_s,
        static_cast<long long>(online.moves), best.samples_per_s, 100 * answer->regret);
    regret += answer->regret;
    ++traces;
  }
  std::printf("%d public traces: mean regret %.1f %%\n", traces, 100 * regret / traces);
}

}  // namespace
}  // namespace espalier::adapt
