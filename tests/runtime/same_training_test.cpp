// SPDX-License-Identifier: Apache-2.0
// Tests that every plan gives the same training. The loss of each step is within 1e-5 of that of one process,
// relatively. The gradients of the first step are within 1e-5, relative to the largest of their layer. The plans'
// processes run for real, with messages over sockets. Every run of the tests takes one plan of each kind for four
// steps; ESPALIER_RUNTIME_ALL=1 (./dev test --runtime) takes all, for 20.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/heterogeneous_plans.h"
#include "runtime/same_run.h"
#include "runtime/small_plans.h"

namespace espalier::runtime::testing::same_training_test {
namespace {

constexpr SequenceParallel kSp = SequenceParallel::megatron, kUlysses = SequenceParallel::ulysses;
constexpr ContextParallelKind kAllToAll = ContextParallelKind::all_to_all;
constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b, kGpipe = ScheduleKind::gpipe, kInterleaved = ScheduleKind::interleaved,
                       kZbH1 = ScheduleKind::zb_h1, kZbV = ScheduleKind::zb_v;

struct Case {
  std::string name;
  const char* config;
  Strategy strategy;
  Schedule schedule;
  std::function<void(Plan&)> change = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Returns the name as gtest writes it.
std::string test_name(const Case& c) {
  std::string name = c.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

Strategy with(Strategy s, const std::function<void(Strategy&)>& change) {
  change(s);
  return s;
}

void overlap_all(Strategy& s) { s.overlap.grad_reduce = s.overlap.param_gather = s.overlap.p2p = true; }
void recompute_all(Strategy& s) { s.recompute = {RecomputeKind::full, 4, {}}; }
void recompute_one(Strategy& s) { s.recompute = {RecomputeKind::full, 1, {}}; }
void recompute_attention(Strategy& s) { s.recompute.kind = RecomputeKind::selective; }
void shard_two(Strategy& s) { s.shard = 2; }

const Schedule kWhole = schedule(k1f1b, 1);
constexpr std::int64_t kLearning = 20;  // steps in which something is learnt

/// Returns cases with unequal shares, stages of unlike sizes and concurrent pipelines.
std::vector<Case> unlike_cases() {
  return {
      {"unequal-samples", kLlama, strategy(1, 2), schedule(k1f1b, 1, 1, 2),
       [](Plan& p) {
         share_out(p, {3, 1}, {});
       }},
      {"unequal-samples-tp2-pp2-zero2", kGpt2, strategy(2, 2, 2, kSp), schedule(k1f1b, 2, 1, 2),
       [](Plan& p) {
         share_out(p, {1, 3}, {});
       }},
      {"unequal-states-zero1-overlapped", kGpt2, with(strategy(1, 4, 1), overlap_all), kWhole,
       [](Plan& p) {
         share_out(p, {}, {4, 1, 2, 1});
       }},
      {"unequal-states-zero2", kLlama, strategy(2, 2, 2), kWhole,
       [](Plan& p) {
         share_out(p, {}, {1, 3});
       }},
      {"unequal-samples-and-states-zero3", kTiedLlama, strategy(1, 2, 3), schedule(k1f1b, 1, 1, 2),
       [](Plan& p) {
         share_out(p, {1, 3}, {5, 2});
       }},
      {"stages-of-2-and-1", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         restage(p, {{3, strategy(1, 2, 1)}, {5, strategy(1, 1)}}, schedule(k1f1b, 2));
       }},
      {"stages-of-1-4-and-2", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         restage(p, {{1, strategy(1, 1)}, {3, strategy(2, 2, 2, kSp)}, {5, strategy(2, 1)}}, schedule(k1f1b, 3, 1, 4));
       }},
      {"stages-of-4-and-1-zb-h1-overlapped", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         restage(p, {{2, with(strategy(1, 4, 3), overlap_all)}, {5, with(strategy(1, 1), overlap_all)}}, schedule(kZbH1, 2));
       }},
      {"stages-tp4-sp-and-dp2", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         restage(p, {{2, strategy(4, 1, 0, kSp)}, {5, strategy(1, 2, 1)}}, schedule(kGpipe, 2, 1, 2));
       }},
      {"pipelines-tp2-and-dp2", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         beside(p, {{5, schedule(k1f1b, 1), {{5, strategy(2, 1)}}}, {3, schedule(k1f1b, 1), {{5, strategy(1, 1)}}}});
       }},
      {"pipelines-of-unlike-stages-tied", kGpt2, strategy(1, 1), kWhole,
       [](Plan& p) {
         beside(p, {{4, schedule(kGpipe, 2), {{2, strategy(2, 1, 0, kSp)}, {5, strategy(2, 1, 0, kSp)}}},
                    {4, schedule(k1f1b, 1), {{5, strategy(1, 2, 3)}}}});
       }},
      {"pipelines-cut-unlike-tied", kTiedLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         beside(p, {{6, schedule(k1f1b, 2), {{1, strategy(1, 2, 1)}, {5, strategy(1, 2, 1)}}},
                    {2, schedule(kZbH1, 3), {{2, strategy(1, 1)}, {3, strategy(1, 1)}, {5, strategy(1, 1)}}}});
       }},
      {"pipelines-three", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         beside(p, {{2, schedule(k1f1b, 1), {{5, with(strategy(1, 2, 2), overlap_all)}}},
                    {3, schedule(k1f1b, 2), {{4, strategy(1, 1)}, {5, strategy(1, 1)}}},
                    {3, schedule(k1f1b, 1), {{5, strategy(4, 1, 0, kSp)}}}});
       }},
  };
}

