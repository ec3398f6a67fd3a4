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

std::string no_pipeline(const Job&, const Plan&, const Pipeline& pipeline) {
  return pipeline.schedule.stages > 1 ? "" : "a plan without a pipeline";
}
constexpr std::array kCsvRows = {
    FormatRow{"STAGES", "two stages or more", no_pipeline, "two stages or more", "one stage needs no schedule"},
};

std::vector<FormatRule> csv_rules() {
  std::vector<FormatRule> out = rules_of_rows("CSV", kCsvRows);
  out.insert(out.begin(), {"CSV-ONE-PIPELINE", "one pipeline"});
  return out;
}

std::optional<FormatFault> csv_fault(const Job& job, const Plan& plan) {
  if (const std::size_t pipelines = plan.pipelines.size(); pipelines != 1)
    return FormatFault{"CSV-ONE-PIPELINE", cat(pipelines, " pipelines"), "one", "each has its own schedule"};
  return fault_of_rows("CSV", kCsvRows, job, plan, plan.only_pipeline());
}

Result<std::string> csv_lines(const WrittenPlan& w) {
  const Schedule& schedule = w.schedule();
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

Result<std::string> write_csv(const ExportRequest& request) { return written(schedule_csv(), request, csv_lines); }

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
