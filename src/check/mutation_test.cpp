// SPDX-License-Identifier: Apache-2.0
// The check must reject broken plans, and say why: good plans, programs and claims are broken in one way each, and the finding
// of the right name must fail. Each mutation runs on several base cases, wherever it applies.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "check/test_mutation.h"
#include "check/test_problem.h"

namespace espalier::check {
namespace {

using namespace test;
using Kind = InstructionKind;

// ---- tools ----------------------------------------------------------------------------------------------------------------

Strategy& strategy_of(Plan& plan) { return plan.stages.front().chunks.front().ranges.front().strategy; }

void for_all_strategies(Plan& plan, const std::function<void(Strategy&)>& change) {
  for (Stage& stage : plan.stages) {
    for (Chunk& chunk : stage.chunks)
      for (LayerRange& range : chunk.ranges) change(range.strategy);
  }
}

Break strategy_change(const std::function<void(Strategy&)>& change) {
  return [change](Case& c) {
    for_all_strategies(c.plan, change);
    return true;
  };
}

std::int32_t index_of(const Program& program, const std::function<bool(const Instruction&)>& wanted) {
  const auto it = std::find_if(program.instructions.begin(), program.instructions.end(), wanted);
  return it == program.instructions.end() ? -1 : static_cast<std::int32_t>(it - program.instructions.begin());
}
std::int32_t index_of(const Program& program, Kind kind) {
  return index_of(program, [kind](const Instruction& i) { return i.kind == kind; });
}
Instruction& at(Program& program, std::int32_t index) { return program.instructions[static_cast<std::size_t>(index)]; }

/// Removes an instruction as if it had never been written: later indices shift, waits for it vanish.
void erase(Program& program, std::int32_t index) {
  program.instructions.erase(program.instructions.begin() + index);
  const auto shift = [index](std::int32_t& reference) {
    reference = reference == index ? -1 : reference - (reference > index ? 1 : 0);
  };
  for (Instruction& i : program.instructions) {
    shift(i.match);
    shift(i.wait0);
    shift(i.wait1);
  }
  for (RankProgram& rank : program.ranks) {
    if (rank.begin > index) --rank.begin;
    if (rank.end > index) --rank.end;
  }
}

Break erase_first(Kind kind) {
  return [kind](Case& c) {
    const std::int32_t index = index_of(c.program, kind);
    if (index < 0) return false;
    erase(c.program, index);
    return true;
  };
}

/// Exchanges what two instructions of one rank do; waits and matches stay with the work.
void swap_work(Program& program, std::int32_t a, std::int32_t b) {
  Instruction &x = at(program, a), &y = at(program, b);
  std::swap(x.kind, y.kind);
  std::swap(x.chunk, y.chunk);
  std::swap(x.microbatch, y.microbatch);
  std::swap(x.piece, y.piece);
  std::swap(x.pieces, y.pieces);
}

/// Removes the waits of the first `kind` that waits for a `before`.
bool drop_wait(Case& c, Kind kind, Kind before) {
  const std::int32_t index = index_of(
      c.program, [&](const Instruction& i) { return i.kind == kind && i.wait0 >= 0 && at(c.program, i.wait0).kind == before; });
  if (index < 0) return false;
  at(c.program, index).wait0 = at(c.program, index).wait1 = -1;
  return true;
}

// ---- mutations of the plan ------------------------------------------------------------------------------------------------

std::vector<Mutation> plan_mutations() {
  return {
      {"a layer is dropped", "coverage",
       [](Case& c) {
         LayerRange& range = c.plan.stages.front().chunks.front().ranges.front();
         return range.last > range.first ? (--range.last, true) : false;
       }},
      {"a layer is computed twice", "coverage",
       [](Case& c) { return c.plan.stages.size() > 1 ? (--c.plan.stages[1].chunks[0].ranges.front().first, true) : false; }},
      {"the last layer does not exist", "coverage",
       [](Case& c) {
         for (Stage& stage : c.plan.stages) {
           for (Chunk& chunk : stage.chunks) {
             LayerRange& range = chunk.ranges.back();
             if (range.last + 1 == static_cast<std::int32_t>(c.model.layers.size())) ++range.last;
           }
         }
         return true;
       }},
      {"two stages are exchanged", "coverage",
       [](Case& c) { return c.plan.stages.size() > 1 ? (std::swap(c.plan.stages[0], c.plan.stages[1]), true) : false; }},
      {"two stages exchange their devices", "stage-placement",
       [](Case& c) {
         return c.plan.stages.size() > 1 ? (std::swap(c.plan.stages[0].devices, c.plan.stages[1].devices), true) : false;
       }},
      {"a device is in two stages", "devices-once",
       [](Case& c) { return c.plan.stages.size() > 1 ? (c.plan.stages[1].devices = c.plan.stages[0].devices, true) : false; }},
      {"a device does not exist", "devices-once", [](Case& c) { return c.plan.stages.back().devices.back().first += 1, true; }},
      {"a stage is missing", "schedule", [](Case& c) { return c.plan.stages.pop_back(), true; }},
      {"a chunk is missing", "schedule", [](Case& c) { return c.plan.stages.back().chunks.pop_back(), true; }},
      {"virtual stages without interleaving", "schedule",
       [](Case& c) { return c.plan.schedule.kind = ScheduleKind::one_f_one_b, ++c.plan.schedule.virtual_stages, true; }},
      {"one stage has another strategy", "degrees",
       [](Case& c) {
         return c.plan.stages.size() > 1 ? (c.plan.stages.back().chunks.back().ranges.front().strategy.cp *= 2, true) : false;
       }},
      {"tp is twice what the devices allow", "degrees", strategy_change([](Strategy& s) { s.tp *= 2; })},
      {"dp is zero", "degrees", strategy_change([](Strategy& s) { s.dp = 0; })},
      {"micro-batches do not make the batch", "batch", [](Case& c) { return ++c.plan.training.global_batch, true; }},
      {"the schedule has one micro-batch more", "batch", [](Case& c) { return c.plan.schedule.microbatches *= 2, true; }},
      {"the shard group does not divide", "sharding", strategy_change([](Strategy& s) { s.zero = 1, s.shard = 3; })},
      {"sharded without ZeRO", "sharding", strategy_change([](Strategy& s) { s.zero = 0, s.shard = 2; })},
      {"ZeRO stage 4", "sharding", strategy_change([](Strategy& s) { s.zero = 4; })},
      {"more layers recomputed than there are", "recompute", strategy_change([](Strategy& s) {
         s.recompute = {RecomputeKind::full, 99};
       })},
      {"layers recomputed without recomputation", "recompute", strategy_change([](Strategy& s) {
         s.recompute = {RecomputeKind::none, 1};
       })},
      {"experts without experts", "experts", strategy_change([](Strategy& s) { s.ep = 2; })},
      {"tp overlap without sequence parallelism", "overlap",
       [](Case& c) {
         if (!c.plan.uniform()) return false;  // there the ranges disagree: "strategies"
         for_all_strategies(c.plan, [](Strategy& s) { s.sp = SequenceParallel::none, s.overlap.tp = true; });
         return true;
       }},
      {"a sequence that cannot be cut", "sequence",
       [](Case& c) { return strategy_of(c.plan).cp > 1 ? (c.plan.training.sequence.main = 127, true) : false; }},
      {"a sequence beyond the positions", "positions", [](Case& c) { return c.plan.training.sequence.main = 1 << 20, true; }},
      {"an engine nobody knows", "engine", [](Case& c) { return c.plan.engine = "nonesuch", true; }},
      {"a precision the devices lack", "precision",
       [](Case& c) { return c.cluster.groups.front().device.peak.fill(TFLOPs(0)), true; }},
  };
}

// ---- mutations of the program ---------------------------------------------------------------------------------------------

bool tag_of_send(Case& c, const std::function<void(Instruction&)>& change) {
  const std::int32_t index = index_of(c.program, Kind::send);
  if (index < 0) return false;
  change(at(c.program, index));
  return true;
}

/// Swaps a micro-batch's forward with its backward where they are neighbours on the compute stream of the last stage.
bool backward_first(Case& c) {
  for (const RankProgram& rank : c.program.ranks) {
    std::int32_t forward = -1;
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& now = at(c.program, i);
      if (now.stream != Stream::compute) continue;
      const bool backward = now.kind == Kind::backward || now.kind == Kind::backward_input;
      if (forward >= 0 && backward && at(c.program, forward).microbatch == now.microbatch &&
          at(c.program, forward).chunk == now.chunk && now.pieces == 1 && at(c.program, forward).pieces == 1) {
        swap_work(c.program, forward, i);
        return true;
      }
      forward = now.kind == Kind::forward ? i : -1;
    }
  }
  return false;
}

/// The first receive of a gradient on stage 0 moves before everything the rank does: the rank waits for what only it can start.
bool receive_too_early(Case& c) {
  const RankProgram& rank = c.program.ranks.front();
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    if (at(c.program, i).kind != Kind::recv || !at(c.program, i).gradient) continue;
    for (std::int32_t f = rank.begin; f < i; ++f) {
      if (at(c.program, f).kind != Kind::forward) continue;
      // forward f now waits for the gradient that needs f: put the receive on f's stream, before it
      std::vector<Instruction>& all = c.program.instructions;
      std::rotate(all.begin() + f, all.begin() + i, all.begin() + i + 1);
      for (Instruction& instruction : all) {
        for (std::int32_t* reference : {&instruction.match, &instruction.wait0, &instruction.wait1}) {
          if (*reference == i)
            *reference = f;
          else if (*reference >= f && *reference < i)
            ++*reference;
        }
      }
      at(c.program, f).wait0 = at(c.program, f).wait1 = -1;
      at(c.program, f + 1).wait1 = f;
      return true;
    }
  }
  return false;
}