std::vector<Case> cases() {
  return {
      {"dp2", kLlama, strategy(1, 2), kWhole},
      {"dp8", kGpt2, strategy(1, 8), kWhole},
      {"dp4-micro-batch-2", kLlama, strategy(1, 4), schedule(k1f1b, 1, 1, 2)},
      {"dp4-overlapped", kGpt2, with(strategy(1, 4), overlap_all), kWhole},
      {"zero1", kGpt2, strategy(1, 4, 1), kWhole},
      {"zero1-overlapped", kLlama, with(strategy(1, 4, 1), overlap_all), kWhole},
      {"zero1-hybrid", kGpt2, with(strategy(1, 4, 1), shard_two), kWhole},
      {"zero2", kLlama, strategy(1, 4, 2), kWhole},
      {"zero2-overlapped", kGpt2, with(strategy(1, 2, 2), overlap_all), kWhole},
      {"zero3", kGpt2, strategy(1, 4, 3), kWhole},
      {"zero3-of-8", kTiedLlama, strategy(1, 8, 3), kWhole},
      {"zero3-hybrid", kLlama, with(strategy(1, 4, 3), shard_two), kWhole},
      {"tp2", kLlama, strategy(2, 1), kWhole},
      {"tp4-shared-key-heads", kTiedLlama, strategy(4, 1), kWhole},
      {"tp2-biases", kQwen2, strategy(2, 1), kWhole},
      {"tp2-sp", kGpt2, strategy(2, 1, 0, kSp), kWhole},
      {"tp4-sp-shared-key-heads", kTiedLlama, strategy(4, 1, 0, kSp), kWhole},
      {"ulysses2", kGpt2, strategy(2, 1, 0, kUlysses), kWhole},
      {"ulysses4-shared-key-heads", kTiedLlama, strategy(4, 1, 0, kUlysses), kWhole},
      {"ulysses2-dp2-zero3", kLlama, strategy(2, 2, 3, kUlysses), kWhole},
      {"pp2-1f1b", kLlama, strategy(1, 1), schedule(k1f1b, 2)},
      {"pp4-1f1b-tied", kGpt2, strategy(1, 1), schedule(k1f1b, 4)},
      {"pp4-1f1b-overlapped", kLlama, with(strategy(1, 1), overlap_all), schedule(k1f1b, 4)},
      {"pp4-gpipe", kGpt2, strategy(1, 1), schedule(kGpipe, 4)},
      {"pp2-interleaved", kGpt2, strategy(1, 1), schedule(kInterleaved, 2, 2)},
      {"pp2-interleaved-3", kLlama, strategy(1, 1), schedule(kInterleaved, 2, 3)},
      {"pp4-zb-h1", kLlama, strategy(1, 1), schedule(kZbH1, 4)},
      {"pp2-zb-v", kTiedLlama, strategy(1, 1), schedule(kZbV, 2, 2)},
      {"pp2-uneven", kLlama, strategy(1, 1), schedule(k1f1b, 2),
       [](Plan& p) {
         cut(p, {1, 5});
       }},
      {"pp3-uneven-tied", kGpt2, strategy(1, 2, 1), schedule(k1f1b, 3),
       [](Plan& p) {
         cut(p, {0, 4, 5});
       }},
      {"dp2-tp2", kGpt2, strategy(2, 2), kWhole},
      {"dp2-tp4-sp-zero1", kTiedLlama, strategy(4, 2, 1, kSp), kWhole},
      {"dp2-tp2-sp-zero2", kQwen2, strategy(2, 2, 2, kSp), kWhole},
      {"dp2-tp4-sp-zero3", kTiedLlama, strategy(4, 2, 3, kSp), kWhole},
      {"dp2-pp2", kGpt2, strategy(1, 2), schedule(k1f1b, 2)},
      {"dp4-pp2-zero1-overlapped", kGpt2, with(strategy(1, 4, 1), overlap_all), schedule(k1f1b, 2)},
      {"dp2-pp2-zero3", kGpt2, strategy(1, 2, 3), schedule(k1f1b, 2)},
      {"dp2-pp2-zb-h1-zero1", kGpt2, with(strategy(1, 2, 1), overlap_all), schedule(kZbH1, 2)},
      {"dp2-pp2-zb-v", kGpt2, strategy(1, 2), schedule(kZbV, 2, 2)},
      {"dp2-pp2-pipelines-inside", kLlama, with(strategy(1, 2), [](Strategy& s) { s.order = RankOrder::tp_cp_pp_dp; }),
       schedule(k1f1b, 2)},
      {"tp2-pp2-sp", kLlama, strategy(2, 1, 0, kSp), schedule(k1f1b, 2)},
      {"tp2-pp4", kGpt2, strategy(2, 1), schedule(k1f1b, 4)},
      {"tp2-pp2-interleaved-sp", kGpt2, strategy(2, 1, 0, kSp), schedule(kInterleaved, 2, 2)},
      {"dp2-tp2-pp2-sp-zero1", kLlama, with(strategy(2, 2, 1, kSp), overlap_all), schedule(k1f1b, 2)},
      {"dp2-tp2-pp2-zb-h1", kTiedLlama, strategy(2, 2, 0, kSp), schedule(kZbH1, 2)},
      {"recompute-full", kGpt2, with(strategy(1, 2), recompute_all), kWhole},
      {"recompute-one-pp2", kLlama, with(strategy(1, 1), recompute_one), schedule(k1f1b, 2)},
      {"recompute-selective-tp2", kLlama, with(strategy(2, 1, 0, kSp), recompute_attention), kWhole},
      {"recompute-full-tp2-sp-zero3", kGpt2, with(strategy(2, 2, 3, kSp), recompute_all), kWhole},
      {"recompute-zb-h1", kLlama, with(strategy(1, 1), recompute_all), schedule(kZbH1, 2)},
      {"layers-tp2-and-dp4", kLlama, strategy(2, 2), schedule(k1f1b, 1, 1, 2),
       [](Plan& p) { respread(p, 2, 3, strategy(1, 4)); }},
      {"layers-tp4-sp-and-dp4-zero3", kLlama, strategy(4, 1, 0, kSp), schedule(k1f1b, 1, 1, 4),
       [](Plan& p) { respread(p, 1, 2, strategy(1, 4, 3)); }},
      {"layers-three-kinds-pp2", kLlama, strategy(2, 2, 1), schedule(k1f1b, 2, 1, 2),
       [](Plan& p) {
         respread(p, 2, 3, strategy(1, 4, 2));
         respread(p, 4, 4, strategy(4, 1, 0, kSp));
       }},
      {"layers-recomputed-or-not", kGpt2, strategy(1, 4, 3), kWhole,
       [](Plan& p) { respread(p, 2, 3, with(strategy(1, 4), recompute_all)); }},
      {"layers-ulysses-and-tp", kLlama, strategy(4, 1, 0, kSp), kWhole,
       [](Plan& p) { respread(p, 3, 4, strategy(4, 1, 0, kUlysses)); }},
  };
}

