// SPDX-License-Identifier: Apache-2.0
#include "espalier/compare.h"

#include <algorithm>
#include <functional>

#include "base/document.h"
#include "base/format.h"
#include "espalier/text.h"
#include "plan/dimension.h"
#include "planner/plan_layers.h"
#include "report/brief_layers.h"
#include "report/brief_text.h"
#include "report/shown_stage.h"

namespace espalier::report {
namespace {

using ValueOfPlan = std::function<std::string(const PlannerResult&)>;

/// Adds one row with `cell` of every plan.
void add_row(std::vector<std::vector<std::string>>& rows, const std::string& name, const std::vector<Compared>& plans,
             const ValueOfPlan& cell) {
  std::vector<std::string> row{name};
  for (const Compared& p : plans) row.push_back(cell(p.result));
  rows.push_back(std::move(row));
}

/// Returns the value of a strategy. Recomputation includes its modules: "selective(moe_act)".
std::string text_of(Dimension dimension, const Strategy& strategy, const Schedule& schedule) {
  const RecomputeModules modules = strategy.recompute.modules;
  const std::string names = dimension == Dimension::recompute && modules.any() ? base::cat("(", to_string(modules), ")") : "";
  return value_text(dimension, get(dimension, strategy, schedule)) + names;
}

/// Returns the value that all layers of a plan share, or "mixed". The micro-batch is that of each layer's own
/// replicas.
std::string value_of(Dimension dimension, const Plan& plan) {
  if (const auto own = planner::uniform_configuration(plan)) return text_of(dimension, own->first, own->second);
  // The number of recomputed layers per chunk is meaningless where each layer has its own strategy.
  if (dimension == Dimension::recompute_layers) return "–";
  std::string out;
  for (std::size_t p = 0; const Pipeline& pipeline : plan.pipelines)
    for (const StrategyCount& c : strategy_counts(plan.alone(p++))) {
      Schedule schedule = pipeline.schedule;
      schedule.micro_batch = static_cast<std::int32_t>(pipeline.samples_per_microbatch() / c.strategy.dp);
      std::string value = text_of(dimension, c.strategy, schedule);
      if (!out.empty() && out != value) return "mixed";
      out = std::move(value);
    }
  return out;
}

/// Adds dimensions in which the plans, or the layers of a plan, differ. The labels already contain the shared ones.
void add_differing_dimensions(std::vector<std::vector<std::string>>& rows, const std::vector<Compared>& plans) {
  for (int i = 0; i < kDimensions; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    const auto value = [&](const PlannerResult& r) { return value_of(dimension, r.plan); };
    const std::string first = value(plans.front().result);
    bool differs = first == "mixed";
    for (const Compared& p : plans) differs = differs || value(p.result) != first;
    if (differs) add_row(rows, std::string(to_string(dimension)), plans, value);
  }
}

/// Lists the layers of each layer-wise plan with their strategies.
std::string layers_section(const std::vector<Compared>& plans) {
  std::string out;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const PlannerResult& r = plans[i].result;
    out += layer_tables(cat("Layers of ", std::to_string(i + 1)), r.plan, r.prediction.peak_memory_bytes_per_stage);
  }
  return out;
}

void add_time_rows(std::vector<std::vector<std::string>>& rows, const std::vector<Compared>& plans) {
  const auto row = [&](const char* name, std::int64_t Breakdown::*part) {
    add_row(rows, name, plans, [part](const PlannerResult& r) { return seconds(shown_parts(r.prediction).*part); });
  };
  add_row(rows, "step", plans, [](const PlannerResult& r) { return seconds(r.prediction.iteration_ns); });
  const double first = static_cast<double>(plans.front().result.prediction.iteration_ns);
  add_row(rows, "against the first", plans, [first](const PlannerResult& r) {
    if (first <= 0) return std::string("–");
    const double change = static_cast<double>(r.prediction.iteration_ns) / first - 1;
    return cat(change >= 0 ? "+" : "", percent(change));
  });
  if (std::any_of(plans.begin(), plans.end(), [](const Compared& p) { return is_pipeline(p.result.prediction); }))
    add_row(rows, "  of the busiest stage", plans,
            [](const PlannerResult& r) { return is_pipeline(r.prediction) ? cat(r.prediction.bottleneck.stage) : "–"; });
  row("  compute", &Breakdown::compute_ns);
  row("  exposed communication", &Breakdown::exposed_communication_ns);
  row("  bubble", &Breakdown::bubble_ns);
  row("  optimizer, host between steps", &Breakdown::optimizer_ns);
  row("  other", &Breakdown::other_ns);
}

void add_memory_rows(std::vector<std::vector<std::string>>& rows, const std::vector<Compared>& plans) {
  const auto row = [&](const char* name, std::int64_t MemoryBreakdown::*part) {
    add_row(rows, name, plans, [part](const PlannerResult& r) { return gib(r.prediction.memory.*part); });
  };
  add_row(rows, "peak memory", plans, [](const PlannerResult& r) { return gib(r.prediction.peak_memory_bytes); });
  row("  parameters", &MemoryBreakdown::parameters);
  row("  gradients", &MemoryBreakdown::gradients);
  row("  optimizer", &MemoryBreakdown::optimizer);
  row("  activations", &MemoryBreakdown::activations);
  row("  buffers", &MemoryBreakdown::communication_buffers);
  row("  framework", &MemoryBreakdown::framework);
  add_row(rows, "memory limit", plans, [](const PlannerResult& r) { return gib(r.prediction.memory_limit_bytes); });
  add_row(rows, "fits", plans, [](const PlannerResult& r) { return std::string(r.prediction.fits ? "yes" : "no"); });
}

}  // namespace

