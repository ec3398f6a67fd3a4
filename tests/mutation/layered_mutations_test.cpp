// SPDX-License-Identifier: Apache-2.0
// Every fault of ranges of layers is found by name.
#include "layered_cases.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

/// Returns the ranges of the plan, in the order of the document.
std::vector<LayerRange*> ranges_of(Plan& plan) {
  std::vector<LayerRange*> out;
  for (Stage& stage : plan.only_pipeline().stages)
    for (Chunk& chunk : stage.chunks)
      for (LayerRange& range : chunk.ranges) out.push_back(&range);
  return out;
}

/// Changes the last matching range and lowers the program again, as a planner would.
Break last_range(const std::function<bool(const Strategy&)>& wanted, const std::function<void(LayerRange&)>& change) {
  return [=](Case& c) {
    const std::vector<LayerRange*> ranges = ranges_of(c.plan);
    for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
      if (!wanted((*range)->strategy)) continue;
      change(**range);
      c.lower_again();
      return true;
    }
    return false;
  };
}
/// Applies only where embedding and head do not share a table, whose layout is checked by another rule.
Break untied(const Break& change) {
  return [change](Case& c) { return !c.model.tied_embeddings && change(c); };
}
/// Applies only where the last range of the document ends with the head.
Break head_last(const Break& change) {
  return [change](Case& c) {
    const std::int32_t last = ranges_of(c.plan).back()->last;
    return last + 1 == static_cast<std::int32_t>(c.model.layers.size()) && change(c);
  };
}
bool any(const Strategy&) { return true; }
bool split_by_cp(Case& c) {
  const std::vector<LayerRange*> ranges = ranges_of(c.plan);
  return std::any_of(ranges.begin(), ranges.end(), [](const LayerRange* r) { return r->strategy.cp > 1; });
}

/// Moves the border between two ranges of one chunk by a layer.
Break move_border(bool claims) {
  return [claims](Case& c) {
    for (Stage& stage : c.plan.only_pipeline().stages)
      for (Chunk& chunk : stage.chunks)
        for (std::size_t i = 0; i + 1 < chunk.ranges.size(); ++i) {
          LayerRange &a = chunk.ranges[i], &b = chunk.ranges[i + 1];
          if (b.first == b.last || (claims && a.strategy.zero == b.strategy.zero)) continue;
          ++a.last;
          ++b.first;
          if (b.strategy.recompute.kind == RecomputeKind::full) --b.strategy.recompute.layers;
          return true;
        }
    return false;
  };
}

/// Changes two ranges of one chunk, the first chunk that has several.
bool with_two(Case& c, const std::function<void(Chunk&)>& change) {
  for (Stage& stage : c.plan.only_pipeline().stages)
    for (Chunk& chunk : stage.chunks)
      if (chunk.ranges.size() > 1) {
        change(chunk);
        return true;
      }
  return false;
}

}  // namespace

