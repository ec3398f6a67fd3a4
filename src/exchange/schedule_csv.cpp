// SPDX-License-Identifier: Apache-2.0
#include "exchange/schedule_csv.h"

#include <array>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "plan/schedule.h"

namespace espalier::exchange {
namespace {

constexpr const char* kScheduleCsv = "schedule-csv";

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

std::string several_pipelines(const Job&, const Plan& plan) {
  return plan.pipelines.size() == 1 ? "" : cat(static_cast<std::int64_t>(plan.pipelines.size()), " pipelines");
}
std::string no_pipeline(const Job&, const Plan& plan) {
  return plan.only_pipeline().schedule.stages > 1 ? "" : "a plan without a pipeline";
}
constexpr std::array kCsvRows = {
    FormatRow{"ONE-PIPELINE", "one pipeline", several_pipelines, "one", "each has a schedule of its own"},
    FormatRow{"STAGES", "two stages or more", no_pipeline, "two stages or more", "one stage needs no schedule"},
};

std::vector<FormatRule> csv_rules() { return rules_of_rows("CSV", kCsvRows); }
std::optional<FormatFault> csv_fault(const Job& job, const Plan& plan) { return fault_of_rows("CSV", kCsvRows, job, plan); }

Result<std::string> write_csv(const ExportRequest& request) {
  if (const auto broken = csv_fault(request.job, request.plan)) return to_error(*broken, schedule_csv());
  const Schedule& schedule = request.plan.only_pipeline().schedule;
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
  return {kScheduleCsv,
          "the pipeline's order of compute as CSV, for torchtitan and PyTorch's pipelines",
          "schedule.csv",
          write_csv,
          {},
          {},
          csv_rules,
          csv_fault};
}

}  // namespace espalier::exchange
