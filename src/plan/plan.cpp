// SPDX-License-Identifier: Apache-2.0
// Writes the canonical one-line text of a plan and its human label, and counts its layers.
#include "espalier/plan.h"

#include <algorithm>
#include <map>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/dimension.h"
#include "plan/listed_devices.h"

namespace espalier {

std::string_view to_string(Optimizer v) {
  switch (v) {
    case Optimizer::adam: return "adam";
    case Optimizer::sgd: return "sgd";
  }
  return "?";
}

std::string_view to_string(Offload v) {
  switch (v) {
    case Offload::none: return "none";
    case Offload::optimizer: return "optimizer";
    case Offload::activations: return "activations";
    case Offload::optimizer_activations: return "optimizer+activations";
    case Offload::parameters: return "parameters";
    case Offload::parameters_activations: return "parameters+activations";
  }
  return "?";
}

std::string_view to_string(FrozenType v) {
  switch (v) {
    case FrozenType::compute: return "none";
    case FrozenType::nf4: return "nf4";
    case FrozenType::int8: return "int8";
  }
  return "?";
}

std::string_view to_string(Packing v) {
  switch (v) {
    case Packing::none: return "none";
    case Packing::packed: return "packed";
    case Packing::balanced: return "balanced";
  }
  return "?";
}

namespace {

std::string offload_label(const Strategy& s) {
  return s.offload == Offload::none ? std::string() : cat(" offload:", to_string(s.offload));
}

std::string overlap_label(const Overlap& overlap) {
  std::string out;
  const auto add = [&out](bool on, std::string_view name) {
    if (on) out += cat(out.empty() ? " overlap:" : "+", name);
  };
  add(overlap.grad_reduce, "grad");
  add(overlap.param_gather, "param");
  add(overlap.p2p, "p2p");
  add(overlap.tp, "tp");
  add(overlap.ep, "ep");
  return out;
}

std::string_view operators_label(const Strategy& s) { return s.partition.empty() ? "" : "·operators"; }

std::string zero_label(const Strategy& s) {
  if (!s.shards_optimizer()) return "";
  return cat(" ZeRO-", number_of(s.zero), s.shard < s.data_ranks() ? cat("/", s.shard) : "");
}

std::string sequence_label(SequenceParallel sp) {
  switch (sp) {
    case SequenceParallel::none: return "";
    case SequenceParallel::ulysses: return "";  // shown in place of TP
    case SequenceParallel::megatron: return "·SP";
  }
  return "";
}

std::string modules_label(RecomputeModules modules) { return modules.any() ? cat("(", to_string(modules), ")") : ""; }

std::string recompute_label(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::none: return "";
    case RecomputeKind::selective: return cat(" selective-recompute", modules_label(recompute.modules));
    case RecomputeKind::full: return cat(" full-recompute×", recompute.layers);
  }
  return "";
}

std::string pipeline_label(const Schedule& schedule) {
  return cat("PP", schedule.stages, schedule.virtual_stages > 1 ? cat("(v", schedule.virtual_stages, ")") : "");
}

std::int32_t last_layer_of(const Plan& plan) {
  std::int32_t last = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const Chunk& chunk : stage.chunks) last = std::max(last, chunk.last());
  return last;
}

/// Returns the recomputation of one layer of a range, with `before` blocks of the range before it.
Recompute recompute_of_layer(const Recompute& range, bool block, std::int32_t before) {
  if (!block || (range.kind == RecomputeKind::full && before >= range.layers)) return {};
  return {range.kind, range.kind == RecomputeKind::full ? 1 : 0, range.modules};
}

/// Merges the overlap flags of all layers: overlap is one choice for all, but flags are off if a layer has
/// nothing to hide.
Overlap any_overlap(const Pipeline& pipeline) {
  Overlap any;
  for (const Stage& stage : pipeline.stages) {
    for (const Chunk& chunk : stage.chunks) {
      for (const LayerRange& range : chunk.ranges) {
        const Overlap& own = range.strategy.overlap;
        any.grad_reduce |= own.grad_reduce;
        any.param_gather |= own.param_gather;
        any.p2p |= own.p2p;
        any.tp |= own.tp;
        any.ep |= own.ep;
      }
    }
  }
  return any;
}

std::vector<StrategyCount> counted(const Pipeline& pipeline, std::int32_t last_layer) {
  std::vector<StrategyCount> counts;
  std::map<Strategy, std::size_t> known;  // a plan may hold as many strategies as layers
  for (const Stage& stage : pipeline.stages) {
    for (const Chunk& chunk : stage.chunks) {
      for (const LayerRun& run : layer_runs(chunk, last_layer)) {
        const auto [at, added] = known.emplace(run.strategy, counts.size());
        if (added) counts.push_back({run.strategy, 0});
        counts[at->second].layers += run.layers();
      }
    }
  }
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.layers > b.layers; });
  return counts;
}