std::vector<Mutation> range_structure_mutations() {
  return {
      {"a gap between two ranges", "coverage", [](Case& c) { return with_two(c, [](Chunk& x) { ++x.ranges[1].first; }); }},
      {"a layer in two ranges", "coverage", [](Case& c) { return with_two(c, [](Chunk& x) { ++x.ranges[0].last; }); }},
      {"ranges in the wrong order", "coverage",
       [](Case& c) { return with_two(c, [](Chunk& x) { std::swap(x.ranges[0], x.ranges[1]); }); }},
      {"a range is missing", "coverage", [](Case& c) { return with_two(c, [](Chunk& x) { x.ranges.pop_back(); }); }},
      {"a range ends before it begins", "coverage",
       [](Case& c) {
         return with_two(c, [](Chunk& x) {
           std::swap(x.ranges[1].first, x.ranges[1].last);
           --x.ranges[1].last;
         });
       }},
      {"a chunk without ranges", "schedule",
       [](Case& c) {
         c.plan.only_pipeline().stages.back().chunks.back().ranges.clear();
         return true;
       }},
      {"samples that a range's replicas cannot share", "strategies",
       last_range([](const Strategy& s) { return s.tp == 4 && s.dp == 1; },
                  [](LayerRange& r) {
                    r.strategy = spread(8, 1, 1);
                    r.strategy.dp = 8;
                  })},
      {"one range does not overlap its gradients", "strategies",
       last_range([](const Strategy& s) { return s.overlap.grad_reduce; },
                  [](LayerRange& r) { r.strategy.overlap.grad_reduce = false; })},
      {"one range overlaps its gradients alone", "strategies",
       last_range([](const Strategy& s) { return !s.overlap.grad_reduce && s.data_ranks() > 1; },
                  [](LayerRange& r) { r.strategy.overlap.grad_reduce = true; })},
      {"one range gathers alone", "strategies",
       last_range([](const Strategy& s) { return s.overlap.param_gather; },
                  [](LayerRange& r) { r.strategy.overlap.param_gather = false; })},
      {"one range sends otherwise", "strategies",
       last_range(any, [](LayerRange& r) { r.strategy.overlap.p2p = !r.strategy.overlap.p2p; })},
      {"one range overlaps its tp collectives alone", "strategies",
       [](Case& c) {
         // Changes one of at least two ranges with sequence parallelism.
         const std::vector<LayerRange*> ranges = ranges_of(c.plan);
         std::vector<LayerRange*> split;
         for (LayerRange* r : ranges)
           if (r->strategy.sp == SequenceParallel::megatron) split.push_back(r);
         return split.size() > 1 && (split.back()->strategy.overlap.tp = true);
       }},
      {"a range names an operator partition", "operator-partition",
       last_range(any, [](LayerRange& r) { r.strategy.partition = BlockPartition("P2x2"); })},
      {"a range on half of the devices", "degrees",
       last_range([](const Strategy& s) { return s.tp > 1; }, [](LayerRange& r) { r.strategy.tp /= 2; })},
      {"a range on devices that are not there", "degrees", last_range(any, [](LayerRange& r) { r.strategy.cp *= 2; })},
      // The listed devices stay: the plan is priced with them, but the program was lowered from others.
      {"a range whose stages would be others", "program-layers",
       [](Case& c) {
         const std::vector<LayerRange*> ranges = ranges_of(c.plan);
         const auto at = std::find_if(ranges.begin(), ranges.end(), [](LayerRange* r) { return r->strategy.dp > 1; });
         if (c.plan.only_pipeline().stages.size() == 1 || at == ranges.end()) return false;
         (*at)->strategy.order = RankOrder::tp_cp_pp_dp;
         return true;
       }},
  };
}

std::vector<Mutation> range_rule_mutations() {
  const auto split = [](const Strategy& s) { return s.tp > 1; };
  return {
      {"more blocks recomputed than the range has", "recompute",
       last_range([](const Strategy& s) { return s.recompute.kind == RecomputeKind::full; },
                  [](LayerRange& r) { ++r.strategy.recompute.layers; })},
      {"a head recomputed as a block", "recompute",
       head_last(last_range(any,
                            [](LayerRange& r) {
                              r.strategy.recompute = {RecomputeKind::full, r.last - r.first + 1};
                            }))},
      {"a range shards over ranks it does not have", "sharding",
       last_range([](const Strategy& s) { return s.shards_optimizer(); }, [](LayerRange& r) { r.strategy.shard = 3; })},
      {"a range shards without ZeRO", "sharding",
       last_range([](const Strategy& s) { return !s.shards_optimizer() && s.dp > 1; },
                  [](LayerRange& r) { r.strategy.shard = 2; })},
      {"a range with ZeRO-3 in a zero-bubble schedule", "sharding",
       [](Case& c) {
         if (c.plan.only_pipeline().schedule.kind != ScheduleKind::zb_h1) return false;
         ranges_of(c.plan).back()->strategy = spread(2, 1, 1, 3);
         return true;
       }},
      {"a range with experts", "experts", last_range(split, [](LayerRange& r) { r.strategy.ep = 2; })},
      {"a range cuts the sequence without tp", "sequence-parallel",
       last_range([](const Strategy& s) { return s.tp == 1; }, [](LayerRange& r) { r.strategy.sp = SequenceParallel::ulysses; })},
      {"a range cuts the sequence too often", "sequence",
       [](Case& c) { return split_by_cp(c) && (c.plan.training.sequence.main = 126, true); }},
      {"a range gives cp 1 a kind", "heads",
       last_range([](const Strategy& s) { return s.cp == 1; },
                  [](LayerRange& r) { r.strategy.cp_kind = ContextParallelKind::all_to_all; })},
      {"the first range takes other samples than the batch", "batch",
       [](Case& c) {
         LayerRange& first = *ranges_of(c.plan).front();
         return first.strategy.tp == 2 && (first.strategy = spread(2 * first.strategy.dp, 1, 1), true);
       }},
  };
}

