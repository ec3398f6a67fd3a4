// SPDX-License-Identifier: Apache-2.0
// Provides plans whose layers have their own strategies.
#pragma once

#include "suite.h"

namespace espalier::mutation {

using Ranges = std::vector<std::vector<LayerRange>>;

inline Strategy spread(std::int32_t dp, std::int32_t cp, std::int32_t tp, std::int32_t zero = 0) {
  Strategy s;
  s.dp = dp;
  s.cp = cp;
  s.tp = tp;
  s.zero = ZeroStage{zero};
  if (tp > 1) s.sp = SequenceParallel::megatron;
  if (zero > 0) s.shard = static_cast<std::int32_t>(s.data_ranks());
  return s;
}
inline Strategy recomputed(Strategy s, RecomputeKind kind, std::int32_t layers = 0) {
  s.recompute = {kind, layers};
  return s;
}
inline Strategy beside(Strategy s) {
  s.overlap = {s.data_ranks() > 1, s.shards_optimizer(), true, false};
  return s;
}

// Returns embedding, two blocks and head on two devices: data-parallel, split, data-parallel again.
inline Case smallest() {
  return make_layered_case(model_of(gpt(2)), {{{0, 0, spread(2, 1, 1)}, {1, 2, spread(1, 1, 2)}, {3, 3, spread(2, 1, 1)}}},
                           schedule_of(ScheduleKind::one_f_one_b, 1, 1, 2));
}

inline std::vector<Case> layered_cases() {
  using K = ScheduleKind;
  DecoderShape untied = gpt(6);
  untied.tied = false;
  const Model model = model_of(untied);
  std::vector<Case> cases;
  const auto add = [&](const Model& m, const Ranges& chunks, const Schedule& schedule) {
    cases.push_back(make_layered_case(m, chunks, schedule));
    EXPECT_TRUE(cases.back().check().ok()) << broken(cases.back().check());
    EXPECT_FALSE(cases.back().plan.uniform());
  };
  // This plan has four samples on four devices, with everything overlapped.
  const Strategy full = recomputed(spread(2, 1, 2, 2), RecomputeKind::full, 2),
                 some = recomputed(spread(1, 1, 4), RecomputeKind::selective);
  add(model,
      {{{0, 1, beside(spread(4, 1, 1))}, {2, 3, beside(full)}}, {{4, 5, beside(some)}, {6, 7, beside(spread(4, 1, 1, 3))}}},
      schedule_of(K::one_f_one_b, 2, 1, 4));
  // This plan has two samples on two devices, without overlap.
  add(model,
      {{{0, 1, spread(2, 1, 1)}},
       {{2, 2, spread(1, 1, 2)}, {3, 3, spread(1, 2, 1)}},
       {{4, 5, spread(2, 1, 1, 1)}},
       {{6, 7, spread(1, 1, 2)}}},
      schedule_of(K::interleaved, 2, 2, 4));
  // Two samples are on four devices here, so dp 4 is not possible.
  add(model, {{{0, 2, spread(2, 1, 2)}, {3, 3, spread(1, 1, 4)}}, {{4, 7, spread(2, 2, 1)}}}, schedule_of(K::gpipe, 2, 1, 4));
  add(model_of(gpt(6)), {{{0, 3, spread(2, 1, 1, 1)}}, {{4, 5, spread(1, 1, 2)}, {6, 7, spread(2, 1, 1, 1)}}},
      schedule_of(K::zb_h1, 2, 1, 4));
  // Tied models have one strategy for embedding and head, and any between them.
  const Model tied = model_of(gpt(6));
  const Strategy gathered = beside(spread(4, 1, 1, 3));
  add(tied, {{{0, 1, gathered}, {2, 3, beside(full)}}, {{4, 5, beside(some)}, {6, 7, gathered}}},
      schedule_of(K::one_f_one_b, 2, 1, 4));
  add(tied,
      {{{0, 1, spread(2, 1, 1)}},
       {{2, 2, spread(1, 1, 2)}, {3, 3, spread(1, 2, 1)}},
       {{4, 5, spread(2, 1, 1, 1)}},
       {{6, 6, spread(1, 1, 2)}, {7, 7, spread(2, 1, 1)}}},
      schedule_of(K::interleaved, 2, 2, 4));
  add(tied,
      {{{0, 0, spread(2, 1, 1)}, {1, 1, spread(1, 1, 2)}},
       {{2, 3, spread(2, 1, 1, 1)}},
       {{4, 5, spread(2, 1, 1)}},
       {{6, 7, spread(2, 1, 1)}}},
      schedule_of(K::zb_v, 2, 2, 4));
  cases.push_back(smallest());
  return cases;
}

}  // namespace espalier::mutation