std::vector<std::string> unlike(const std::vector<Compared>& plans) {
  if (plans.empty()) return {};
  const Plan& first = plans.front().result.plan;
  std::vector<std::string> out;
  const auto differs = [&](const char* what, const auto& value) {
    for (std::size_t i = 1; i < plans.size(); ++i) {
      const std::string a = value(first), b = value(plans[i].result.plan);
      if (a != b) return out.push_back(cat("plans 1 and ", i + 1, " differ in their ", what, ": ", a, " and ", b));
    }
  };
  differs("model", [](const Plan& p) { return p.model_name; });
  differs("cluster", [](const Plan& p) { return p.cluster_summary; });
  differs("global batch", [](const Plan& p) { return base::grouped(p.training.global_batch); });
  differs("sequence length",
          [](const Plan& p) { return base::grouped(std::max(p.training.sequence.main, p.training.sequence.encoder)); });
  differs("precision", [](const Plan& p) { return std::string(to_string(p.training.precision)); });
  if (out.empty()) {  // names may be equal where the inputs are not
    differs("model", [](const Plan& p) { return cat(p.model_name, " (", p.model_hash.substr(0, 8), ")"); });
    differs("cluster", [](const Plan& p) { return cat(p.cluster_summary, " (", p.cluster_hash.substr(0, 8), ")"); });
  }
  return out;
}

std::string compare(const std::vector<Compared>& plans, std::size_t width) {
  if (plans.empty()) return "";
  std::string out;
  for (const std::string& warning : unlike(plans))
    out += cat("WARNING: ", warning, "; times of different jobs are not comparable\n");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    out += cat(std::to_string(i + 1), "  ", plans[i].name, ": ", plans[i].result.plan.label(), "\n");
  }
  std::vector<std::vector<std::string>> rows{{""}};
  for (std::size_t i = 0; i < plans.size(); ++i) rows.front().push_back(std::to_string(i + 1));
  add_time_rows(rows, plans);
  add_row(rows, "tokens/s/GPU", plans, [](const PlannerResult& r) { return count(r.prediction.tokens_per_s_per_device); });
  add_row(rows, "MFU, attention in full", plans, [](const PlannerResult& r) { return percent(r.prediction.mfu); });
  add_row(rows, "MFU, causal attention half", plans, [](const PlannerResult& r) { return percent(r.prediction.mfu_causal); });
  add_memory_rows(rows, plans);
  add_differing_dimensions(rows, plans);
  return lay_out(cat(out, "\n", table(rows), layers_section(plans)), width);
}

std::string compare_json(const std::vector<Compared>& plans) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.comparison/1");
  if (const auto warnings = unlike(plans); !warnings.empty()) {
    w.key("warnings").begin_array();
    for (const std::string& warning : warnings) w.value(warning);
    w.end_array();
  }
  w.key("plans").begin_array();
  for (const Compared& p : plans) {
    w.begin_object();
    w.key("file").value(p.name);
    w.key("label").value(p.result.plan.label());
    w.key("result").raw(to_json(p.result, false));
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

}  // namespace espalier::report
