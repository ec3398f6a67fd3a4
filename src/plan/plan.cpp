// SPDX-License-Identifier: Apache-2.0
// Names of the enums, the canonical one-line text of a plan and its human label.
#include "espalier/plan.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "plan/dimension.h"

namespace espalier {

using base::cat;

std::string_view to_string(SequenceParallel v) {
  switch (v) {
    case SequenceParallel::none: return "none";
    case SequenceParallel::megatron: return "megatron";
    case SequenceParallel::ulysses: return "ulysses";
  }
  return "?";
}

std::string_view to_string(ContextParallelKind v) {
  switch (v) {
    case ContextParallelKind::ring: return "ring";
    case ContextParallelKind::all_to_all: return "all-to-all";
  }
  return "?";
}

std::string_view to_string(RecomputeKind v) {
  switch (v) {
    case RecomputeKind::none: return "none";
    case RecomputeKind::selective: return "selective";
    case RecomputeKind::full: return "full";
  }
  return "?";
}

std::string_view to_string(RankOrder v) {
  switch (v) {
    case RankOrder::tp_cp_dp_pp: return "tp-cp-dp-pp";
    case RankOrder::tp_cp_pp_dp: return "tp-cp-pp-dp";
    case RankOrder::tp_dp_cp_pp: return "tp-dp-cp-pp";
  }
  return "?";
}

std::string_view to_string(ScheduleKind v) {
  switch (v) {
    case ScheduleKind::gpipe: return "gpipe";
    case ScheduleKind::one_f_one_b: return "1f1b";
    case ScheduleKind::interleaved: return "interleaved";
    case ScheduleKind::zb_h1: return "zb-h1";
    case ScheduleKind::zb_v: return "zb-v";
  }
  return "?";
}

std::string_view to_string(Optimizer v) {
  switch (v) {
    case Optimizer::adam: return "adam";
    case Optimizer::sgd: return "sgd";
    case Optimizer::lora: return "lora";
  }
  return "?";
}

namespace {

std::string overlap_label(const Overlap& overlap) {
  std::string out;
  const auto add = [&out](bool on, std::string_view name) {
    if (on) out += cat(out.empty() ? " overlap:" : "+", name);
  };
  add(overlap.grad_reduce, "grad");
  add(overlap.param_gather, "param");
  add(overlap.p2p, "p2p");
  add(overlap.tp, "tp");
  return out;
}

std::string zero_label(const Strategy& s) {
  if (!shards_optimizer(s.zero)) return "";
  return cat(" ZeRO-", number_of(s.zero), s.shard < s.data_ranks() ? cat("/", s.shard) : "");
}

std::string sequence_label(SequenceParallel sp) {
  switch (sp) {
    case SequenceParallel::none: return "";
    case SequenceParallel::megatron: return "·SP";
    case SequenceParallel::ulysses: return "·Ulysses";
  }
  return "";
}

std::string recompute_label(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::none: return "";
    case RecomputeKind::selective: return " selective-recompute";
    case RecomputeKind::full: return cat(" full-recompute×", recompute.layers);
  }
  return "";
}

std::string pipeline_label(const Schedule& schedule) {
  return cat("PP", schedule.stages, schedule.virtual_stages > 1 ? cat("(v", schedule.virtual_stages, ")") : "");
}

std::int32_t last_layer_of(const Plan& plan) {
  std::int32_t last = 0;
  for (const Stage& stage : plan.stages) {
    for (const Chunk& chunk : stage.chunks) last = std::max(last, chunk.last());
  }
  return last;
}

/// What the recomputation of a range means to one of its layers, with `before` blocks of the range before it.
Recompute recompute_of_layer(const Recompute& range, bool block, std::int32_t before) {
  if (!block || (range.kind == RecomputeKind::full && before >= range.layers)) return {};
  return {range.kind, range.kind == RecomputeKind::full ? 1 : 0};
}

/// Overlap is one choice for all layers, but flags are off where a layer has nothing to hide.
Overlap any_overlap(const Plan& plan) {
  Overlap any;
  for (const Stage& stage : plan.stages) {
    for (const Chunk& chunk : stage.chunks) {
      for (const LayerRange& range : chunk.ranges) {
        const Overlap& own = range.strategy.overlap;
        any.grad_reduce |= own.grad_reduce, any.param_gather |= own.param_gather;
        any.p2p |= own.p2p, any.tp |= own.tp;
      }
    }
  }
  return any;
}

std::string layerwise_label(const Plan& plan) {
  constexpr std::size_t kShown = 4;
  const Schedule& schedule = plan.schedule;
  std::string out = cat("layer-wise ", pipeline_label(schedule));
  if (schedule.stages > 1) out += cat(" ", to_string(schedule.kind));
  out += cat(" ", schedule.microbatches, "×", plan.samples_per_microbatch(), " samples", overlap_label(any_overlap(plan)), ":");
  const std::vector<StrategyCount> counts = strategy_counts(plan);
  // A rest of one is named: the line would not be shorter without its name.
  const std::size_t named = counts.size() <= kShown + 1 ? counts.size() : kShown;
  std::int32_t others = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i < named)
      out += cat(i == 0 ? " " : ", ", label(counts[i].strategy), " ×", counts[i].layers);
    else
      others += counts[i].layers;
  }
  if (named < counts.size()) out += cat(", ", counts.size() - named, " others ×", others);
  return out;
}

}  // namespace