bool optimizer_early(Case& c) {
  const std::int32_t optimizer = index_of(c.program, Kind::optimizer);
  for (std::int32_t i = optimizer - 1; i >= c.program.ranks.front().begin; --i) {
    const Kind kind = at(c.program, i).kind;
    if (kind != Kind::backward && kind != Kind::backward_weight) continue;
    swap_work(c.program, i, optimizer);
    return true;
  }
  return false;
}

/// A reduction of the first rank waits for the first backward instead of the last.
bool reduce_early(Case& c) {
  const std::int32_t reduce = index_of(c.program, Kind::grad_reduce);
  const std::int32_t first = index_of(c.program, [](const Instruction& i) {
    return (i.kind == Kind::backward || i.kind == Kind::backward_weight) && i.pieces == 1;
  });
  if (reduce < 0 || first < 0 || first > reduce) return false;
  Instruction& instruction = at(c.program, reduce);
  instruction.wait0 = first;
  instruction.wait1 = -1;
  return true;
}

bool wait_elsewhere(Case& c) {
  if (c.program.ranks.size() < 2) return false;
  at(c.program, c.program.ranks.back().begin).wait0 = c.program.ranks.front().begin;
  return true;
}

bool collectives_disagree(Case& c) {
  c.program = lower(c.plan, c.model, false);
  const RankProgram& rank = c.program.ranks.front();
  std::vector<std::int32_t> reduces;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    if (at(c.program, i).kind == Kind::grad_reduce) reduces.push_back(i);
  }
  const auto other = std::find_if(reduces.begin(), reduces.end(),
                                  [&](std::int32_t i) { return at(c.program, i).chunk != at(c.program, reduces.front()).chunk; });
  if (other == reduces.end()) return false;
  swap_work(c.program, reduces.front(), *other);
  return true;
}

