// SPDX-License-Identifier: Apache-2.0
// Checks gradients and parameters around the optimizer, once all passes have been found complete.
#include <algorithm>

#include "check/program_check.h"
#include "check/static_memory.h"
#include "check/verdict.h"

namespace espalier::check {
namespace {

/// Returns whether bucket a/A and bucket b/B of the same chunk overlap.
bool overlaps(const Instruction& x, const Instruction& y) {
  const int a = x.bucket, total_a = x.buckets, b = y.bucket, total_b = y.buckets;
  return a * total_b < (b + 1) * total_a && b * total_a < (a + 1) * total_b;
}

/// Returns whether pieces 0 … P−1 of one collective occur once each and in order.
bool complete_once(const Program& program, const std::vector<std::int32_t>& indices) {
  for (std::size_t n = 0; n < indices.size(); ++n) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(indices[n])];
    if (i.buckets != indices.size() || i.bucket != n) return false;
  }
  return !indices.empty();
}

struct RankLists {
  const View& view;
  const Program& program;
  const ProgramTables& tables;
  std::size_t index;
  [[nodiscard]] const RankTable& table() const { return tables.ranks[index]; }
  [[nodiscard]] const RankClass& rank() const { return program.ranks[index]; }
  [[nodiscard]] const Instruction& at(std::int32_t i) const { return program.instructions[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool precedes(std::int32_t before, std::int32_t after) const { return tables.precedes(program, before, after); }
  [[nodiscard]] std::int32_t chunk(std::size_t k) const {
    return chunk_of_stage(view.pipeline->schedule, rank().stage.value, static_cast<std::int32_t>(k));
  }
};

/// Returns whether gradients are reduced once a step, outside the chunks' bodies. This applies to data ranks that
/// hold whole gradients (ZeRO ≤ 1), to replicas of shard groups, and to replicas of experts. One layer that needs it
/// suffices: a plan has one order of collectives.
bool must_reduce(const View& view) {
  const std::vector<Strategy> all = strategies_of(view);
  return std::any_of(all.begin(), all.end(), [&](const Strategy& s) {
    if (s.shards_gradients()) return s.shard < s.data_ranks();
    return s.data_ranks() > 1 || (check::has_experts(*view.model) && s.expert_data_ranks() > 1);
  });
}
bool must_gather(const View& view) {
  const std::vector<Strategy> all = strategies_of(view);
  return std::any_of(all.begin(), all.end(), [](const Strategy& s) { return s.shards_optimizer() && !s.shards_parameters(); });
}

void require_reduction(const RankLists& r, std::size_t k, Verdict& verdict) {
  const std::vector<std::int32_t>& reduces = r.table().reduces[k];
  if (reduces.empty() && !must_reduce(r.view)) return;
  if (!verdict.require(must_reduce(r.view),
                       [&] { return say("chunk ", r.chunk(k), " reduces gradients that are already reduced"); })) {
    return;
  }
  if (!verdict.require(complete_once(r.program, reduces),
                       [&] { return say("the gradients of chunk ", r.chunk(k), " are not reduced exactly once"); })) {
    return;
  }
  for (std::int32_t i = r.rank().begin; i < r.rank().end; ++i) {
    const Instruction& pass = r.at(i);
    if (r.program.chunk_of(pass).value != r.chunk(k) ||
        (pass.kind != InstructionKind::backward && pass.kind != InstructionKind::backward_weight))
      continue;
    for (const std::int32_t reduce : reduces) {
      verdict.require(!overlaps(pass, r.at(reduce)) || r.precedes(i, reduce), [&] {
        return say("chunk ", r.chunk(k), ": reduction #", reduce, " may start before the backward of micro-batch ",
                   pass.microbatch, " has added to it");
      });
    }
  }
  for (const std::int32_t optimizer : r.table().optimizers) {
    verdict.require(r.precedes(reduces.back(), optimizer),
                    [&] { return say("the optimizer does not wait for the gradients of chunk ", r.chunk(k)); });
  }
}

void require_gather(const RankLists& r, std::size_t k, Verdict& verdict) {
  const std::vector<std::int32_t>& gathers = r.table().gathers[k];
  if (gathers.empty() && !must_gather(r.view)) return;
  const auto chunk = [&] { return say("the parameters of chunk ", r.chunk(k)); };
  if (!verdict.require(must_gather(r.view),
                       [&] { return say(chunk(), " are gathered under ZeRO ", number_of(r.view.strategy.zero)); }))
    return;
  if (!verdict.require(complete_once(r.program, gathers), [&] { return say(chunk(), " are not gathered exactly once"); })) return;
  for (const std::int32_t gather : gathers) {
    bool after_update = !r.table().optimizers.empty();
    for (const std::int32_t optimizer : r.table().optimizers) after_update = after_update && r.precedes(optimizer, gather);
    bool before_use = true;
    for (std::int32_t i = r.rank().begin; i < r.rank().end && !after_update; ++i) {
      const bool uses = r.at(i).kind == InstructionKind::forward && r.program.chunk_of(r.at(i)).value == r.chunk(k) &&
                        overlaps(r.at(i), r.at(gather));
      before_use = before_use && (!uses || r.precedes(gather, i));
    }
    verdict.require(after_update || before_use, [&] { return say(chunk(), " are used before gather #", gather, " has ended"); });
  }
}

/// Requires that the stages that hold the embedding's table, if several, exchange its gradient once, after all passes
/// that use it.
void require_tied(const RankLists& r, const std::vector<std::int32_t>& holders, Verdict& verdict) {
  const std::int32_t stage = r.rank().stage.value;
  const bool needed = std::find(holders.begin(), holders.end(), stage) != holders.end();
  const std::vector<std::int32_t>& tied = r.table().tied;
  verdict.require(tied.size() == (needed ? 1u : 0u), [&] {
    return say("stage ", stage, " exchanges the tied gradient ", tied.size(), " times, expected ", needed ? 1 : 0);
  });
  for (const std::int32_t exchange : tied) {
    for (std::int32_t i = r.rank().begin; i < r.rank().end; ++i) {
      const Instruction& pass = r.at(i);
      const bool adds = pass.kind == InstructionKind::backward || pass.kind == InstructionKind::backward_weight;
      if (!adds || !uses_table(r.view, static_cast<std::size_t>(r.program.chunk_of(pass).value))) continue;
      verdict.require(r.precedes(i, exchange), [&] {
        return say("stage ", stage, " exchanges the tied gradient before the backward of micro-batch ", pass.microbatch);
      });
    }
    for (const std::int32_t optimizer : r.table().optimizers) {
      verdict.require(r.precedes(exchange, optimizer),
                      [&] { return say("the optimizer of stage ", stage, " does not wait for the tied gradient"); });
    }
  }
}

void require_optimizer(const RankLists& r, Verdict& verdict) {
  const std::int32_t stage = r.rank().stage.value;
  const std::vector<std::int32_t>& optimizers = r.table().optimizers;
  if (!verdict.require(optimizers.size() == 1, [&] { return say("stage ", stage, " updates ", optimizers.size(), " times"); }))
    return;
  for (std::int32_t i = r.rank().begin; i < r.rank().end; ++i) {
    const InstructionKind kind = r.at(i).kind;
    if (kind != InstructionKind::backward && kind != InstructionKind::backward_weight) continue;
    verdict.require(r.precedes(i, optimizers.front()), [&] {
      return say("the optimizer of stage ", stage, " does not wait for the backward of micro-batch ", r.at(i).microbatch);
    });
  }
  for (std::int32_t i = optimizers.front() + 1; i < r.rank().end; ++i) {
    verdict.require(r.at(i).kind == InstructionKind::param_gather,
                    [&] { return say(to_string(r.at(i).kind), " #", i, " after the optimizer of stage ", stage); });
  }
}

}  // namespace

std::vector<Finding> check_updates(const View& view, const Program& program, const ProgramTables& tables) {
  Verdict reduction("gradient-reduction"), gather("parameter-gather"), tied("tied-gradient"), optimizer("optimizer");
  // Copies of a frozen table have no gradients to exchange.
  const bool table_learns = table_elements(view_of(view, view.chunks.front().ranges.front().strategy)) > 0;
  const std::vector<std::int32_t> holders = table_learns ? table_holders(view) : std::vector<std::int32_t>{};
  for (std::size_t index = 0; index < program.ranks.size(); ++index) {
    const RankLists rank{view, program, tables, index};
    for (std::size_t k = 0; k < rank.table().reduces.size(); ++k) {
      require_reduction(rank, k, reduction);
      require_gather(rank, k, gather);
    }
    require_tied(rank, holders, tied);
    require_optimizer(rank, optimizer);
  }
  return {reduction.finding(must_reduce(view) ? "every chunk once, after its last backward" : "nothing left out"),
          gather.finding(must_gather(view) ? "every chunk once" : "none needed"), tied.finding("as the model requires"),
          optimizer.finding("one update per rank, after all gradients")};
}

}  // namespace espalier::check