/// Returns cases with mixtures of experts, norms of heads and stretched positions.
std::vector<Case> expert_cases() {
  return {
      {"qwen3-tp2", kQwen3, strategy(2, 1), kWhole},
      {"qwen3-tp4-sp-zero2", kQwen3, strategy(4, 2, 2, kSp), kWhole},
      {"qwen3-ulysses2-pp2", kQwen3, strategy(2, 1, 0, kUlysses), schedule(k1f1b, 2)},
      {"moe-dp2", kMixtral, strategy(1, 2), kWhole},
      {"moe-tp2", kMixtral, strategy(2, 1), kWhole},
      {"moe-tp2-sp", kQwen3Moe, strategy(2, 1, 0, kSp), kWhole},
      {"moe-tp4-shared-key-heads", kQwen3Moe, strategy(4, 1), kWhole},
      {"moe-pp2-zb-h1", kQwen3Moe, strategy(1, 1), schedule(kZbH1, 2)},
      {"moe-ep2", kMixtral, experts(strategy(1, 2), 2), kWhole},
      {"moe-ep8", kQwen3Moe, experts(strategy(1, 8), 8), kWhole},
      {"moe-ep2-dp4", kMixtral, experts(strategy(1, 4), 2), schedule(k1f1b, 1, 1, 2)},
      {"moe-ep2-zero1-overlapped", kQwen3Moe, experts(with(strategy(1, 4, 1), overlap_all), 2), kWhole},
      {"moe-ep2-zero2", kMixtral, experts(strategy(1, 8, 2), 2), kWhole},
      {"moe-ep2-zero3", kQwen3Moe, experts(strategy(1, 4, 3), 2), kWhole},
      {"moe-ep2-zero1-hybrid", kMixtral, experts(with(strategy(1, 8, 1), shard_two), 2), kWhole},
      {"moe-ep4-etp1-tp2", kMixtral, experts(strategy(2, 2), 4), kWhole},
      {"moe-ep4-etp1-tp2-sp-zero1", kMixtral, experts(strategy(2, 2, 1, kSp), 4), kWhole},
      {"moe-etp2-ep2", kMixtral, experts(strategy(2, 2), 2, 2), kWhole},
      {"moe-etp2-ep2-sp-zero3", kQwen3Moe, experts(strategy(2, 4, 3, kSp), 2, 2), kWhole},
      {"moe-etp2-ep2-sp", kMixtral, experts(strategy(2, 2, 0, kSp), 2, 2), kWhole},
      {"moe-ulysses2-ep4-dp2", kMixtral, experts(strategy(2, 2, 0, kUlysses), 4), kWhole},
      {"moe-ep2-pp2", kMixtral, experts(strategy(1, 2), 2), schedule(k1f1b, 2)},
      {"moe-ep2-etp2-sp-pp2-zb-h1", kMixtral, experts(strategy(2, 2, 0, kSp), 2, 2), schedule(kZbH1, 2)},
      {"moe-recompute-ep2-zero3", kMixtral, experts(with(strategy(1, 2, 3), recompute_all), 2), kWhole},
      {"moe-layers-ep2-and-tp2", kMixtral, experts(strategy(1, 2), 2), schedule(k1f1b, 1, 1, 2),
       [](Plan& p) { respread(p, 2, 3, experts(strategy(2, 1, 0, kSp), 2)); }},
  };
}