Break duplicate(Kind kind) {
  return [kind](Case& c) {
    const std::int32_t last = c.program.ranks.back().end - 1;
    const std::int32_t index = index_of(c.program, kind);
    if (index < 0) return false;
    // append a copy to the last rank; for passes of another stage that is superfluous work, for its own it is done twice
    Instruction copy = at(c.program, index);
    copy.wait0 = last;
    copy.wait1 = -1;
    c.program.instructions.push_back(copy);
    ++c.program.ranks.back().end;
    return true;
  };
}

std::vector<Mutation> program_mutations() {
  return {
      {"a forward is missing", "program-work", erase_first(Kind::forward)},
      {"a backward is missing", "program-work", erase_first(Kind::backward)},
      {"a weight gradient is missing", "program-work", erase_first(Kind::backward_weight)},
      {"an input gradient is missing", "program-work", erase_first(Kind::backward_input)},
      {"a forward is done twice", "program-work", duplicate(Kind::forward)},
      {"a piece is missing", "program-work",
       [](Case& c) {
         const std::int32_t index =
             index_of(c.program, [](const Instruction& i) { return i.pieces > 1 && i.piece == 1 && i.kind == Kind::backward; });
         return index < 0 ? false : (erase(c.program, index), true);
       }},
      {"a micro-batch too few", "program-shape", [](Case& c) { return --c.program.schedule.microbatches, true; }},
      {"a send is missing", "send-recv", erase_first(Kind::send)},
      {"a receive is missing", "send-recv", erase_first(Kind::recv)},
      {"a send has another micro-batch than its receive", "send-recv",
       [](Case& c) {
         return c.plan.schedule.microbatches > 1 &&
                tag_of_send(c, [](Instruction& i) { i.microbatch = i.microbatch == 0 ? 1 : 0; });
       }},
      {"a send is a gradient, its receive is not", "send-recv",
       [](Case& c) { return tag_of_send(c, [](Instruction& i) { i.gradient = !i.gradient; }); }},
      {"a send names the wrong rank", "send-recv",
       [](Case& c) {
         return tag_of_send(
             c, [&](Instruction& i) { i.peer = i.peer == 0 ? static_cast<std::int32_t>(c.program.ranks.size()) - 1 : 0; });
       }},
      {"backward before forward", "program-order", backward_first},
      {"a forward does not wait for its activation", "program-order",
       [](Case& c) { return drop_wait(c, Kind::forward, Kind::recv); }},
      {"a backward does not wait for its gradient", "program-order",
       [](Case& c) { return drop_wait(c, Kind::backward, Kind::recv); }},
      {"a send does not wait for what it sends", "program-order",
       [](Case& c) { return drop_wait(c, Kind::send, Kind::forward); }},
      {"two ranks wait for each other", "deadlock", receive_too_early},
      {"a wait points forward", "waits",
       [](Case& c) { return at(c.program, c.program.ranks.front().begin).wait0 = c.program.ranks.front().end - 1, true; }},
      {"a wait points to another rank", "waits", wait_elsewhere},
      {"the optimizer is missing", "optimizer", erase_first(Kind::optimizer)},
      {"the optimizer runs before the last backward", "optimizer", optimizer_early},
      {"gradients are not reduced", "gradient-reduction", erase_first(Kind::grad_reduce)},
      {"gradients are reduced before the last backward", "gradient-reduction", reduce_early},
      {"the optimizer does not wait for the reduction", "gradient-reduction",
       [](Case& c) { return drop_wait(c, Kind::optimizer, Kind::grad_reduce); }},
      {"parameters are not gathered", "parameter-gather", erase_first(Kind::param_gather)},
      {"parameters are used before they are gathered", "parameter-gather",
       [](Case& c) { return drop_wait(c, Kind::forward, Kind::param_gather); }},
      {"the tied gradient is not exchanged", "tied-gradient", erase_first(Kind::tied_reduce)},
      {"ranks of a data group call collectives in different orders", "collective-order", collectives_disagree},
      {"a rank represents too few devices", "program-shape", [](Case& c) { return --c.program.ranks.front().represents, true; }},
      {"a pass runs on the wrong stream", "program-shape",
       [](Case& c) { return at(c.program, index_of(c.program, Kind::forward)).stream = Stream::data, true; }},
      {"an instruction names a chunk that does not exist", "program-shape",
       [](Case& c) { return at(c.program, index_of(c.program, Kind::forward)).chunk = 999, true; }},
  };
}

