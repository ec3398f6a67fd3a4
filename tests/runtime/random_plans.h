// SPDX-License-Identifier: Apache-2.0
// Generates random small plans on up to eight devices. They vary concurrent pipelines, stages of unlike sizes,
// schedules, tensor and context parallelism of all kinds, and ZeRO with whole and hybrid shard groups. They
// also vary overlap, recomputation, unequal shares, and layers of other strategies. A seed gives the same plan
// with any libstdc++.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/heterogeneous_plans.h"

namespace espalier::runtime::testing {

class RandomPlan {
 public:
  explicit RandomPlan(std::uint32_t seed) : random_(seed) {}

  /// Holds the model's configuration, one of small_plans.h.
  const char* config = kLlama;
  Plan plan() {
    config = any<const char*>({kLlama, kTiedLlama, kGpt2, kQwen2});
    const Model model = model_of(config);
    layers_ = static_cast<std::int32_t>(model.layers.size());
    tied_ = model.tied_embeddings;
    Plan plan = plan_of(config, strategy(1, 1), schedule(ScheduleKind::one_f_one_b, 1));
    plan.pipelines.clear();
    const int count = any({1, 1, 1, 2, 2, 3});
    for (int p = 0; p < count; ++p) {
      const std::int64_t samples = p + 1 == count ? left_ : any<std::int64_t>({1, 2, 3, 4});
      const std::int64_t used = std::min(samples, left_ - (count - p - 1));
      left_ -= used;
      room_ = (8 - next_) / (count - p);
      plan.pipelines.push_back(pipeline(used, p));
    }
    if (count == 1) share_unequally(plan);
    return plan;
  }

 private:
  template <class T>
  T any(std::initializer_list<T> of) {
    return of.begin()[random_() % of.size()];
  }
  bool often() { return random_() % 2 == 0; }

  /// Returns samples of a micro-batch that divide `samples`, a multiple of `dp`; 0 if there are none.
  std::int64_t microbatch(std::int64_t samples, std::int64_t dp) {
    std::vector<std::int64_t> fitting;
    for (std::int64_t b = dp; b <= samples; b += dp)
      if (samples % b == 0) fitting.push_back(b);
    return fitting.empty() ? 0 : fitting[random_() % fitting.size()];
  }

  void decorate(Strategy& s) {
    s.sp = SequenceParallel::none;
    if (s.tp > 1) s.sp = any({SequenceParallel::none, SequenceParallel::megatron, SequenceParallel::ulysses});
    if (s.cp > 1 && s.tp * s.cp <= 4) s.cp_kind = any({ContextParallelKind::ring, ContextParallelKind::all_to_all});
    if (s.cp > 1 && s.dp > 1 && often()) s.order = RankOrder::tp_dp_cp_pp;
    s.zero = ZeroStage{any({0, 1, 2, 3})};
    s.shard = 1;
    const auto ranks = static_cast<std::int32_t>(s.data_ranks());
    if (s.shards_optimizer()) {
      s.shard = ranks % 2 == 0 && ranks > 2 && often() ? ranks / 2 : ranks;
      if (ranks == 1) s.zero = ZeroStage::none;
    }
    s.overlap.grad_reduce = often();
    s.overlap.param_gather = often();
    const int recomputed = any({0, 0, 1, 2});
    if (recomputed == 1) s.recompute.kind = RecomputeKind::selective;
    if (recomputed == 2) s.recompute = {RecomputeKind::full, any({1, 4}), {}};
  }

  /// Returns degrees on at most `room` devices whose replicas divide `samples`.
  Strategy degrees(std::int64_t room, std::int64_t samples) {
    Strategy s;
    for (int attempt = 0; attempt < 20; ++attempt) {
      s.tp = any({1, 1, 2, 2, 4});
      s.dp = any({1, 1, 2, 3, 4});
      s.cp = any({1, 1, 1, 2, 4});
      if (s.devices() <= room && samples % s.dp == 0) return s;
    }
    s.tp = s.dp = s.cp = 1;
    return s;
  }