/// Returns cases with the tokens of a sample on several ranks.
std::vector<Case> context_cases() {
  return {
      {"cp2-ring", kLlama, context(strategy(1, 1), 2), kWhole},
      {"cp4-ring", kGpt2, context(strategy(1, 1), 4), schedule(k1f1b, 1, 1, 2)},
      {"cp8-ring", kTiedLlama, context(strategy(1, 1), 8), kWhole},
      {"cp2-all-to-all", kLlama, context(strategy(1, 1), 2, kAllToAll), kWhole},
      {"cp4-all-to-all", kGpt2, context(strategy(1, 1), 4, kAllToAll), kWhole},
      {"cp4-all-to-all-shared-key-heads", kLlama, context(strategy(1, 1), 4, kAllToAll), kWhole},
      {"cp2-ring-window", kMistral, context(strategy(1, 1), 2), kWhole},
      {"cp4-ring-window-dp2", kMistral, context(strategy(1, 2), 4), kWhole},
      {"cp2-all-to-all-window", kMistral, context(strategy(1, 1), 2, kAllToAll), kWhole},
      {"cp2-ring-tp2", kLlama, context(strategy(2, 1), 2), kWhole},
      {"cp2-ring-tp4-sp", kTiedLlama, context(strategy(4, 1, 0, kSp), 2), kWhole},
      {"cp4-ring-tp2-sp", kGpt2, context(strategy(2, 1, 0, kSp), 4), kWhole},
      {"cp2-all-to-all-tp2-sp", kLlama, context(strategy(2, 1, 0, kSp), 2, kAllToAll), kWhole},
      {"cp2-ring-ulysses2", kLlama, context(strategy(2, 1, 0, kUlysses), 2), kWhole},
      {"cp2-all-to-all-ulysses2", kTiedLlama, context(strategy(2, 1, 0, kUlysses), 2, kAllToAll), kWhole},
      {"cp2-ring-dp2", kLlama, context(strategy(1, 2), 2), kWhole},
      {"cp2-ring-dp2-replicas-inside", kLlama,
       with(context(strategy(1, 2), 2), [](Strategy& s) { s.order = RankOrder::tp_dp_cp_pp; }), kWhole},
      {"cp2-ring-dp2-zero1-overlapped", kGpt2, with(context(strategy(1, 2, 1), 2), overlap_all), kWhole},
      {"cp2-all-to-all-dp2-zero2", kLlama, context(strategy(1, 2, 2), 2, kAllToAll), kWhole},
      {"cp2-ring-dp2-tp2-sp-zero3", kTiedLlama, context(strategy(2, 2, 3, kSp), 2), kWhole},
      {"cp4-ring-zero3", kQwen2, context(strategy(1, 1, 3), 4), kWhole},
      {"cp2-ring-zero1-hybrid", kGpt2, with(context(strategy(1, 2, 1), 2), shard_two), kWhole},
      {"cp2-ring-pp2", kLlama, context(strategy(1, 1), 2), schedule(k1f1b, 2)},
      {"cp2-ring-pp2-tied-zb-h1", kGpt2, context(strategy(1, 2), 2), schedule(kZbH1, 2)},
      {"cp2-all-to-all-pp2-interleaved", kLlama, context(strategy(1, 1), 2, kAllToAll), schedule(kInterleaved, 2, 2)},
      {"cp2-ring-recompute-selective", kLlama, with(context(strategy(1, 1), 2), recompute_attention), kWhole},
      {"cp4-ring-recompute-full-zero3", kGpt2, with(context(strategy(1, 2, 3), 4), recompute_all), kWhole},
      {"cp2-ring-qwen3-tp2", kQwen3, context(strategy(2, 1), 2), kWhole},
      {"moe-cp2-ring", kMixtral, context(strategy(1, 1), 2), kWhole},
      {"moe-cp2-ring-ep4-dp2", kMixtral, experts(context(strategy(1, 2), 2), 4), kWhole},
      {"moe-cp2-all-to-all-ep2-zero2", kQwen3Moe, experts(context(strategy(1, 2, 2), 2, kAllToAll), 2), kWhole},
      {"moe-cp2-ring-tp2-sp-ep2-etp2", kMixtral, experts(context(strategy(2, 1, 0, kSp), 2), 2, 2), kWhole},
      {"moe-cp2-ring-tp2-ep4-etp1", kMixtral, experts(context(strategy(2, 1), 2), 4), kWhole},
      {"layers-cp4-and-dp4", kLlama, strategy(1, 4), schedule(k1f1b, 1, 1, 1),
       [](Plan& p) { respread(p, 2, 3, context(strategy(1, 1), 4)); }},
      {"layers-cp-of-both-kinds-and-tp", kLlama, context(strategy(1, 1), 4), schedule(k1f1b, 1, 1, 4),
       [](Plan& p) {
         respread(p, 1, 1, context(strategy(2, 1, 0, kSp), 2));
         respread(p, 2, 2, context(strategy(1, 1), 4, kAllToAll));
         respread(p, 3, 4, context(strategy(1, 2, 2), 2));
       }},
      {"stages-cp2-and-tp4-and-cp2", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         restage(p, {{1, context(strategy(1, 1), 2)}, {3, strategy(4, 1, 0, kSp)}, {5, context(strategy(1, 1, 1), 2, kAllToAll)}},
                 schedule(k1f1b, 3));
       }},
      {"pipelines-cp2-and-dp2", kLlama, strategy(1, 1), kWhole,
       [](Plan& p) {
         beside(p, {{5, schedule(k1f1b, 2), {{2, context(strategy(1, 1), 2)}, {5, context(strategy(1, 1), 2)}}},
                    {3, schedule(k1f1b, 1), {{5, strategy(1, 1)}}}});
       }},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all = cases();
  for (const auto& more : {unlike_cases(), expert_cases(), context_cases()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Selects one case of each kind, and cases that failed during development.
bool every_time(const Case& c) {
  static const std::set<std::string> names{"dp4-overlapped",
                                           "zero1-hybrid",
                                           "zero2-overlapped",
                                           "zero3",
                                           "tp4-sp-shared-key-heads",
                                           "ulysses2-dp2-zero3",
                                           "pp4-1f1b-tied",
                                           "pp2-interleaved",
                                           "pp4-zb-h1",
                                           "pp2-zb-v",
                                           "dp2-tp2-pp2-sp-zero1",
                                           "recompute-full-tp2-sp-zero3",
                                           "tp2-biases",
                                           "pp4-gpipe",
                                           "layers-three-kinds-pp2",
                                           "pp3-uneven-tied",
                                           "unequal-samples-and-states-zero3",
                                           "unequal-states-zero1-overlapped",
                                           "stages-of-1-4-and-2",
                                           "pipelines-of-unlike-stages-tied",
                                           "pipelines-cut-unlike-tied",
                                           "pipelines-three",
                                           "qwen3-tp4-sp-zero2",
                                           "moe-tp4-shared-key-heads",
                                           "moe-ep2-zero1-overlapped",
                                           "moe-ep4-etp1-tp2",
                                           "moe-etp2-ep2-sp-zero3",
                                           "moe-ep2-etp2-sp-pp2-zb-h1",
                                           "cp4-ring",
                                           "cp4-all-to-all-shared-key-heads",
                                           "layers-cp-of-both-kinds-and-tp",
                                           "moe-cp2-ring-tp2-sp-ep2-etp2"};
  return names.count(c.name) > 0 || runs_all();
}

Plan planned(const Case& c) {
  Plan plan = plan_of(c.config, c.strategy, c.schedule);
  if (c.change) c.change(plan);
  return plan;
}

std::string alone(const char* config) { return "alone-" + std::to_string(std::hash<std::string>()(config)); }

/// Holds all runs, which are made once.
const std::map<std::string, Outcome>& outcomes() {
  static const std::map<std::string, Outcome> all = [] {
    std::vector<Assignment> work;
    const bool learns = wanted("LossFalls");
    std::set<std::string> configs;
    if (learns) configs.insert(kLlama);
    for (const Case& c : all_cases()) {
      if (!wanted("LossesAndGradients/" + test_name(c)) || !every_time(c)) continue;
      work.push_back({c.name, planned(c), {}});
      work.back().options.steps = steps_of_a_run();
      configs.insert(c.config);
    }
    for (const std::string& config : configs) {
      work.push_back({alone(config.c_str()), plan_of(config.c_str(), strategy(1, 1), kWhole), {}});
      work.back().options.steps = learns && config == kLlama ? kLearning : steps_of_a_run();
    }
    return run_all(work, 500);
  }();
  return all;
}

class SameTraining : public ::testing::TestWithParam<Case> {};

TEST_P(SameTraining, LossesAndGradients) {
  const Case& c = GetParam();
  if (!every_time(c)) GTEST_SKIP() << "one plan of each kind; ESPALIER_RUNTIME_ALL=1 runs all";
  ASSERT_TRUE(validate(planned(c)).ok()) << validate(planned(c)).error().message();
  const Outcome &expected = outcomes().at(alone(c.config)), &found = outcomes().at(c.name);
  expect_same_run(expected, found, static_cast<std::size_t>(steps_of_a_run()));
}

INSTANTIATE_TEST_SUITE_P(Plans, SameTraining, ::testing::ValuesIn(all_cases()),
                         [](const auto& of) { return test_name(of.param); });

/// Synthetic tokens can be learnt, and the loss falls: they have four likely followers, and the loss begins at ln
/// 96 = 4.564.
TEST(Training, LossFalls) {
  const Outcome& run = outcomes().at(alone(kLlama));
  ASSERT_EQ(run.steps.size(), static_cast<std::size_t>(kLearning)) << run.errors;
  EXPECT_NEAR(run.steps.front().loss, std::log(96.0), 0.05);
  EXPECT_LT(run.steps.back().loss, run.steps.front().loss - 0.1);
}

}  // namespace
}  // namespace espalier::runtime::testing::same_training_test
