// SPDX-License-Identifier: Apache-2.0
// Breaks programs in one way each: instructions missing, doubled, out of order, on the wrong stream.
#include "cases.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

bool tag_of_send(Case& c, const std::function<void(Instruction&)>& change) {
  const std::int32_t index = index_of(c.program, Kind::send);
  if (index < 0) return false;
  change(at(c.program, index));
  return true;
}

/// Swaps a micro-batch's forward with its backward where they are neighbours on the compute stream of the last stage.
bool backward_first(Case& c) {
  for (const RankClass& rank : c.program.ranks) {
    std::int32_t forward = -1;
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& now = at(c.program, i);
      if (now.stream != Stream::compute) continue;
      const bool backward = now.kind == Kind::backward || now.kind == Kind::backward_input;
      if (forward >= 0 && backward && at(c.program, forward).microbatch == now.microbatch &&
          c.program.chunk_of(at(c.program, forward)) == c.program.chunk_of(now) && now.buckets == 1 &&
          at(c.program, forward).buckets == 1) {
        swap_work(c.program, forward, i);
        return true;
      }
      forward = now.kind == Kind::forward ? i : -1;
    }
  }
  return false;
}

/// Moves the first receive of a gradient on stage 0 before everything else, so that the rank waits for a message that
/// only the rank itself can trigger.
bool receive_too_early(Case& c) {
  const RankClass& rank = c.program.ranks.front();
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    if (at(c.program, i).kind != Kind::recv || !c.program.carries_gradient(at(c.program, i))) continue;
    for (std::int32_t f = rank.begin; f < i; ++f) {
      if (at(c.program, f).kind != Kind::forward) continue;
      // Forward f now waits for the gradient that needs f: put the receive on f's stream, before it.
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

/// Makes a reduction of the first rank wait for the first backward instead of the last.
bool reduce_early(Case& c) {
  const std::int32_t reduce = index_of(c.program, Kind::grad_reduce);
  const std::int32_t first = index_of(c.program, [](const Instruction& i) {
    return (i.kind == Kind::backward || i.kind == Kind::backward_weight) && i.buckets == 1;
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
  const RankClass& rank = c.program.ranks.front();
  std::vector<std::int32_t> reduces;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    if (at(c.program, i).kind == Kind::grad_reduce) reduces.push_back(i);
  }
  const auto other = std::find_if(reduces.begin(), reduces.end(),
                                  [&](std::int32_t i) { return at(c.program, i).id != at(c.program, reduces.front()).id; });
  if (other == reduces.end()) return false;
  swap_work(c.program, reduces.front(), *other);
  return true;
}

Break duplicate(Kind kind) {
  return [kind](Case& c) {
    const std::int32_t last = c.program.ranks.back().end - 1;
    const std::int32_t index = index_of(c.program, kind);
    if (index < 0) return false;
    // Appends a copy to the last rank. A pass of another stage is then superfluous work, a pass of its own
    // is done twice.
    Instruction copy = at(c.program, index);
    copy.wait0 = last;
    copy.wait1 = -1;
    c.program.instructions.push_back(copy);
    ++c.program.ranks.back().end;
    return true;
  };
}

}  // namespace

std::vector<Mutation> program_mutations() {
  return {
      {"a forward is missing", "program-work", erase_first(Kind::forward)},
      {"a backward is missing", "program-work", erase_first(Kind::backward)},
      {"a weight gradient is missing", "program-work", erase_first(Kind::backward_weight)},
      {"an input gradient is missing", "program-work", erase_first(Kind::backward_input)},
      {"a forward is done twice", "program-work", duplicate(Kind::forward)},
      {"a bucket is missing", "program-work",
       [](Case& c) {
         const std::int32_t index =
             index_of(c.program, [](const Instruction& i) { return i.buckets > 1 && i.bucket == 1 && i.kind == Kind::backward; });
         return index < 0 ? false : (erase(c.program, index), true);
       }},
      {"a micro-batch too few", "program-shape",
       [](Case& c) {
         --c.program.pipelines.front().structure.schedule.microbatches;
         return true;
       }},
      {"a send is missing", "send-recv", erase_first(Kind::send)},
      {"a receive is missing", "send-recv", erase_first(Kind::recv)},
      {"a send has another micro-batch than its receive", "send-recv",
       [](Case& c) {
         return c.plan.only_pipeline().schedule.microbatches > 1 &&
                tag_of_send(c, [](Instruction& i) { i.microbatch = i.microbatch == 0 ? 1 : 0; });
       }},
      {"a send is a gradient, its receive is not", "send-recv",
       [](Case& c) { return tag_of_send(c, [](Instruction& i) { i.id ^= 1; }); }},
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
       [](Case& c) {
         at(c.program, c.program.ranks.front().begin).wait0 = c.program.ranks.front().end - 1;
         return true;
       }},
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
      {"a rank represents too few devices", "program-shape",
       [](Case& c) {
         --c.program.ranks.front().devices.front().count;
         return true;
       }},
      {"a pass runs on the wrong stream", "program-shape",
       [](Case& c) {
         at(c.program, index_of(c.program, Kind::forward)).stream = Stream::data;
         return true;
       }},
      {"an instruction names a work that does not exist", "program-shape",
       [](Case& c) {
         at(c.program, index_of(c.program, Kind::forward)).id = 9999;
         return true;
       }},
      {"a forward names the work of a backward", "program-shape",
       [](Case& c) {
         ++at(c.program, index_of(c.program, Kind::forward)).id;
         return true;
       }},
      {"a pass works on a layer too few", "program-layers",
       [](Case& c) {
         --c.program.ranges.front().last;
         return true;
       }},
      {"a pass works on other samples", "program-layers",
       [](Case& c) {
         ++c.program.ranges.back().samples;
         return true;
       }},
      {"a pass runs under another strategy", "program-layers",
       [](Case& c) {
         Strategy& s = c.program.strategies.front();
         s.zero = ZeroStage{number_of(s.zero) + 1};
         return true;
       }},
      {"a pass works on the layers of another chunk", "program-layers",
       [](Case& c) {
         Work& work = c.program.works[WorkId(0)];
         return c.program.structure().chunks() > 1 && (++work.ranges_begin, ++work.ranges_end, true);
       }},
      {"a transfer moves a byte too many", "program-messages",
       [](Case& c) { return !c.program.transfers.empty() && (++c.program.transfers[TransferId(0)].bytes, true); }},
      {"a work belongs to another stage", "program-shape",
       [](Case& c) { return c.program.ranks.size() > 1 && (++c.program.works[WorkId(0)].stage.value, true); }},
  };
}

TEST(Mutation, BrokenProgramsAreRejected) { expect_rejected(program_mutations(), all_cases()); }

}  // namespace espalier::mutation