  Pipeline pipeline(std::int64_t samples, int id) {
    const auto stages = static_cast<std::int32_t>(std::min<std::int64_t>(any({1, 1, 2, 2, 3, 4}), room_));
    ScheduleKind any_kind = ScheduleKind::interleaved;
    while (has_chunks(any_kind)) any_kind = kScheduleKinds[random_() % kScheduleKinds.size()];
    Schedule kind = schedule(stages == 1 ? ScheduleKind::one_f_one_b : any_kind, stages);
    std::vector<Strategy> strategies;
    std::int64_t room = room_;
    for (std::int32_t i = 0; i < stages; ++i) {
      // A tied table has one strategy on the first and the last stage.
      const bool repeats = i > 0 && (often() || (tied_ && i + 1 == stages));
      const Strategy& first = strategies.empty() ? Strategy{} : strategies.front();
      std::int64_t spare = room - (stages - i - 1);
      if (tied_ && i + 1 < stages && i > 0) spare = room - first.tp * first.cp * first.dp - (stages - i - 2);
      if (tied_ && i == 0 && stages > 1) spare = (room - (stages - 2)) / 2;
      Strategy s = repeats && first.tp * first.cp * first.dp <= spare ? first : degrees(spare, samples);
      if (!(s == first) || i == 0) decorate(s);
      room -= s.devices();
      strategies.push_back(s);
    }
    std::int64_t common = 1;
    for (const Strategy& s : strategies) common = std::lcm(common, std::int64_t{s.dp});
    std::int64_t batch = microbatch(samples, common);
    if (batch == 0) {  // no micro-batch suits all stages: one replica each
      for (Strategy& s : strategies) {
        s.dp = 1;
        decorate(s);
      }
      if (tied_) strategies.back() = strategies.front();
      batch = microbatch(samples, 1);
    }
    const bool overlapped = often();
    for (Strategy& s : strategies) s.overlap.p2p = overlapped;
    kind.micro_batch = static_cast<std::int32_t>(batch / strategies.front().dp);
    return pipeline_of(cut_up(strategies), kind, samples, next_, id);
  }

  /// Returns the last layers of stages, one layer each at least.
  std::vector<StageOf> cut_up(const std::vector<Strategy>& strategies) {
    std::vector<std::int32_t> lasts;
    for (std::int32_t l = 0; l + 1 < layers_; ++l) lasts.push_back(l);
    std::shuffle(lasts.begin(), lasts.end(), random_);
    lasts.resize(strategies.size() - 1);
    lasts.push_back(layers_ - 1);
    std::sort(lasts.begin(), lasts.end());
    std::vector<StageOf> stages;
    for (std::size_t i = 0; i < strategies.size(); ++i) stages.push_back({lasts[i], strategies[i]});
    return stages;
  }

  void share_unequally(Plan& plan) {
    Pipeline& pipeline = plan.only_pipeline();
    const Strategy first = pipeline.strategy();
    const std::int64_t samples = pipeline.samples_per_microbatch();
    for (const Stage& stage : pipeline.stages)
      if (stage.chunks.front().ranges.front().strategy.dp != first.dp) return;
    if (first.dp > 1 && often() && samples > first.dp) {
      std::vector<std::int64_t> shares(static_cast<std::size_t>(first.dp), 1);
      shares[random_() % shares.size()] += samples - first.dp;
      for (Stage& stage : pipeline.stages) stage.samples_per_replica = shares;
    }
    const bool unequal = often();
    for (Stage& stage : pipeline.stages) {
      const Strategy& s = stage.chunks.front().ranges.front().strategy;
      if (!unequal || !s.shards_optimizer() || (tied_ && !(s == first))) continue;
      for (std::int32_t k = 0; k < s.shard; ++k) stage.state_shares.push_back(1 + k * 2 % 5);
    }
  }

  std::mt19937 random_;
  std::int32_t layers_ = 6;
  bool tied_ = false;
  std::int64_t next_ = 0, room_ = 8, left_ = kSamples;
};

}  // namespace espalier::runtime::testing
