// SPDX-License-Identifier: Apache-2.0
// Writes tables of the plan and of its search.
#include <algorithm>

#include "base/format.h"
#include "plan/listed_devices.h"
#include "planner/plan_layers.h"
#include "planner/time_parts.h"
#include "report/page_parts.h"
#include "report/shown_stage.h"

namespace espalier::report {
namespace {

std::string range_text(std::int64_t first, std::int64_t last) { return first == last ? cat(first) : cat(first, "–", last); }

std::string devices_text(const std::vector<DeviceRange>& devices) {
  std::string out;
  for (const DeviceRange& range : devices) {
    if (!out.empty()) out += ", ";
    if (range.count > 1 && range.stride > 1)
      out += cat(range.first, ", ", range.first + range.stride, " … ", range.first + (range.count - 1) * range.stride);
    else
      out += range_text(range.first, range.first + range.count - 1);
  }
  return out;
}

/// Returns the parameters of a run of layers, as a whole number.
std::int64_t parameters_in(const Model& model, std::int32_t first, std::int32_t last) {
  std::int64_t sum = 0;
  for (std::int32_t layer = first; layer <= last; ++layer) sum += parameter_count(model.layer(static_cast<std::size_t>(layer)));
  return sum;
}

std::string chunks_text(const Stage& stage) {
  std::string out;
  for (const Chunk& chunk : stage.chunks) out += cat(out.empty() ? "" : " | ", range_text(chunk.first(), chunk.last()));
  return out;
}

/// Returns "pipeline 1, " where there are several pipelines.
std::string pipeline_text(const Plan& plan, std::size_t pipeline) {
  return plan.pipelines.size() > 1 ? cat("pipeline ", pipeline, ", ") : std::string();
}

/// Returns ", on stage 3"; empty where there is one stage.
std::string fullest_of(const Prediction& p) {
  const auto& peaks = p.peak_memory_bytes_per_stage;
  return peaks.size() > 1 ? cat(", on stage ", std::max_element(peaks.begin(), peaks.end()) - peaks.begin()) : std::string();
}

}  // namespace

PageTable time_table(const Prediction& p, planner::HostWork host) {
  PageTable t{"time", "Where the time goes", "", {"part", "share", "time"}, {}, {}};
  if (is_pipeline(p)) t.note = cat("of ", shown_stage(p), ", for which the others wait");
  for (const planner::TimePart& part : planner::time_parts(shown_parts(p), host)) {
    const double share = share_of(part.ns, p.iteration_ns);
    t.rows.push_back({part.name, {percent(share), share}, seconds(part.ns)});
  }
  return t;
}

PageTable memory_table(const Prediction& p) {
  PageTable t{"memory-parts",
              "Memory of the fullest rank",
              cat("limit ", gib(p.memory_limit_bytes), fullest_of(p)),
              {"part", "of the limit", "size"},
              {},
              {}};
  for (const MemoryPart& part : memory_parts(p.memory)) {
    const double share = share_of(part.bytes, p.memory_limit_bytes);
    t.rows.push_back({part.name, {percent(share), share}, gib(part.bytes)});
  }
  return t;
}

PageTable why_not_table(const PlannerResult& r) {
  PageTable t{"why-not", "Why not the obvious alternatives",
              "",        {"alternative", "configuration", "step", "against", "memory", "lost time"},
              {1, 5},    {}};
  for (const Alternative& a : r.alternatives) {
    const bool timed = a.iteration_ns > 0 && r.prediction.iteration_ns > 0;
    const double slower = timed ? static_cast<double>(a.iteration_ns) / static_cast<double>(r.prediction.iteration_ns) - 1 : 0;
    const std::string configuration = a.plan ? a.plan->label() : "";
    t.rows.push_back({a.outside_space ? cat(a.label, " (outside the searched space)") : a.label,
                      configuration == a.label ? "" : configuration, timed ? seconds(a.iteration_ns) : "–",
                      timed ? cat(slower >= 0 ? "+" : "", percent(slower)) : "–",
                      a.peak_memory_bytes > 0 ? cat(gib(a.peak_memory_bytes), a.fits ? "" : " !") : "–",
                      a.lost_to.empty() && !a.fits ? "does not fit" : a.lost_to});
  }
  return t;
}

PageTable stage_table(const Job& job, const PlannerResult& r) {
  PageTable t{"stages", "Stages", "", {"stage", "devices", "layers", "parameters", "peak memory", "busy"}, {1, 2}, {}};
  const Prediction& p = r.prediction;
  std::size_t number = 0;
  for (std::size_t i = 0; const Pipeline& pipeline : r.plan.pipelines) {
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s, ++number) {
      const Stage& stage = pipeline.stages[s];
      std::int64_t parameters = 0;
      for (const Chunk& chunk : stage.chunks) parameters += parameters_in(job.model, chunk.first(), chunk.last());
      const std::int64_t peak = number < p.peak_memory_bytes_per_stage.size() ? p.peak_memory_bytes_per_stage[number] : 0;
      const double busy = number < p.bottleneck.busy_per_stage.size() ? p.bottleneck.busy_per_stage[number] : 0;
      t.rows.push_back({cat(pipeline_text(r.plan, i), s),
                        cat(device_count(stage), ": ", devices_text(stage.devices)),
                        chunks_text(stage),
                        base::short_count(static_cast<double>(parameters)),
                        {gib(peak), share_of(peak, p.memory_limit_bytes)},
                        {percent(busy), busy}});
    }
    ++i;
  }
  return t;
}

PageTable layer_table_of(const Job& job, const Plan& plan) {
  PageTable t{"layers", "Layers and their strategies",
              "",       {"layers", "kind", "number", "stage", "strategy", "parameters each"},
              {1, 4},   {}};
  const std::int32_t last = planner::last_layer_of(plan);
  for (std::size_t i = 0; const Pipeline& pipeline : plan.pipelines) {
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      for (const Chunk& chunk : pipeline.stages[s].chunks)
        for (const LayerRun& run : layer_runs(chunk, last)) {
          const LayerKind& kind = job.model.layer(static_cast<std::size_t>(run.first));
          t.rows.push_back({range_text(run.first, run.last), kind.name, cat(run.layers()), cat(pipeline_text(plan, i), s),
                            label(run.strategy), base::short_count(static_cast<double>(parameter_count(kind)))});
        }
    ++i;
  }
  std::stable_sort(t.rows.begin(), t.rows.end(),
                   [](const auto& a, const auto& b) { return std::stoll(a.front().text) < std::stoll(b.front().text); });
  return t;
}

PageTable pruning_table(const SearchSummary& s) {
  PageTable t{"pruning", "How the space was covered", "", {"configurations", "number", "share"}, {}, {}};
  if (!searched(s.reason)) {
    t.note = "one given configuration, not searched for";
    return t;
  }
  const double whole = std::max(s.space_size, 1.0);
  for (const auto& [rule, n] : s.pruned) t.rows.push_back({cat("removed by ", rule), count(n), {percent(n / whole), n / whole}});
  const double simulated = static_cast<double>(s.simulated) / whole;
  t.rows.push_back({"simulated", grouped(s.simulated), {percent(simulated), simulated}});
  t.rows.push_back({"all legal ones", count(s.space_size), {percent(s.space_size / whole), s.space_size / whole}});
  t.note = cat(to_string(s.reason), "; no plan of the space is below ", seconds(s.lower_bound_ns), ", gap ", percent(s.gap));
  return t;
}

}  // namespace espalier::report