// ---- mutations of the claims ----------------------------------------------------------------------------------------------

std::vector<Mutation> claim_mutations() {
  return {
      {"static memory under-reported by a byte", "static-memory",
       [](Case& c) { return --c.claims.static_bytes_per_stage.back(), true; }},
      {"static memory of stages exchanged", "static-memory",
       [](Case& c) {
         auto& bytes = c.claims.static_bytes_per_stage;
         return bytes.front() != bytes.back() && (std::swap(bytes.front(), bytes.back()), true);
       }},
      {"saved activations one per cent low", "saved-activations",
       [](Case& c) { return c.claims.saved_bytes_per_chunk.front() -= c.claims.saved_bytes_per_chunk.front() / 100, true; }},
      {"recomputed layers left out of the plan", "saved-activations",
       [](Case& c) {
         if (strategy_of(c.plan).recompute.kind == RecomputeKind::none) return false;
         for_all_strategies(c.plan, [](Strategy& s) { s.recompute = {}; });
         return true;
       }},
      {"a boundary message forgets the micro-batch", "boundary-messages",
       [](Case& c) {
         return c.claims.boundary_bytes_per_chunk.back() > 0 && (c.claims.boundary_bytes_per_chunk.back() /= 2, true);
       }},
      {"gradient messages in the wrong precision", "gradient-messages",
       [](Case& c) {
         return c.claims.gradient_bytes_per_stage.front() > 0 && (c.claims.gradient_bytes_per_stage.front() /= 2, true);
       }},
      {"a peak below what is held", "peak-memory", [](Case& c) { return c.claims.peak_bytes_per_stage.front() -= 2000, true; }},
      {"a peak over the limit", "memory-limit",
       [](Case& c) { return c.claims.memory_limit_bytes = c.claims.peak_bytes_per_stage.front() - 1, true; }},
      {"a limit beyond the device", "memory-limit", [](Case& c) { return c.claims.memory_limit_bytes = GiB(2).count(), true; }},
      {"the user's cap is ignored", "memory-limit", [](Case& c) { return c.cluster.memory_limit = Bytes(4096), true; }},
      {"faster than the arithmetic", "time-bounds", [](Case& c) { return c.claims.iteration_ns /= 20, true; }},
      {"no time at all", "time-bounds", [](Case& c) { return c.claims.iteration_ns = 0, true; }},
      {"a stage without a figure", "claims-shape", [](Case& c) { return c.claims.peak_bytes_per_stage.pop_back(), true; }},
  };
}

