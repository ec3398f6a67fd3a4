// SPDX-License-Identifier: Apache-2.0
#include "report/brief_layers.h"

#include <algorithm>

#include "base/format.h"
#include "planner/plan_layers.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

constexpr std::size_t kStrategiesWidth = 88;

std::string run_text(const LayerRun& run, std::int32_t last_layer) {
  if (run.first == 0) return cat("embedding ", label(run.strategy));
  if (run.first == last_layer) return cat("head ", label(run.strategy));
  return cat(label(run.strategy), " ×", std::to_string(run.layers()));
}

std::string layers_text(std::int32_t first, std::int32_t last) {
  return first == last ? std::to_string(first) : cat(std::to_string(first), "–", std::to_string(last));
}

std::string layers_of(const Stage& stage) {
  std::string out;
  for (const Chunk& chunk : stage.chunks) out.append(out.empty() ? "" : " | ").append(layers_text(chunk.first(), chunk.last()));
  return out;
}

/// Holds stages with the same list of strategies.
struct StageGroup {
  std::size_t first = 0, last = 0;
  std::string strategies;
  std::int64_t peak_bytes = 0;  ///< largest of the group
};

std::vector<StageGroup> stage_groups(const Pipeline& pipeline, const std::vector<std::int64_t>& peaks) {
  std::vector<StageGroup> groups;
  const std::int32_t last = planner::last_layer_of(pipeline);
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    std::string strategies = strategies_of(pipeline.stages[i], last, kStrategiesWidth);
    const std::int64_t peak = i < peaks.size() ? peaks[i] : 0;
    if (!groups.empty() && groups.back().strategies == strategies) {
      groups.back().last = i;
      groups.back().peak_bytes = std::max(groups.back().peak_bytes, peak);
    } else {
      groups.push_back({i, i, std::move(strategies), peak});
    }
  }
  return groups;
}

/// Returns the layers of a group: one span for one chunk per stage, "12–23 | 60–71, …" where they are apart.
std::string layers_of(const Pipeline& pipeline, const StageGroup& group) {
  const Stage& first = pipeline.stages[group.first];
  if (group.first == group.last) return layers_of(first);
  if (first.chunks.size() == 1)
    return cat(layers_text(first.chunks.front().first(), pipeline.stages[group.last].chunks.front().last()), ", ",
               std::to_string(planner::layer_count(first)), " each");
  return cat(layers_of(first), ", …");
}

/// Returns the number of layers of each stage of a partition.
std::string counts_of(const std::vector<std::int32_t>& first, std::int32_t layers) {
  std::string out;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int32_t end = i + 1 < first.size() ? first[i + 1] : layers;
    out.append(out.empty() ? "" : "+").append(std::to_string(end - first[i]));
  }
  return out;
}

std::string change(std::int64_t ns, std::int64_t reference_ns) {
  if (ns <= 0 || reference_ns <= 0) return "–";
  const double by = static_cast<double>(ns) / static_cast<double>(reference_ns) - 1;
  return cat(by >= 0 ? "+" : "", percent(by));
}

}  // namespace

std::string strategies_of(const Stage& stage, std::int32_t last_layer, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  const auto add = [&](std::string_view separator, const std::string& piece) {
    const std::size_t wide = display_width(piece);
    if (column > 0 && column + display_width(separator) + 1 + wide > width) {
      out.append(separator).append("\n");
      column = 0;
    } else if (column > 0) {
      out.append(separator).append(" ");
      column += display_width(separator) + 1;
    }
    out += piece;
    column += wide;
  };
  for (const Chunk& chunk : stage.chunks) {
    std::string_view separator = out.empty() ? "" : " |";
    for (const LayerRun& run : layer_runs(chunk, last_layer)) {
      add(separator, run_text(run, last_layer));
      separator = ",";
    }
  }
  return out;
}

std::string layer_table(const Pipeline& pipeline, const std::vector<std::int64_t>& peak_bytes_per_stage) {
  std::vector<std::vector<std::string>> rows{{"stage", "layers", "peak", "strategies × layers"}};
  for (const StageGroup& group : stage_groups(pipeline, peak_bytes_per_stage)) {
    rows.push_back({layers_text(static_cast<std::int32_t>(group.first), static_cast<std::int32_t>(group.last)),
                    layers_of(pipeline, group), group.peak_bytes > 0 ? gib(group.peak_bytes) : "–", group.strategies});
  }
  return table(rows, {1, 3});
}

std::string layer_tables(const std::string& title, const Plan& plan, const std::vector<std::int64_t>& peak_bytes_per_stage) {
  if (plan.uniform()) return "";
  const bool several = plan.pipelines.size() > 1;
  std::string out;
  std::vector<std::int64_t> left = peak_bytes_per_stage;
  for (std::size_t p = 0; const Pipeline& pipeline : plan.pipelines) {
    const auto own = static_cast<std::ptrdiff_t>(std::min(left.size(), pipeline.stages.size()));
    out += cat("\n", title);
    if (several)
      out += cat(": pipeline ", std::to_string(p++), ", ", base::grouped(pipeline.samples), " of ",
                 base::grouped(plan.training.global_batch), " samples, ", base::grouped(pipeline.schedule.microbatches),
                 " micro-batches of ", base::grouped(pipeline.samples_per_microbatch()));
    out += cat("\n", layer_table(pipeline, {left.begin(), left.begin() + own}));
    left.erase(left.begin(), left.begin() + own);
  }
  return out;
}

std::string balance_table(const std::vector<StageBalance>& balance, const Plan& plan) {
  const std::int32_t layers = planner::last_layer_of(plan) + 1;
  const auto exact = std::find_if(balance.begin(), balance.end(), [](const StageBalance& b) { return b.name == "exact"; });
  const std::int64_t reference = exact == balance.end() ? 0 : exact->iteration_ns;
  std::vector<std::vector<std::string>> rows{{"partition", "layers per stage", "α_t", "α_m", "step", "against exact"}};
  for (const StageBalance& b : balance) {
    rows.push_back({b.name, counts_of(b.first, layers), fixed(b.alpha_t, 3), fixed(b.alpha_m, 3),
                    b.iteration_ns > 0 ? seconds(b.iteration_ns) : "does not fit", change(b.iteration_ns, reference)});
  }
  return cat(table(rows, {1}),
             "  α: 1 − the largest share of a stage, in time and in memory; exact: in the sums of the cost model\n");
}

std::string layerwise_gain(const SearchSummary& search, std::int64_t iteration_ns) {
  const std::int64_t uniform_ns = best_uniform_ns(search);
  if (uniform_ns == 0) return "no uniform plan fits, only plans whose layers have different strategies";
  const std::string uniform = cat("the best uniform plan (", seconds(uniform_ns), ")");
  if (uniform_ns < iteration_ns) return cat(uniform, " is faster; this is the simplest within reach (--simple)");
  if (uniform_ns == iteration_ns) return "no gain: " + uniform + " is the answer";
  const double saved = 1 - static_cast<double>(iteration_ns) / static_cast<double>(uniform_ns);
  return cat(percent(saved), " less time than ", uniform);
}

}  // namespace espalier::report