/// Returns the first layer under a strategy of the pipeline.
std::int32_t first_layer_of(const Strategy& strategy, const Pipeline& pipeline, std::int32_t last_layer) {
  std::int32_t first = last_layer;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRun& run : layer_runs(chunk, last_layer))
        if (run.strategy == strategy) first = std::min(first, run.first);
  return first;
}

/// Returns the strategies that a label names, in the order of the layers: all of a few, otherwise the most frequent.
std::vector<StrategyCount> named_of(std::vector<StrategyCount> counts, const Pipeline& pipeline, std::int32_t last_layer) {
  constexpr std::size_t kShown = 4;
  // If only one strategy remains, it is named: the line would not be shorter without its name.
  if (counts.size() > kShown + 1) counts.resize(kShown);
  std::vector<std::pair<std::int32_t, StrategyCount>> placed;
  for (StrategyCount& count : counts) {
    const std::int32_t first = first_layer_of(count.strategy, pipeline, last_layer);
    placed.emplace_back(first, std::move(count));
  }
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<StrategyCount> named;
  for (auto& [first, count] : placed) named.push_back(std::move(count));
  return named;
}

std::string layerwise_label(const Pipeline& pipeline, std::int32_t last_layer) {
  const Schedule& schedule = pipeline.schedule;
  std::string out = cat("layer-wise ", pipeline_label(schedule));
  if (schedule.stages > 1) out += cat(" ", to_string(schedule.kind));
  out += cat(" ", schedule.microbatches, "×", pipeline.samples_per_microbatch(), " samples", overlap_label(any_overlap(pipeline)),
             ":");
  const std::vector<StrategyCount> counts = counted(pipeline, last_layer);
  const std::vector<StrategyCount> named = named_of(counts, pipeline, last_layer);
  std::int32_t others = 0;
  for (const StrategyCount& count : counts) others += count.layers;
  for (std::size_t i = 0; i < named.size(); ++i) {
    out += cat(i == 0 ? " " : ", ", label(named[i].strategy), " ×", named[i].layers);
    others -= named[i].layers;
  }
  if (named.size() < counts.size()) out += cat(", ", counts.size() - named.size(), " others ×", others);
  return out;
}

bool is_empty(const Pipeline& pipeline) { return pipeline.stages.empty() || pipeline.stages.front().chunks.empty(); }

/// Returns whether every chunk is one range of the first layer's strategy.
bool is_uniform(const Pipeline& pipeline) {
  for (const Stage& stage : pipeline.stages) {
    for (const Chunk& chunk : stage.chunks) {
      if (chunk.ranges.size() != 1 || chunk.ranges.front().strategy != pipeline.strategy()) return false;
    }
  }
  return true;
}

std::string label_of(const Pipeline& pipeline, std::int32_t last_layer) {
  if (is_empty(pipeline)) return "empty plan";
  return is_uniform(pipeline) ? label(pipeline.strategy(), pipeline.schedule) : layerwise_label(pipeline, last_layer);
}

/// Returns the beginning of a list of devices in an order of its own, stage after stage: " on devices 4-7, 0-3".
std::string devices_label(const Pipeline& pipeline) {
  constexpr std::size_t kShown = 4;
  std::size_t ranges = 0;
  std::string out;
  for (const Stage& stage : pipeline.stages) {
    for (const DeviceRange& range : stage.devices) {
      if (ranges++ < kShown) out += cat(out.empty() ? " on devices " : ", ", text_of(range));
    }
  }
  return ranges > kShown ? out + ", …" : out;
}

/// Returns a strategy with the options that are not dimensions.
std::string text_of(const Strategy& strategy, const Schedule& schedule) {
  std::string out = canonical_text(strategy, schedule);
  if (strategy.overlap.ep) out += " overlap-ep";
  return out;
}

std::string listed(std::string_view name, const std::vector<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t v : values) out += cat(out.empty() ? "" : ",", v);
  return out.empty() ? "" : cat(" ", name, " ", out);
}

std::string text_of(const Pipeline& pipeline, bool devices) {
  if (is_empty(pipeline)) return "empty";
  std::string out = text_of(pipeline.strategy(), pipeline.schedule);
  const bool uniform = is_uniform(pipeline);
  // If the plan is not uniform, every range follows in the order of the document.
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const Stage& stage = pipeline.stages[i];
    for (const Chunk& chunk : stage.chunks) {
      for (const LayerRange& range : chunk.ranges) {
        if (!uniform) out += cat(" | ", range.first, "-", range.last, " ", text_of(range.strategy, pipeline.schedule));
      }
    }
    std::string own = listed("samples", stage.samples_per_replica) + listed("states", stage.state_shares);
    for (const DeviceRange& r : stage.devices)
      if (devices) own += cat(" d", r.first, "+", r.count, "*", r.stride);
    if (!own.empty()) out += cat(" | stage ", i, own);
  }
  return out;
}

}  // namespace

Plan Plan::alone(std::size_t pipeline) const {
  ESPALIER_CHECK(pipeline < pipelines.size());
  Plan out = *this;
  out.pipelines = {pipelines[pipeline]};
  out.training.global_batch = pipelines[pipeline].samples;
  return out;
}

