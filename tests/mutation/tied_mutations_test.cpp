// SPDX-License-Identifier: Apache-2.0
// Mutates tied and shared tables: embedding and head under two layouts, copies forgotten or counted twice,
// gradients not exchanged.
#include "cases.h"
#include "plan/engine_policies.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

/// Makes the head of a tied model a range of its own with a changed strategy; returns false if `change` has
/// nothing to change.
Break head_otherwise(const std::function<bool(const Case&, Strategy&)>& change) {
  return [change](Case& c) {
    if (!c.model.tied_embeddings) return false;
    const Schedule& schedule = c.plan.only_pipeline().schedule;
    const ChunkPlace at = place_of_chunk(schedule, schedule.chunks() - 1);
    Chunk& chunk =
        c.plan.only_pipeline().stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.local_chunk)];
    LayerRange head = chunk.ranges.back();
    head.strategy.recompute = {};
    const bool grad = head.strategy.overlap.grad_reduce, gather = head.strategy.overlap.param_gather;
    if (!change(c, head.strategy)) return false;
    Strategy& s = head.strategy;
    s.overlap.grad_reduce = grad && s.data_ranks() > 1;
    s.overlap.param_gather = gather && s.shards_optimizer();
    s.overlap.tp = s.overlap.tp && s.sp == SequenceParallel::megatron;
    head.first = head.last;
    if (chunk.ranges.back().first == head.last)
      chunk.ranges.back() = head;
    else {
      --chunk.ranges.back().last;
      chunk.ranges.push_back(head);
    }
    c.lower_again();
    return true;
  };
}

bool samples_divide(const Case& c, std::int64_t dp) { return dp >= 1 && c.plan.samples_per_microbatch() % dp == 0; }

void shard_over_all(Strategy& s, std::int32_t zero) {
  s.zero = ZeroStage{zero};
  s.shard = zero > 0 ? static_cast<std::int32_t>(s.data_ranks()) : 1;
}

/// Moves a factor of two from one degree to another.
Break trade(std::int32_t Strategy::*more, std::int32_t Strategy::*less) {
  return head_otherwise([=](const Case& c, Strategy& s) {
    if (s.*less % 2 != 0) return false;
    s.*less /= 2;
    s.*more *= 2;
    if (s.tp == 1) s.sp = SequenceParallel::none;
    shard_over_all(s, s.data_ranks() > 1 ? number_of(s.zero) : 0);
    return samples_divide(c, s.dp);
  });
}

Break another_zero(std::int32_t zero) {
  return head_otherwise([zero](const Case& c, Strategy& s) {
    const bool zero_bubble =
        c.plan.only_pipeline().schedule.kind == ScheduleKind::zb_h1 || c.plan.only_pipeline().schedule.kind == ScheduleKind::zb_v;
    if (number_of(s.zero) == zero || s.data_ranks() == 1 || (zero > 1 && zero_bubble)) return false;
    shard_over_all(s, zero);
    return true;
  });
}

View view_of_case(const Case& c) { return make_view(c.plan, c.model, c.cluster); }

/// Returns the bytes of one copy of the table with its states on a rank of stage 0.
std::int64_t table_bytes(const Case& c) {
  const View view = view_of_case(c);
  const StatePolicy bytes = bytes_of(view);
  const std::int64_t states = bytes.master + bytes.optimizer, elements = table_elements(view);
  const std::int64_t shard = view.strategy.shards_optimizer() ? view.strategy.shard : 1;
  return (bytes.parameter + bytes.gradient) * elements + states * (elements / shard);
}

Break forget_copy(bool last) {
  return [last](Case& c) {
    const std::vector<std::int32_t> copies = table_copies(view_of_case(c));
    if (copies.empty()) return false;
    const auto stage = static_cast<std::size_t>(last ? copies.back() : copies.front());
    c.claims.static_bytes_per_stage[stage] -= table_bytes(c);
    return true;
  };
}