bool Plan::uniform() const {
  for (const Stage& stage : stages) {
    for (const Chunk& chunk : stage.chunks) {
      if (chunk.ranges.size() != 1 || chunk.ranges.front().strategy != strategy()) return false;
    }
  }
  return true;
}

std::string Plan::canonical_text() const {
  if (stages.empty() || stages.front().chunks.empty()) return "empty";
  std::string out = espalier::canonical_text(strategy(), schedule);
  if (uniform()) return out;
  // Not uniform: every range in the order of the document.
  for (const Stage& stage : stages) {
    for (const Chunk& chunk : stage.chunks) {
      for (const LayerRange& range : chunk.ranges) {
        out += cat(" | ", range.first, "-", range.last, " ", espalier::canonical_text(range.strategy, schedule));
      }
    }
  }
  return out;
}

std::string Plan::label() const {
  if (stages.empty() || stages.front().chunks.empty()) return "empty plan";
  if (!uniform()) return layerwise_label(*this);
  const Strategy& s = strategy();
  std::string out = cat("TP", s.tp, s.partition.empty() ? "" : "·operators", sequence_label(s.sp));
  out += cat(" CP", s.cp, s.cp_kind == ContextParallelKind::all_to_all ? "·a2a" : "");
  if (s.ep > 1 || s.etp > 1) out += cat(" EP", s.ep, " ETP", s.etp);
  out += cat(" ", pipeline_label(schedule), " DP", s.dp, zero_label(s), " mb", schedule.micro_batch);
  if (schedule.stages > 1) out += cat(" ", to_string(schedule.kind));
  out += recompute_label(s.recompute);
  if (s.order != RankOrder::tp_cp_dp_pp) out += cat(" ", to_string(s.order));
  return out + overlap_label(s.overlap);
}

std::string label(const Strategy& s) {
  std::string out;
  const auto degree = [&out](const char* name, std::int32_t n) {
    if (n > 1) out += cat(out.empty() ? "" : "·", name, n);
  };
  degree("TP", s.tp);
  out += cat(s.partition.empty() ? "" : "·operators", sequence_label(s.sp));
  degree("CP", s.cp);
  if (s.cp_kind == ContextParallelKind::all_to_all) out += "·a2a";
  degree("EP", s.ep);
  degree("ETP", s.etp);
  degree("DP", s.dp);
  if (out.empty()) out = "DP1";
  out += zero_label(s);
  if (s.order != RankOrder::tp_cp_dp_pp) out += cat(" ", to_string(s.order));
  if (s.recompute.kind == RecomputeKind::full) out += " +recompute";
  if (s.recompute.kind == RecomputeKind::selective) out += " +selective";
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
  const std::int32_t last_layer = last_layer_of(plan);
  std::vector<StrategyCount> counts;
  std::map<Strategy, std::size_t> known;  // a plan may hold as many strategies as layers
  for (const Stage& stage : plan.stages) {
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

}  // namespace espalier