// ---- the test -------------------------------------------------------------------------------------------------------------

std::vector<Case> base_cases() {
  using K = ScheduleKind;
  const Model model = model_of(gpt(6));
  std::vector<Case> cases;
  const auto add = [&](const Strategy& s, const Schedule& schedule) {
    cases.push_back(make_case(model, s, schedule));
    EXPECT_TRUE(cases.back().check().ok()) << broken(cases.back().check());
  };
  Strategy plain;
  plain.dp = 2;
  add(plain, schedule_of(K::one_f_one_b, 4, 1, 8));
  Strategy sharded = plain;
  sharded.zero = 1;
  sharded.shard = 2;
  sharded.overlap = {true, true, true, false};
  add(sharded, schedule_of(K::interleaved, 2, 2, 4));
  sharded.overlap = {};
  sharded.recompute = {RecomputeKind::full, 1};
  add(sharded, schedule_of(K::zb_h1, 2, 1, 4));
  add(plain, schedule_of(K::zb_v, 2, 2, 4));
  Strategy split;
  split.tp = 2;
  split.cp = 2;
  split.sp = SequenceParallel::megatron;
  split.recompute = {RecomputeKind::selective, 0};
  add(split, schedule_of(K::gpipe, 2, 1, 4));
  add(plain, schedule_of(K::one_f_one_b, 1, 1, 4));
  // layers of several strategies: every mutation of a plan applies to it as well
  Strategy tensor;
  tensor.tp = 2;
  tensor.sp = SequenceParallel::megatron;
  cases.push_back(
      make_layered_case(model, {{{0, 2, plain}, {3, 3, tensor}}, {{4, 7, plain}}}, schedule_of(K::one_f_one_b, 2, 1, 4)));
  EXPECT_TRUE(cases.back().check().ok()) << broken(cases.back().check());
  return cases;
}

