// SPDX-License-Identifier: Apache-2.0
#include "exchange/format_rules.h"

#include <array>

#include "base/check.h"
#include "base/format.h"

namespace espalier::exchange {
namespace {

using base::cat;

std::string several_pipelines(const Job&, const Plan& plan) {
  return plan.pipelines.size() == 1 ? "" : cat(static_cast<std::int64_t>(plan.pipelines.size()), " pipelines beside each other");
}

std::string frozen(const Job&, const Plan& plan) { return freezes_weights(plan.training) ? "adapters or frozen parts" : ""; }

std::string packed(const Job&, const Plan& plan) {
  const Lengths& lengths = plan.training.lengths;
  if (!lengths.any() || lengths.packing == Packing::none) return "";
  return cat("samples made of several sequences (packing: ", to_string(lengths.packing), ")");
}

std::string unequal_shares(const Job&, const Plan& plan) {
  for (const Stage& stage : plan.only_pipeline().stages)
    if (unequal_replicas(stage)) return "replicas with unequal shares";
  return "";
}

std::string own_strategies(const Job&, const Plan& plan) {
  for (const Stage& stage : plan.only_pipeline().stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (range.strategy != plan.strategy()) return "layers with strategies of their own";
  return "";
}

std::string sizes_of_nodes(const Job& job, const Plan&) {
  const std::int64_t each = job.cluster.groups.front().devices_per_node;
  for (const NodeGroup& group : job.cluster.groups)
    if (group.devices_per_node != each) return cat("nodes of ", each, " and of ", group.devices_per_node, " devices");
  return "";
}

std::string devices_left_out(const Job& job, const Plan& plan) {
  std::int64_t used = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices) used += range.count;
  return used == job.cluster.devices() ? "" : cat("a plan on ", used, " of ", job.cluster.devices(), " devices");
}

constexpr FormatRow kAdapters = {
    "ADAPTERS", "all weights are trained", frozen, "training of all weights",
    "its adapters are configured in the script that trains; degrees and batch are those of the plan"};
constexpr FormatRow kPacked = {
    "PACKED", "a sample is one sequence", packed, "one sequence a sample",
    "its packing is configured in the data loader of the script that trains; degrees and batch are those of the plan"};

constexpr std::array kTraining = {kAdapters, kPacked};

constexpr std::array kCommon = {
    FormatRow{"ONE-PIPELINE", "one pipeline", several_pipelines, "one"},
    kAdapters,
    kPacked,
    FormatRow{"SHARES", "replicas have equal shares of samples and states", unequal_shares, "equal ones"},
    FormatRow{"ONE-STRATEGY", "one strategy for all layers", own_strategies, "one strategy for all layers"},
    FormatRow{"NODE-SIZE", "nodes of one size", sizes_of_nodes, "nodes of one size"},
    FormatRow{"ALL-DEVICES", "all devices of the cluster are used", devices_left_out,
              "one on all devices of the cluster: describe the nodes that are used alone"},
};

}  // namespace

std::span<const FormatRow> common_rows() { return kCommon; }
std::span<const FormatRow> training_rows() { return kTraining; }

std::vector<FormatRule> rules_of_rows(std::string_view prefix, std::span<const FormatRow> rows) {
  std::vector<FormatRule> out;
  for (const FormatRow& row : rows) out.push_back({cat(prefix, "-", row.name), std::string(row.sentence)});
  return out;
}

std::optional<FormatFault> fault_of_rows(std::string_view prefix, std::span<const FormatRow> rows, const Job& job,
                                         const Plan& plan) {
  for (const FormatRow& row : rows) {
    ESPALIER_CHECK(row.found != nullptr && !row.expected.empty());  // a rule asks something, and says what it wants
    if (std::string found = row.found(job, plan); !found.empty())
      return FormatFault{cat(prefix, "-", row.name), std::move(found), std::string(row.expected), std::string(row.hint)};
  }
  return std::nullopt;
}

std::vector<FormatRule> rules_of(std::string_view prefix, std::span<const FormatRow> own) {
  std::vector<FormatRule> out = rules_of_rows(prefix, kCommon);
  for (FormatRule& rule : rules_of_rows(prefix, own)) out.push_back(std::move(rule));
  return out;
}

std::optional<FormatFault> fault_of(std::string_view prefix, std::span<const FormatRow> own, const Job& job, const Plan& plan) {
  if (auto common = fault_of_rows(prefix, kCommon, job, plan)) return common;
  return fault_of_rows(prefix, own, job, plan);
}

std::string lost_lines(const ExportRequest& request, std::string_view mark) {
  std::string out;
  for (const std::string& lost : request.lost) out += cat(mark, " not as planned: ", lost, "\n");
  return out;
}

}  // namespace espalier::exchange

namespace espalier {

Error to_error(const FormatFault& fault, const Exporter& format) {
  const std::string hint = !fault.hint.empty()     ? fault.hint
                           : format.engine.empty() ? std::string()
                                                   : base::cat("espalier plan --engine ", format.engine,
                                                               " finds what it can run; --allow-lossy writes what can be said");
  return {ErrorKind::check_failed, format.name, base::cat(fault.id, ": ", fault.found), fault.expected, hint};
}

}  // namespace espalier
