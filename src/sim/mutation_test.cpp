// SPDX-License-Identifier: Apache-2.0
// Tests broken programs: those that validate() accepts run to their end, and those that deadlock are rejected.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <utility>

#include "sim/random_case.h"
#include "sim/simulator.h"

namespace espalier::sim {
namespace {

/// Returns an instruction of the program and an index near it.
std::pair<std::size_t, std::int32_t> any_place(const Program& program) {
  const auto i = *rc::gen::inRange<std::size_t>(0, program.instructions.size());
  return {i, static_cast<std::int32_t>(i) + *rc::gen::inRange(-6, 7)};
}

/// Swaps two instructions of a rank and repairs references to them, so that only their order changes.
void swap_places(Program& program, std::int32_t a, std::int32_t b) {
  const auto moved = [&](std::int32_t i) { return i == a ? b : i == b ? a : i; };
  std::swap(program.instructions[static_cast<std::size_t>(a)], program.instructions[static_cast<std::size_t>(b)]);
  for (Instruction& x : program.instructions) {
    x.wait0 = moved(x.wait0);
    x.wait1 = moved(x.wait1);
    x.match = moved(x.match);
  }
}

/// Swaps two instructions of one rank, mostly near each other.
void reorder(Program& program) {
  const RankClass& rank = program.ranks[static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(0, program.ranks.size()))];
  const std::int32_t a = *rc::gen::inRange(rank.begin, rank.end), b = a + *rc::gen::inRange(1, 12);
  if (b < rank.end) swap_places(program, a, b);
}

void change_a_field(Program& program) {
  const auto [i, other] = any_place(program);
  Instruction& x = program.instructions[i];
  switch (*rc::gen::inRange(0, 6)) {
    case 0: x.wait0 = other; break;
    case 1: x.wait1 = -1; break;
    case 2: x.match = other; break;
    case 3: x.microbatch += 1; break;
    case 4: x.id += *rc::gen::inRange(-1, 2); break;
    default: x.stream = *rc::gen::element(Stream::compute, Stream::data, Stream::send, Stream::recv);
  }
}

TEST(Mutation, WhatIsAcceptedRuns) {
  EXPECT_TRUE(rc::check("validate() and the simulator agree on deadlock", [] {
    const testing::Case c = testing::any_case();
    Program program = lower(c.plan, c.model, true);
    if (*rc::gen::inRange(0, 4) == 0) change_a_field(program);
    for (int k = *rc::gen::inRange(0, 8); k > 0; --k) reorder(program);
    const Status status = validate(program);
    RC_CLASSIFY(status.ok(), "accepted");
    RC_CLASSIFY(!status.ok() && status.error().found == "it never starts", "deadlock");
    Simulator simulator;
    if (status.ok()) RC_ASSERT(simulator.iteration_ns(program, costs_of(c.timing, program.structure())) >= 0);
    if (!status.ok() && status.error().found == "it never starts")
      RC_ASSERT(simulator.iteration_ns(program, costs_of(c.timing, program.structure())) == -1);
  }));
}

}  // namespace
}  // namespace espalier::sim