const Pipeline& Plan::only_pipeline() const {
  ESPALIER_CHECK(pipelines.size() == 1);
  return pipelines.front();
}

Pipeline& Plan::only_pipeline() {
  ESPALIER_CHECK(pipelines.size() == 1);
  return pipelines.front();
}

bool Plan::uniform() const { return pipelines.size() == 1 && is_uniform(pipelines.front()); }

std::string Plan::canonical_text() const {
  const bool one = pipelines.size() == 1;
  const bool own_devices = !one || !devices_in_order(*this);
  std::string out;
  for (const Pipeline& pipeline : pipelines) {
    if (!one) out += cat(out.empty() ? "" : " || ", "pipeline ", pipeline.id, " samples ", pipeline.samples, " ");
    out += text_of(pipeline, own_devices);
  }
  if (precision)
    out += cat(" precision ", to_string(precision->parameters), " ", to_string(precision->gradients), " ",
               to_string(precision->moments), " ", to_string(precision->saved));
  return out.empty() ? "empty" : out;
}

std::string Plan::label() const {
  const std::int32_t last_layer = last_layer_of(*this);
  std::vector<std::string> labels;
  std::string devices;  // used if there is one pipeline
  for (const Pipeline& pipeline : pipelines) {
    labels.push_back(label_of(pipeline, last_layer));
    devices = devices_label(pipeline);
  }
  if (labels.empty()) return "empty plan";
  if (labels.size() > 1) return cat(labels.size(), " pipelines: ", base::joined(labels, " | "));
  return labels.front() + (devices_in_order(*this) ? "" : devices);
}

std::string label(const Strategy& s, const Schedule& schedule) {
  // Under Ulysses weights are whole, so its degree is no tensor parallelism.
  std::string out =
      s.sp == SequenceParallel::ulysses ? cat("Ulysses", s.tp) : cat("TP", s.tp, operators_label(s), sequence_label(s.sp));
  out += cat(" CP", s.cp, s.cp_kind == ContextParallelKind::all_to_all ? "·a2a" : "");
  if (s.ep > 1 || s.etp > 1) out += cat(" EP", s.ep, " ETP", s.etp);
  out += cat(" ", pipeline_label(schedule), " DP", s.dp, zero_label(s), " mb", schedule.micro_batch);
  if (schedule.stages > 1) out += cat(" ", to_string(schedule.kind));
  out += recompute_label(s.recompute);
  if (s.order != RankOrder::tp_cp_dp_pp) out += cat(" ", to_string(s.order));
  return out + overlap_label(s.overlap) + offload_label(s);
}

std::string content_hash(const Plan& plan) { return base::content_hash(to_json(plan)); }

std::string label(const Strategy& s) {
  std::string out;
  const auto degree = [&out](const char* name, std::int32_t n) {
    if (n > 1) out += cat(out.empty() ? "" : "·", name, n);
  };
  degree(s.sp == SequenceParallel::ulysses ? "Ulysses" : "TP", s.tp);
  out += cat(operators_label(s), sequence_label(s.sp));
  degree("CP", s.cp);
  if (s.cp_kind == ContextParallelKind::all_to_all) out += "·a2a";
  degree("EP", s.ep);
  degree("ETP", s.etp);
  degree("DP", s.dp);
  if (out.empty()) out = "DP1";
  out += zero_label(s);
  if (s.order != RankOrder::tp_cp_dp_pp) out += cat(" ", to_string(s.order));
  if (s.recompute.kind == RecomputeKind::full) out += " +recompute";
  if (s.recompute.kind == RecomputeKind::selective) out += cat(" +selective", modules_label(s.recompute.modules));
  out += offload_label(s);
  return out;
}

std::vector<LayerRun> layer_runs(const Chunk& chunk, std::int32_t last_layer) {
  std::vector<LayerRun> runs;
  for (const LayerRange& range : chunk.ranges) {
    std::int32_t blocks = 0;
    for (std::int32_t layer = range.first; layer <= range.last; ++layer) {
      const bool block = layer != 0 && layer != last_layer;
      LayerRun own{layer, layer, range.strategy};
      own.strategy.recompute = recompute_of_layer(range.strategy.recompute, block, blocks);
      blocks += block ? 1 : 0;
      const bool joins = !runs.empty() && block && runs.back().first != 0 && runs.back().strategy == own.strategy;
      if (joins) {
        runs.back().last = layer;
      } else {
        runs.push_back(std::move(own));
      }
    }
  }
  return runs;
}

std::vector<StrategyCount> strategy_counts(const Plan& plan) {
  std::vector<StrategyCount> all;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const StrategyCount& own : counted(pipeline, last_layer_of(plan))) {
      const auto known = std::find_if(all.begin(), all.end(), [&](const StrategyCount& c) { return c.strategy == own.strategy; });
      if (known == all.end())
        all.push_back(own);
      else
        known->layers += own.layers;
    }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.layers > b.layers; });
  return all;
}

}  // namespace espalier
