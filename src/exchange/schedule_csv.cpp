// SPDX-License-Identifier: Apache-2.0
#include "exchange/schedule_csv.h"

#include "base/check.h"
#include "base/format.h"
#include "exchange/uniform_plan.h"
#include "plan/schedule.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr const char* kName = "schedule-csv";

char letter(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::forward: return 'F';
    case InstructionKind::backward: return 'B';
    case InstructionKind::backward_input: return 'I';
    case InstructionKind::backward_weight: return 'W';
    default: break;
  }
  ESPALIER_CHECK(false);  // an order of compute has no other kinds
  return ' ';
}

Result<std::string> write(const Job&, const Plan& plan) {
  if (plan.pipelines.size() != 1)
    return Error{ErrorKind::check_failed, kName, cat(plan.pipelines.size(), " pipelines"), "one",
                 "each has a schedule of its own"};
  const Schedule& schedule = plan.only_pipeline().schedule;
  if (schedule.stages == 1)
    return Error{ErrorKind::check_failed, kName, "a plan without a pipeline", "two stages or more",
                 "one stage needs no schedule"};
  std::string out;
  for (std::int32_t rank = 0; rank < schedule.stages; ++rank) {
    std::string row;
    for (const ChunkPass& pass : compute_order(schedule, rank))
      row += cat(row.empty() ? "" : ",", pipeline_chunk(schedule, rank, pass.local_chunk), std::string(1, letter(pass.kind)),
                 pass.microbatch);
    ESPALIER_CHECK(!row.empty());  // every stage computes
    out += row + "\n";
  }
  return out;
}

}  // namespace

Exporter schedule_csv() {
  return {kName, "the pipeline's order of compute as CSV, for torchtitan and PyTorch's pipelines", "schedule.csv", write};
}

}  // namespace espalier::exchange
