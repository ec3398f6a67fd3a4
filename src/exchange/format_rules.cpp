// SPDX-License-Identifier: Apache-2.0
#include "exchange/format_rules.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/engine_faults.h"

namespace espalier::exchange {
namespace {

/// Counts the blocks of a range. The embedding is layer 0, the head the last.
std::int32_t blocks_of(const Model& model, const LayerRange& range) {
  std::int32_t blocks = 0;
  for (std::int32_t l = range.first; l <= range.last; ++l)
    blocks += model.layer(static_cast<std::size_t>(l)).role == LayerRole::block ? 1 : 0;
  return blocks;
}

std::string own_strategies(const Job& job, const Pipeline& pipeline) {
  const Strategy all = strategy_of_all(pipeline);
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) {
        const std::int32_t blocks = blocks_of(job.model, range);
        Strategy own = range.strategy;
        if (all.recompute.kind == RecomputeKind::full && own.recompute.layers == std::min(blocks, all.recompute.layers))
          own.recompute = all.recompute;
        if (blocks == 0) own.recompute = all.recompute;
        if (chunk.ranges.size() > 1 || own != all) return "layers with different strategies";
      }
  return "";
}

}  // namespace

std::vector<FormatRule> rules_of_rows(std::string_view prefix, std::span<const FormatRow> rows) {
  std::vector<FormatRule> out;
  for (const FormatRow& row : rows) out.push_back({cat(prefix, "-", row.name), std::string(row.sentence)});
  return out;
}

std::optional<FormatFault> fault_of_rows(std::string_view prefix, std::span<const FormatRow> rows, const Job& job,
                                         const Plan& plan, const Pipeline& pipeline) {
  for (const FormatRow& row : rows) {
    ESPALIER_CHECK(row.found != nullptr && !row.expected.empty());  // a rule has a check and a demand
    std::string found = row.found(job, plan, pipeline);
    if (found.empty()) continue;
    return FormatFault{cat(prefix, "-", row.name), std::move(found), std::string(row.expected),
                       row.hint_for != nullptr ? row.hint_for(job, pipeline) : std::string(row.hint)};
  }
  return std::nullopt;
}

const EngineModel& engine_written_for(std::string_view format, std::string_view engine, const Plan& plan) {
  if (const EngineModel* own = find_engine(plan.engine))
    if (std::find(own->formats.begin(), own->formats.end(), format) != own->formats.end()) return *own;
  const EngineModel* usual = find_engine(engine);
  ESPALIER_CHECK(usual != nullptr);  // formats name existing engines
  return *usual;
}

Strategy strategy_of_all(const Pipeline& pipeline) {
  Strategy out = pipeline.strategy();
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (range.strategy.recompute.kind == out.recompute.kind)
          out.recompute.layers = std::max(out.recompute.layers, range.strategy.recompute.layers);
  return out;
}

std::vector<FormatRule> rules_of(const FormatRows& rows) { return rules_of_rows(rows.prefix, rows.own); }

std::optional<FormatFault> engine_fault_of(const FormatRows& rows, const Job& job, const Plan& plan) {
  const EngineModel& engine = engine_written_for(rows.format, rows.engine, plan);
  const auto broken = engine_faults(engine, job.model, job.cluster, job.training, plan);
  if (broken.empty()) return std::nullopt;
  return FormatFault{broken.front().rule, broken.front().text, cat("a plan that ", engine.name, " can run"), broken.front().hint};
}

std::optional<FormatFault> fault_of(const FormatRows& rows, const Job& job, const Plan& plan) {
  if (auto broken = engine_fault_of(rows, job, plan)) return broken;
  const Pipeline& pipeline = plan.only_pipeline();  // the engine's rules reject several pipelines
  // Some engines can run more than the file can express.
  if (std::string found = own_strategies(job, pipeline); !found.empty())
    return FormatFault{engine_rule_id(engine_written_for(rows.format, rows.engine, plan), "LAYERS"), std::move(found),
                       "one strategy for all layers"};
  return fault_of_rows(rows.prefix, rows.own, job, plan, pipeline);
}

Result<std::string> written(const Exporter& format, const ExportRequest& request,
                            Result<std::string> (*write)(const WrittenPlan& plan)) {
  if (const auto broken = format.fault(*request.job, *request.plan)) return to_error(*broken, format);
  return write({request, request.plan->only_pipeline()});
}

std::vector<std::string> engine_options(const Plan& plan) {
  std::vector<std::string> out;
  for (std::size_t plus = plan.engine.find('+'); plus != std::string::npos;) {
    const std::size_t next = plan.engine.find('+', plus + 1);
    out.push_back(plan.engine.substr(plus + 1, next == std::string::npos ? next : next - plus - 1));
    plus = next;
  }
  return out;
}

bool has_engine_option(const Plan& plan, std::string_view option) {
  const std::vector<std::string> options = engine_options(plan);
  return std::find(options.begin(), options.end(), option) != options.end();
}

namespace {

/// Returns options of the plan's engine that the training script sets.
std::vector<std::string> options_of_script(const Plan& plan) {
  std::vector<std::string> out;
  const EngineModel* base = find_engine(base_engine(plan.engine));
  if (base == nullptr) return out;
  for (const EngineOption& option : base->options)
    if (option.script && has_engine_option(plan, option.name))
      out.push_back(cat("option ", option.name, " of the engine: ", option.note));
  return out;
}

/// Lists the settings left to the training script, and the lost ones: "# not as planned: MEG-P2P: …". Empty where
/// there are none.
std::string lost_lines(const ExportRequest& request) {
  std::string out;
  for (const std::string& what : left_to_script(*request.plan)) out += cat("# from the training script: ", what, "\n");
  for (const std::string& lost : request.lost) out += cat("# not as planned: ", lost, "\n");
  return out;
}

}  // namespace

std::vector<std::string> left_to_script(const Plan& plan) {
  std::vector<std::string> out;
  if (freezes_weights(plan.training)) out.emplace_back("adapters and frozen parts");
  const Lengths& lengths = plan.training.lengths;
  if (lengths.any() && lengths.packing != Packing::none)
    out.push_back(cat("samples that pack several sequences (packing: ", to_string(lengths.packing), ")"));
  for (std::string& option : options_of_script(plan)) out.push_back(std::move(option));
  return out;
}

std::string head_lines(const ExportRequest& r, std::string_view tool, std::string_view how) {
  return cat("# ", r.plan->label(), "\n# ", r.plan->model_name, " on ", r.job->cluster.devices(), " ",
             r.job->cluster.groups.front().device.name, "; ", tool, ". Written by espalier export; plan ", content_hash(*r.plan),
             ".\n# ", how, "\n", lost_lines(r));
}

Error to_error(const FormatFault& fault, const Exporter& format) {
  const std::string hint = !fault.hint.empty() ? fault.hint
                           : format.engine.empty()
                               ? std::string()
                               : base::cat("espalier plan --engine ", format.engine,
                                           " finds what it can run; --allow-lossy writes the nearest plan that can be expressed");
  return {ErrorKind::check_failed, format.name, base::cat(fault.id, ": ", fault.found), fault.expected, hint};
}

}  // namespace espalier::exchange