std::int32_t last_exchange(const Program& program) {
  for (auto i = static_cast<std::int32_t>(program.instructions.size()); i-- > 0;)
    if (program.instructions[static_cast<std::size_t>(i)].kind == Kind::tied_reduce) return i;
  return -1;
}

}  // namespace

std::vector<Mutation> tied_mutations() {
  return {
      {"the head replicates what the embedding shards", "tied-table", another_zero(0)},
      {"the head's table shards its optimizer alone", "tied-table", another_zero(1)},
      {"the head's table shards gradients alone", "tied-table", another_zero(2)},
      {"the head's table is gathered alone", "tied-table", another_zero(3)},
      {"the head shards over half of the ranks", "tied-table", head_otherwise([](const Case&, Strategy& s) {
         return s.shards_optimizer() && s.shard % 2 == 0 && s.shard > 2 && (s.shard /= 2, true);
       })},
      {"the head is split where the embedding is replicated", "tied-table", trade(&Strategy::tp, &Strategy::dp)},
      {"the head is replicated where the embedding is split", "tied-table", trade(&Strategy::dp, &Strategy::tp)},
      {"the head splits the sequence instead of the batch", "tied-table", trade(&Strategy::cp, &Strategy::dp)},
      {"the head splits the sequence instead of the table", "tied-table", trade(&Strategy::cp, &Strategy::tp)},
      {"the head leaves sequence parallelism", "tied-table", head_otherwise([](const Case&, Strategy& s) {
         return s.sp == SequenceParallel::megatron && (s.sp = SequenceParallel::none, true);
       })},
      {"the head alone is of Ulysses", "tied-table", head_otherwise([](const Case&, Strategy& s) {
         if (s.tp == 1 || s.sp == SequenceParallel::ulysses) return false;
         s.sp = SequenceParallel::ulysses;
         shard_over_all(s, number_of(s.zero));
         return true;
       })},
      {"the last stage forgets its copy of the table", "static-memory", forget_copy(true)},
      {"the first copy of the table is forgotten", "static-memory", forget_copy(false)},
      {"a table of one stage is counted twice", "static-memory",
       [](Case& c) {
         if (c.model.vocabulary == 0 || !table_copies(view_of_case(c)).empty()) return false;
         c.claims.static_bytes_per_stage.front() += table_bytes(c);
         return true;
       }},
      {"the copy's gradient is not reduced", "gradient-messages",
       [](Case& c) {
         const View view = view_of_case(c);
         const std::vector<std::int32_t> copies = table_copies(view);
         if (copies.empty() || view.strategy.data_ranks() == 1) return false;
         c.claims.gradient_bytes_per_stage[static_cast<std::size_t>(copies.back())] -=
             bytes_of(view).reduce * table_elements(view);
         return true;
       }},
      {"one stage does not exchange the tied gradient", "tied-gradient",
       [](Case& c) {
         const std::int32_t index = last_exchange(c.program);
         return index < 0 ? false : (erase(c.program, index), true);
       }},
      {"the tied gradient is exchanged twice", "tied-gradient",
       [](Case& c) {
         const std::int32_t index = last_exchange(c.program);
         if (index < 0) return false;
         Instruction copy = at(c.program, index);
         copy.wait0 = index;
         c.program.instructions.push_back(copy);
         ++c.program.ranks.back().end;
         return true;
       }},
      {"the tied gradient is exchanged before it is whole", "tied-gradient",
       [](Case& c) {
         const std::int32_t index = last_exchange(c.program);
         if (index < 0) return false;
         at(c.program, index).wait0 = at(c.program, index).wait1 = -1;
         return true;
       }},
      {"the optimizer does not wait for the tied gradient", "tied-gradient",
       [](Case& c) { return drop_wait(c, Kind::optimizer, Kind::tied_reduce); }},
  };
}

TEST(Mutation, BrokenTablesAreRejected) {
  std::vector<Case> cases = all_cases();
  for (Case& c : layered_cases()) cases.push_back(std::move(c));
  expect_rejected(tied_mutations(), cases);
}

}  // namespace espalier::mutation
