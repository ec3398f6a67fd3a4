// SPDX-License-Identifier: Apache-2.0
// Rules that keep a format from writing a plan. First the rules of the engine that the file is for
// (plan/engine_faults.h): what an engine cannot run is said there, once, and the search keeps to it. Then rows of the
// format alone: each is a rule with an id (a heading of docs/engine-rules.md), and what of a plan breaks it. A row
// refuses only plans that another format of the engine writes, or that are of another engine of the format.
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
  std::string_view sentence;  ///< what a plan must be
  /// Returns the values that the plan has instead; empty: the rule is kept. `pipeline` is the one of the plan.
  std::string (*found)(const Job& job, const Plan& plan, const Pipeline& pipeline) = nullptr;
  std::string_view expected;
  std::string_view hint = {};  ///< empty: the engine finds a plan of its own
};

/// The rows of a format whose files have one strategy for all layers.
struct FormatRows {
  std::string_view format;  ///< "accelerate-fsdp"
  std::string_view engine;  ///< that the file is for where the plan names none of the format
  std::string_view prefix;  ///< "ACC" makes "ACC-SELECTIVE"
  std::span<const FormatRow> own = {};
};
/// With the prefix: "CSV" makes "CSV-ONE-PIPELINE".
std::vector<FormatRule> rules_of_rows(std::string_view prefix, std::span<const FormatRow> rows);
/// The first that is broken by a plan of this one pipeline.
std::optional<FormatFault> fault_of_rows(std::string_view prefix, std::span<const FormatRow> rows, const Job& job,
                                         const Plan& plan, const Pipeline& pipeline);
std::vector<FormatRule> rules_of(const FormatRows& rows);
/// The first rule of the engine that the plan breaks, one strategy for all layers among them; then the first row.
std::optional<FormatFault> fault_of(const FormatRows& rows, const Job& job, const Plan& plan);
/// The rules of the engine alone, which plans of several strategies may keep.
std::optional<FormatFault> engine_fault_of(const FormatRows& rows, const Job& job, const Plan& plan);
/// The plan's own engine where the format writes its plans, with its options; else `engine`.
const EngineModel& engine_written_for(std::string_view format, std::string_view engine, const Plan& plan);
/// The strategy of all layers of a pipeline that has one: stages of unequal length may recompute all their blocks.
Strategy strategy_of_all(const Pipeline& pipeline);

/// A plan that the rules of its format accept, and its pipeline. A file of these formats holds one pipeline; the rules
/// reject several.
struct WrittenPlan {
  const ExportRequest& request;
  const Pipeline& pipeline;
  [[nodiscard]] const Job& job() const { return request.job; }
  [[nodiscard]] const Plan& plan() const { return request.plan; }
  [[nodiscard]] const Schedule& schedule() const { return pipeline.schedule; }
  [[nodiscard]] const Strategy& strategy() const { return pipeline.strategy(); }
};
/// Checks the rules of the format and writes the file; returns the first broken rule as an error.
Result<std::string> written(const Exporter& format, const ExportRequest& request,
                            Result<std::string> (*write)(const WrittenPlan& plan));

/// "flex-dispatcher", "cuda-graphs" of the engine "megatron-core+flex-dispatcher+cuda-graphs".
std::vector<std::string> engine_options(const Plan& plan);
bool has_engine_option(const Plan& plan, std::string_view option);
/// Parts of the training that no format writes, because the script that trains configures it: adapters, frozen parts,
/// packing, some options of engines.
std::vector<std::string> left_to_script(const Plan& plan);
/// Returns the first lines of a file as comments: the plan, the tool that reads it, how it is used, what is left to the
/// script and what was lost.
std::string head_lines(const ExportRequest& request, std::string_view tool, std::string_view how);

}  // namespace espalier::exchange
