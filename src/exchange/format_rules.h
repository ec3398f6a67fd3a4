// SPDX-License-Identifier: Apache-2.0
// Defines rules that keep a format from writing a plan. The rules of the file's engine come first
// (plan/engine_faults.h): they define once what an engine cannot run, and the search obeys them. Then come rows of
// the format alone. Each is a rule with an id (a heading of docs/engine-rules.md) and a check of the plan. A row only
// rejects plans that another format of the engine writes, or that are made for another engine of the format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/exchange.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::exchange {

struct FormatRow {
  std::string_view name;      ///< "PIPELINE": the id without its prefix
  std::string_view sentence;  ///< the demand on a plan
  /// Returns the values that the plan has instead; empty where the plan keeps the rule. `pipeline` is the plan's only
  /// one.
  std::string (*found)(const Job& job, const Plan& plan, const Pipeline& pipeline) = nullptr;
  std::string_view expected;
  std::string_view hint = {};  ///< empty: the engine finds a plan of its own
  /// Returns a hint for this plan, in place of `hint`. Null: there is none.
  std::string (*hint_for)(const Job& job, const Pipeline& pipeline) = nullptr;
};

/// Holds the rows of a format whose files have one strategy for all layers.
struct FormatRows {
  std::string_view format;  ///< "accelerate-fsdp"
  std::string_view engine;  ///< used where the plan names no engine of the format
  std::string_view prefix;  ///< "ACC" makes "ACC-SELECTIVE"
  std::span<const FormatRow> own = {};
};
/// Returns the rules with their prefix: "CSV" makes "CSV-ONE-PIPELINE".
std::vector<FormatRule> rules_of_rows(std::string_view prefix, std::span<const FormatRow> rows);
/// Returns the first row that a plan of this one pipeline breaks.
std::optional<FormatFault> fault_of_rows(std::string_view prefix, std::span<const FormatRow> rows, const Job& job,
                                         const Plan& plan, const Pipeline& pipeline);
std::vector<FormatRule> rules_of(const FormatRows& rows);
/// Returns the first rule of the engine that the plan breaks, including one strategy for all layers; then the first
/// broken row.
std::optional<FormatFault> fault_of(const FormatRows& rows, const Job& job, const Plan& plan);
/// Checks only the rules of the engine, which plans of several strategies may keep.
std::optional<FormatFault> engine_fault_of(const FormatRows& rows, const Job& job, const Plan& plan);
/// Returns the plan's own engine with its options where the format writes its plans; else `engine`.
const EngineModel& engine_written_for(std::string_view format, std::string_view engine, const Plan& plan);
/// Returns the strategy of all layers of a pipeline that has one. Stages of unequal length may recompute all their
/// blocks.
Strategy strategy_of_all(const Pipeline& pipeline);

/// Holds a plan that the rules of its format accept, and its pipeline. A file of these formats holds one pipeline;
/// the rules reject several.
struct WrittenPlan {
  const ExportRequest& request;
  const Pipeline& pipeline;
  [[nodiscard]] const Job& job() const { return *request.job; }
  [[nodiscard]] const Plan& plan() const { return *request.plan; }
  [[nodiscard]] const Schedule& schedule() const { return pipeline.schedule; }
  [[nodiscard]] const Strategy& strategy() const { return pipeline.strategy(); }
};
/// Checks the rules of the format and writes the file. Returns the first broken rule as an error.
Result<std::string> written(const Exporter& format, const ExportRequest& request,
                            Result<std::string> (*write)(const WrittenPlan& plan));

/// Returns "flex-dispatcher", "cuda-graphs" for the engine "megatron-core+flex-dispatcher+cuda-graphs".
std::vector<std::string> engine_options(const Plan& plan);
bool has_engine_option(const Plan& plan, std::string_view option);
/// Returns the parts of the training that no format writes, because the training script configures them: adapters,
/// frozen parts, packing, some options of engines.
std::vector<std::string> left_to_script(const Plan& plan);
/// Returns the first lines of a file as comments: the plan, the tool that reads it, its use, and the settings that
/// were left to the script or lost.
std::string head_lines(const ExportRequest& request, std::string_view tool, std::string_view how);

}  // namespace espalier::exchange