std::vector<Mutation> range_claim_mutations() {
  return {
      {"a layer changes its range, static memory does not", "static-memory", move_border(true)},
      {"a layer changes its range, activations do not", "saved-activations",
       [](Case& c) {
         return c.plan.only_pipeline().stages.size() == 2 && c.plan.only_pipeline().schedule.kind == ScheduleKind::one_f_one_b &&
                move_border(false)(c);
       }},
      {"fewer blocks recomputed than the plan says", "saved-activations",
       last_range([](const Strategy& s) { return s.recompute.layers > 1; },
                  [](LayerRange& r) { --r.strategy.recompute.layers; })},
      {"a range sharded in the claims only", "static-memory",
       untied(last_range([](const Strategy& s) { return s.shards_parameters(); },
                         [](LayerRange& r) {
                           r.strategy.zero = ZeroStage::none;
                           r.strategy.shard = 1;
                           r.strategy.overlap.param_gather = false;
                         }))},
      {"the sender of a message holds it whole", "boundary-messages",
       [](Case& c) {
         if (c.plan.only_pipeline().stages.size() < 2 || c.plan.only_pipeline().schedule.virtual_stages > 1) return false;
         Strategy& sender = c.plan.only_pipeline().stages.front().chunks.front().ranges.back().strategy;
         if (sender.sp != SequenceParallel::megatron) return false;
         sender.sp = SequenceParallel::none;
         return true;
       }},
      {"gradients that a split range does not reduce", "gradient-messages",
       [](Case& c) {
         const std::vector<LayerRange*> ranges = ranges_of(c.plan);
         for (LayerRange* r : ranges) {
           const bool outer = r->first == 0 || r->last + 1 == static_cast<std::int32_t>(c.model.layers.size());
           if (outer || r->strategy.data_ranks() != 2 || r->strategy.tp > 1 || r->strategy.overlap.p2p) continue;
           r->strategy = spread(1, 1, 2);
           c.lower_again();
           return true;
         }
         return false;
       }},
      {"the program reduces what the first range needs", "gradient-reduction",
       [](Case& c) {
         Plan plan = c.plan;
         for (LayerRange* r : ranges_of(plan)) r->strategy = spread(1, 1, r->strategy.dp * r->strategy.cp * r->strategy.tp);
         if (c.plan.strategy().overlap.p2p) return false;
         c.program = lower(plan, c.model, true);
         return true;
       }},
      {"one range is sharded, nobody gathers", "parameter-gather",
       [](Case& c) {
         Plan plan = c.plan;
         bool sharded = false;
         for (LayerRange* r : ranges_of(plan)) {
           sharded |= r->strategy.zero == ZeroStage::optimizer || r->strategy.zero == ZeroStage::gradients;
           r->strategy.zero = ZeroStage::none;
           r->strategy.shard = 1;
           r->strategy.overlap.param_gather = false;
         }
         c.program = lower(plan, c.model, true);
         return sharded;
       }},
      {"faster than the slowest range computes", "time-bounds",
       [](Case& c) {
         c.claims.iteration_ns /= 20;
         return true;
       }},
  };
}

TEST(LayeredMutation, BrokenRangesAreRejected) { expect_rejected(range_structure_mutations(), layered_cases()); }
TEST(LayeredMutation, BrokenRulesAreRejected) { expect_rejected(range_rule_mutations(), layered_cases()); }
TEST(LayeredMutation, FalseClaimsAreRejected) { expect_rejected(range_claim_mutations(), layered_cases()); }

// Any border between two ranges may move if the claims move with it.
TEST(LayeredMutation, MovedBordersWithTheirClaimsAreAccepted) {
  for (Case c : layered_cases()) {
    if (!move_border(false)(c)) continue;
    c.lower_again();
    c.claims = truthful_claims(make_view(c.plan, c.model, c.cluster), c.program);
    EXPECT_TRUE(c.check().ok()) << broken(c.check());
  }
}

}  // namespace espalier::mutation
