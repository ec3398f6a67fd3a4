// SPDX-License-Identifier: Apache-2.0
// rapidcheck generators of configurations and plans for the tests of this module.
#pragma once

#include <rapidcheck.h>

#include <utility>
#include <vector>

#include "plan/dimension.h"

namespace espalier::plan_test {

/// Any configuration: small degrees, mostly powers of two, every enum; legal or not.
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

/// A configuration made to fit `devices` devices and `global_batch` samples more often than by chance.
inline rc::Gen<std::pair<Strategy, Schedule>> likely_configuration(std::int64_t devices, std::int64_t global_batch) {
  return rc::gen::map(any_configuration(), [devices, global_batch](std::pair<Strategy, Schedule> x) {
    auto& [s, c] = x;
    const std::int64_t rest = std::int64_t{s.tp} * s.cp * c.stages;
    if (devices % rest == 0) s.dp = static_cast<std::int32_t>(devices / rest);
    if (s.cp == 1) s.cp_kind = ContextParallelKind::ring;
    if (s.tp == 1) s.sp = SequenceParallel::none;
    if (c.stages == 1) c.kind = ScheduleKind::one_f_one_b;
    if (c.kind == ScheduleKind::zb_v) c.virtual_stages = 2;
    if (c.kind == ScheduleKind::one_f_one_b || c.kind == ScheduleKind::gpipe || c.kind == ScheduleKind::zb_h1)
      c.virtual_stages = 1;
    if (s.zero == 0) s.shard = 1;
    if (s.zero > 0 && s.data_ranks() > 1 && s.shard == 1) s.shard = static_cast<std::int32_t>(s.data_ranks());
    if (s.dp == 1 || c.stages == 1 || s.cp == 1) s.order = RankOrder::tp_cp_dp_pp;
    if (s.recompute.kind != RecomputeKind::full) s.recompute.layers = 0;
    if (s.data_ranks() == 1) s.overlap.grad_reduce = false;
    if (s.zero == 0) s.overlap.param_gather = false;
    if (c.stages == 1) s.overlap.p2p = false;
    if (s.sp != SequenceParallel::megatron) s.overlap.tp = false;
    const std::int64_t step = std::int64_t{c.micro_batch} * s.dp;
    if (global_batch % step == 0) c.microbatches = static_cast<std::int32_t>(global_batch / step);
    return x;
  });
}

/// A hundred of them, so that a property sees enough legal ones.
inline rc::Gen<std::vector<std::pair<Strategy, Schedule>>> many(const rc::Gen<std::pair<Strategy, Schedule>>& one) {
  return rc::gen::container<std::vector<std::pair<Strategy, Schedule>>>(100, one);
}

}  // namespace espalier::plan_test
