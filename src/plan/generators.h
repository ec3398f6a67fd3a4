// SPDX-License-Identifier: Apache-2.0
// rapidcheck generators of configurations and plans for the tests of this module.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/dimension.h"

namespace espalier::plan_test {

/// Generates any configuration: small degrees, mostly powers of two, every enum; legal or not.
inline rc::Gen<std::pair<Strategy, Schedule>> any_configuration() {
  return rc::gen::exec([] {
    Strategy s;
    Schedule c;
    for (int i = 0; i < kDimensions; ++i) {
      const auto d = static_cast<Dimension>(i);
      std::int64_t value = 0;
      if (enum_size(d) > 0) {
        value = *rc::gen::inRange<std::int64_t>(0, enum_size(d));
      } else if (d == Dimension::zero) {
        value = *rc::gen::inRange<std::int64_t>(0, 4);
      } else if (d == Dimension::recompute_layers) {
        value = *rc::gen::inRange<std::int64_t>(0, 5);
      } else {
        value = *rc::gen::weightedElement<std::int64_t>({{8, 1}, {5, 2}, {3, 4}, {1, 3}, {1, 8}, {1, 6}});
      }
      set(d, value, s, c);
    }
    c.microbatches = *rc::gen::element<std::int32_t>(1, 2, 4, 8);
    return std::make_pair(s, c);
  });
}

/// Generates a configuration that fits `devices` devices and `global_batch` samples more often than by chance.
inline rc::Gen<std::pair<Strategy, Schedule>> likely_configuration(std::int64_t devices, std::int64_t global_batch) {
  return rc::gen::map(any_configuration(), [devices, global_batch](std::pair<Strategy, Schedule> x) {
    auto& [s, c] = x;
    const std::int64_t rest = std::int64_t{s.tp} * s.cp * c.stages;
    if (devices % rest == 0) s.dp = static_cast<std::int32_t>(devices / rest);
    if (s.cp == 1) s.cp_kind = ContextParallelKind::ring;
    if (s.tp == 1) s.sp = SequenceParallel::none;
    if (c.stages == 1) c.kind = ScheduleKind::one_f_one_b;
    if (c.kind == ScheduleKind::zb_v) c.virtual_stages = 2;
    if (!has_chunks(c.kind)) c.virtual_stages = 1;
    if (!s.shards_optimizer()) s.shard = 1;
    if (s.shards_optimizer() && s.data_ranks() > 1 && s.shard == 1) s.shard = static_cast<std::int32_t>(s.data_ranks());
    if (s.dp == 1 || c.stages == 1 || s.cp == 1) s.order = RankOrder::tp_cp_dp_pp;
    if (s.recompute.kind != RecomputeKind::full) s.recompute.layers = 0;
    if (s.data_ranks() == 1) s.overlap.grad_reduce = false;
    if (!s.shards_optimizer()) s.overlap.param_gather = false;
    if (c.stages == 1) s.overlap.p2p = false;
    if (s.sp != SequenceParallel::megatron) s.overlap.tp = false;
    const std::int64_t step = std::int64_t{c.micro_batch} * s.dp;
    if (global_batch % step == 0) c.microbatches = static_cast<std::int32_t>(global_batch / step);
    return x;
  });
}

/// Generates a hundred of them, so that a property sees enough legal ones.
inline rc::Gen<std::vector<std::pair<Strategy, Schedule>>> many(const rc::Gen<std::pair<Strategy, Schedule>>& one) {
  return rc::gen::container<std::vector<std::pair<Strategy, Schedule>>>(100, one);
}

/// Generates a strategy over `devices` (a power of two), whose dp divides `samples`; every enum and flag.
inline Strategy strategy_over(std::int32_t devices, std::int64_t samples) {
  Strategy s = (*any_configuration()).first;
  s.ep = s.etp = 1;
  s.tp = *rc::gen::element(1, 2, 4);
  s.tp = std::min(s.tp, devices);
  s.dp = *rc::gen::element(1, 2, 4);
  s.dp = static_cast<std::int32_t>(std::min<std::int64_t>({s.dp, devices / s.tp, samples}));
  s.cp = devices / s.tp / s.dp;
  s.zero = ZeroStage{s.data_ranks() > 1 ? *rc::gen::inRange(0, 4) : 0};
  s.shard = !s.shards_optimizer() ? 1 : static_cast<std::int32_t>(s.data_ranks());
  if (s.shard > 2 && *rc::gen::arbitrary<bool>()) s.shard /= 2;
  const bool full = s.recompute.kind == RecomputeKind::full;
  s.recompute.layers = full ? std::max(1, s.recompute.layers) : 0;
  s.partition = BlockPartition(*rc::gen::element<std::string>("", "", "attn.qkv P2; mlp.up K,K"));
  return s;
}

/// Generates a plan that is valid by itself (validate), of any schedule, whose chunks hold one to three ranges of one
/// to three layers each.
inline Plan any_layered_plan() {
  constexpr std::int64_t kSamples = 8;
  Plan plan;
  plan.engine = "generic";
  Schedule& c = plan.only_pipeline().schedule;
  c.kind = *rc::gen::elementOf(kScheduleKinds);
  c.stages = *rc::gen::element(2, 4);
  if (c.kind == ScheduleKind::interleaved) c.virtual_stages = *rc::gen::element(2, 3);
  if (c.kind == ScheduleKind::zb_v) c.virtual_stages = 2;
  c.microbatches = 2 * c.stages;
  plan.training.global_batch = kSamples * c.microbatches;
  plan.only_pipeline().samples = plan.training.global_batch;
  const std::int32_t devices = *rc::gen::element(2, 4, 8);
  for (std::int32_t i = 0; i < c.stages; ++i) {
    plan.only_pipeline().stages.push_back(
        {{{i * devices, devices, 1}}, std::vector<Chunk>(static_cast<std::size_t>(c.virtual_stages))});
  }
  std::int32_t layer = 0;
  for (std::int32_t k = 0; k < c.chunks(); ++k) {
    const ChunkPlace place = place_of_chunk(c, k);
    Chunk& chunk =
        plan.only_pipeline().stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.local_chunk)];
    for (int ranges = *rc::gen::inRange(1, 4); ranges > 0; --ranges) {
      const std::int32_t layers = *rc::gen::inRange(1, 4);
      Strategy strategy = strategy_over(devices, kSamples);
      // Stages are runs of devices here.
      if (strategy.order == RankOrder::tp_cp_pp_dp) strategy.order = RankOrder::tp_cp_dp_pp;
      chunk.ranges.push_back({layer, layer + layers - 1, strategy});
      layer += layers;
    }
  }
  c.micro_batch = static_cast<std::int32_t>(kSamples / plan.strategy().dp);
  return plan;
}

}  // namespace espalier::plan_test