/// Any one field of any pass or transfer, changed to anything else, is found. Nothing crashes on the way.
TEST(Mutation, EveryFieldOfPassesAndTransfersMatters) {
  std::mt19937 engine(7);
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(n)); };
  const std::vector<Case> cases = base_cases();
  for (int trial = 0; trial < 4000; ++trial) {
    Case c = cases[static_cast<std::size_t>(upto(static_cast<std::int64_t>(cases.size())))];
    const auto index = static_cast<std::int32_t>(upto(static_cast<std::int64_t>(c.program.instructions.size())));
    Instruction& i = at(c.program, index);
    const Instruction before = i;
    if (i.kind > Kind::recv) continue;
    const bool transfer = i.kind == Kind::send || i.kind == Kind::recv;
    const std::int64_t field = upto(transfer ? 7 : 4);
    const std::int64_t value = upto(2) == 0 ? upto(12) - 1 : upto(std::int64_t{1} << 31) - (std::int64_t{1} << 30);
    if (field == 0) i.kind = static_cast<Kind>(value & 15);
    if (field == 1) i.chunk = static_cast<std::int16_t>(value);
    if (field == 2) i.microbatch = static_cast<std::int32_t>(value);
    if (field == 3) i.piece = static_cast<std::uint8_t>(value);
    if (field == 4) i.peer = static_cast<std::int32_t>(value);
    if (field == 5) i.match = static_cast<std::int32_t>(value);
    if (field == 6) i.gradient = !i.gradient;
    const Instruction after = i;
    const bool same = before.kind == after.kind && before.chunk == after.chunk && before.microbatch == after.microbatch &&
                      before.piece == after.piece && before.peer == after.peer && before.match == after.match &&
                      before.gradient == after.gradient;
    EXPECT_EQ(c.check().ok(), same) << "field " << field << " of #" << index << " := " << value << "\n" << broken(c.check());
  }
}

/// Plans whose numbers are nonsense end in findings, not in crashes.
TEST(Mutation, NonsenseIsRejectedWithoutHarm) {
  std::mt19937 engine(11);
  const std::vector<Case> cases = base_cases();
  for (int trial = 0; trial < 4000; ++trial) {
    Case c = cases[engine() % cases.size()];
    const std::int32_t choices[] = {0, -1, 1, 2, 3, 1 << 20, 2147483647, -2147483647 - 1};
    const std::int32_t value = choices[engine() % 8];
    Strategy s = strategy_of(c.plan);
    Schedule& schedule = c.plan.schedule;
    std::int32_t* fields[] = {&s.tp,
                              &s.cp,
                              &s.dp,
                              &s.ep,
                              &s.etp,
                              &s.zero,
                              &s.shard,
                              &s.recompute.layers,
                              &schedule.stages,
                              &schedule.virtual_stages,
                              &schedule.microbatches,
                              &schedule.micro_batch};
    std::int32_t& field = *fields[engine() % 12];
    if (field == value) continue;
    field = value;
    for_all_strategies(c.plan, [&](Strategy& each) { each = s; });
    const Report report = c.check();
    EXPECT_FALSE(report.findings.empty());
    if (&field != &s.recompute.layers && &field != &s.zero) {
      EXPECT_FALSE(report.ok()) << c.plan.label();
    }
  }
}

TEST(Mutation, BrokenPlansAreRejected) { expect_rejected(plan_mutations(), base_cases()); }
TEST(Mutation, BrokenProgramsAreRejected) { expect_rejected(program_mutations(), base_cases()); }
TEST(Mutation, FalseClaimsAreRejected) { expect_rejected(claim_mutations(), base_cases()); }

}  // namespace
}  // namespace espalier::check
