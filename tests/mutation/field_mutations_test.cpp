// SPDX-License-Identifier: Apache-2.0
// Sets random fields of programs and plans to random values.
#include <random>

#include "cases.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

/// Any change of any one field of any pass or transfer is found, and nothing crashes.
TEST(Mutation, EveryFieldOfPassesAndTransfersMatters) {
  std::mt19937 engine(7);
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(n)); };
  const std::vector<Case> cases = synthetic_cases();
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
    if (field == 1) i.id = static_cast<std::int32_t>(value);
    if (field == 2) i.microbatch = static_cast<std::int32_t>(value);
    if (field == 3) i.bucket = static_cast<std::uint8_t>(value);
    if (field == 4) i.peer = static_cast<std::int32_t>(value);
    if (field == 5) i.match = static_cast<std::int32_t>(value);
    if (field == 6) i.id ^= 1;  // the other direction of a transfer
    const Instruction after = i;
    const bool same = before.kind == after.kind && before.id == after.id && before.microbatch == after.microbatch &&
                      before.bucket == after.bucket && before.peer == after.peer && before.match == after.match;
    EXPECT_EQ(c.check().ok(), same) << "field " << field << " of #" << index << " := " << value << "\n" << broken(c.check());
  }
}

/// Plans whose numbers are nonsense end in findings, not in crashes.
TEST(Mutation, NonsenseIsRejectedWithoutHarm) {
  std::mt19937 engine(11);
  const std::vector<Case> cases = synthetic_cases();
  for (int trial = 0; trial < 4000; ++trial) {
    Case c = cases[engine() % cases.size()];
    const std::int32_t choices[] = {0, -1, 1, 2, 3, 1 << 20, 2147483647, -2147483647 - 1};
    const std::int32_t value = choices[engine() % 8];
    Strategy s = strategy_of(c.plan);
    Schedule& schedule = c.plan.only_pipeline().schedule;
    std::int32_t zero = number_of(s.zero);
    std::int32_t* fields[] = {&s.tp,
                              &s.cp,
                              &s.dp,
                              &s.ep,
                              &s.etp,
                              &zero,
                              &s.shard,
                              &s.recompute.layers,
                              &schedule.stages,
                              &schedule.virtual_stages,
                              &schedule.microbatches,
                              &schedule.micro_batch};
    std::int32_t& field = *fields[engine() % 12];
    if (field == value) continue;
    field = value;
    s.zero = ZeroStage{zero};
    for_all_strategies(c.plan, [&](Strategy& each) { each = s; });
    const CheckReport report = c.check();
    EXPECT_FALSE(report.findings.empty());
    if (&field != &s.recompute.layers && &field != &zero) {
      EXPECT_FALSE(report.ok()) << c.plan.label();
    }
  }
}

}  // namespace
}  // namespace espalier::mutation
