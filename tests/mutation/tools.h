// SPDX-License-Identifier: Apache-2.0
// Provides small steps from which mutations of plans and programs are made.
#pragma once

#include <algorithm>
#include <functional>

#include "suite.h"

namespace espalier::mutation {

using Kind = InstructionKind;

inline Strategy& strategy_of(Plan& plan) { return plan.only_pipeline().stages.front().chunks.front().ranges.front().strategy; }

inline void for_all_strategies(Plan& plan, const std::function<void(Strategy&)>& change) {
  for (Stage& stage : plan.only_pipeline().stages) {
    for (Chunk& chunk : stage.chunks)
      for (LayerRange& range : chunk.ranges) change(range.strategy);
  }
}

inline Break strategy_change(const std::function<void(Strategy&)>& change) {
  return [change](Case& c) {
    for_all_strategies(c.plan, change);
    return true;
  };
}

inline std::int32_t index_of(const Program& program, const std::function<bool(const Instruction&)>& wanted) {
  const auto it = std::find_if(program.instructions.begin(), program.instructions.end(), wanted);
  return it == program.instructions.end() ? -1 : static_cast<std::int32_t>(it - program.instructions.begin());
}
inline std::int32_t index_of(const Program& program, Kind kind) {
  return index_of(program, [kind](const Instruction& i) { return i.kind == kind; });
}
inline Instruction& at(Program& program, std::int32_t index) { return program.instructions[static_cast<std::size_t>(index)]; }

/// Removes an instruction as if it had never been written: later indices shift, and waits for it vanish.
inline void erase(Program& program, std::int32_t index) {
  program.instructions.erase(program.instructions.begin() + index);
  const auto shift = [index](std::int32_t& reference) {
    reference = reference == index ? -1 : reference - (reference > index ? 1 : 0);
  };
  for (Instruction& i : program.instructions) {
    shift(i.match);
    shift(i.wait0);
    shift(i.wait1);
  }
  for (RankClass& rank : program.ranks) {
    if (rank.begin > index) --rank.begin;
    if (rank.end > index) --rank.end;
  }
}

inline Break erase_first(Kind kind) {
  return [kind](Case& c) {
    const std::int32_t index = index_of(c.program, kind);
    if (index < 0) return false;
    erase(c.program, index);
    return true;
  };
}

/// Swaps the work of two instructions of one rank; waits and matches stay with the work.
inline void swap_work(Program& program, std::int32_t a, std::int32_t b) {
  Instruction &x = at(program, a), &y = at(program, b);
  std::swap(x.kind, y.kind);
  std::swap(x.id, y.id);
  std::swap(x.microbatch, y.microbatch);
  std::swap(x.bucket, y.bucket);
  std::swap(x.buckets, y.buckets);
}

/// Removes the waits of the first `kind` that waits for a `before`.
inline bool drop_wait(Case& c, Kind kind, Kind before) {
  const std::int32_t index = index_of(
      c.program, [&](const Instruction& i) { return i.kind == kind && i.wait0 >= 0 && at(c.program, i.wait0).kind == before; });
  if (index < 0) return false;
  at(c.program, index).wait0 = at(c.program, index).wait1 = -1;
  return true;
}

}  // namespace espalier::mutation
