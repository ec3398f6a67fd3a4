// SPDX-License-Identifier: Apache-2.0
#include "planner/layerwise_reasons.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "planner/alternatives.h"
#include "planner/plan_layers.h"

namespace espalier::planner {
namespace {

using Property = bool (*)(const Strategy&);

std::int32_t blocks_of(const Plan& plan) { return last_layer_of(plan) - 1; }

/// Counts the blocks of one stage that have a property.
std::int32_t blocks_with(const Stage& stage, std::int32_t last_layer, Property has) {
  std::int32_t n = 0;
  for (const Chunk& chunk : stage.chunks) {
    for (const LayerRun& run : layer_runs(chunk, last_layer)) {
      if (run.first != 0 && run.first != last_layer && has(run.strategy)) n += run.layers();
    }
  }
  return n;
}

std::vector<std::int32_t> blocks_by_stage(const Plan& plan, Property has) {
  std::vector<std::int32_t> out;
  for (const Stage& stage : plan.pipelines.front().stages) out.push_back(blocks_with(stage, last_layer_of(plan), has));
  return out;
}

std::int32_t sum(const std::vector<std::int32_t>& values) {
  std::int32_t n = 0;
  for (const std::int32_t v : values) n += v;
  return n;
}

/// Returns " (by stage: 2, 1, 0, 0)" if the pipeline is short enough to read.
std::string by_stage(const std::vector<std::int32_t>& blocks) {
  if (blocks.size() < 2 || blocks.size() > 16) return "";
  std::string out;
  for (const std::int32_t n : blocks) out.append(out.empty() ? " (by stage: " : ", ").append(std::to_string(n));
  return out + ")";
}

/// Returns "3 of 48 blocks", "none of 48 blocks" or "all 48 blocks".
std::string some_of(std::int32_t n, std::int32_t all) {
  if (n == all) return cat("all ", std::to_string(all), " blocks");
  return cat(n == 0 ? "none" : std::to_string(n), " of ", std::to_string(all), " blocks");
}

/// Adds "3 of 48 blocks recompute in full (by stage: 3, 0, 0, 0); in the best uniform plan all do." Adds nothing if
/// the blocks of the answer are alike and the other plan has the same.
void property_sentence(const PlannerResult& r, const Plan* uniform, const char* doing, Property has,
                       std::vector<std::string>& out) {
  const std::vector<std::int32_t> here = blocks_by_stage(r.plan, has);
  const std::int32_t all = blocks_of(r.plan), n = sum(here);
  const std::int32_t there = uniform != nullptr ? sum(blocks_by_stage(*uniform, has)) : n;
  const bool mixed = n > 0 && n < all;
  if (!mixed && n == there) return;
  std::string sentence = cat(some_of(n, all), " ", doing, mixed ? by_stage(here) : "");
  sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
  if (uniform != nullptr)
    sentence += cat("; in the best uniform plan ",
                    there == 0     ? "none"
                    : there == all ? "all"
                                   : std::to_string(there),
                    there == 1 ? " does" : " do");
  out.push_back(sentence + ".");
}

/// Adds the cost of an even split, if the plan splits its layers unevenly over the stages.
void partition_sentence(const PlannerResult& r, std::vector<std::string>& out) {
  const std::vector<std::int32_t> counts = stage_counts(r.plan);
  if (counts.size() > 1 || counts.front() < 2) return;
  const std::vector<StageBalance>& rows = r.search.balance;
  const auto even = std::find_if(rows.begin(), rows.end(), [](const StageBalance& b) { return b.name == "even"; });
  if (even == rows.end() || r.prediction.iteration_ns <= 0) return;
  const std::string stages =
      counts.front() <= 16 ? cat("The stages hold ", layers_by_stage(r.plan), " layers") : "The stages are uneven";
  if (even->iteration_ns == 0) {
    out.push_back(stages + ": an even split does not fit.");
  } else if (even->iteration_ns > r.prediction.iteration_ns) {
    const double slower = static_cast<double>(even->iteration_ns) / static_cast<double>(r.prediction.iteration_ns) - 1;
    out.push_back(cat(stages, ": an even split, with its best strategies, takes ", seconds(even->iteration_ns), " (+",
                      percent(slower), ")."));
  }
}

const Alternative* alternative_of(const PlannerResult& r, bool (*wanted)(const PlannerResult&, const Alternative&)) {
  const auto at = std::find_if(r.alternatives.begin(), r.alternatives.end(), [&](const Alternative& a) { return wanted(r, a); });
  return at == r.alternatives.end() ? nullptr : &*at;
}

bool is_best_uniform(const PlannerResult& /*r*/, const Alternative& a) { return a.label == kBestUniformPlan && a.plan; }

bool has_our_stages(const PlannerResult& r, const Alternative& a) {
  return !a.baseline && a.fits && a.plan && stage_counts(*a.plan) == stage_counts(r.plan);
}

}  // namespace

std::vector<std::string> layerwise_reasons(const PlannerResult& r) {
  std::vector<std::string> out;
  const Alternative* best = alternative_of(r, is_best_uniform);
  const Plan* uniform = best != nullptr ? &*best->plan : nullptr;
  property_sentence(
      r, uniform, "recompute in full", [](const Strategy& s) { return s.recompute.kind == RecomputeKind::full; }, out);
  property_sentence(
      r, uniform, "recompute only attention", [](const Strategy& s) { return s.recompute.kind == RecomputeKind::selective; },
      out);
  property_sentence(
      r, uniform, "shard their parameters (ZeRO-3)", [](const Strategy& s) { return s.shards_parameters(); }, out);
  property_sentence(
      r, uniform, "shard their gradients (ZeRO-2)", [](const Strategy& s) { return s.zero == ZeroStage::gradients; }, out);
  partition_sentence(r, out);
  const Alternative* same = alternative_of(r, has_our_stages);
  if (same != nullptr && uniform != nullptr && stage_counts(*uniform) != stage_counts(r.plan))
    out.push_back(cat("With one strategy for all layers and the same number of stages, ", same->label, " takes ",
                      seconds(same->iteration_ns), "."));
  return out;
}

}  // namespace espalier::planner
