// SPDX-License-Identifier: Apache-2.0
// Names of the enums, the canonical one-line text of a plan and its human label.
#include "espalier/plan.h"

#include "plan/dimension.h"
#include "plan/text.h"

namespace espalier {

using plan_detail::cat;

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
  if (s.zero == 0) return "";
  return cat(" ZeRO-", s.zero, s.shard < s.data_ranks() ? cat("/", s.shard) : "");
}

std::string recompute_label(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::none: return "";
    case RecomputeKind::selective: return " selective-recompute";
    case RecomputeKind::full: return cat(" full-recompute×", recompute.layers);
  }
  return "";
}

}  // namespace

bool Plan::uniform() const {
  for (const Stage& stage : stages) {
    for (const Chunk& chunk : stage.chunks) {
      for (const LayerRange& range : chunk.ranges) {
        if (range.strategy != strategy()) return false;
      }
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
  const Strategy& s = strategy();
  std::string out = cat("TP", s.tp);
  if (!s.partition.empty()) out += "·operators";
  if (s.sp == SequenceParallel::megatron) out += "·SP";
  if (s.sp == SequenceParallel::ulysses) out += "·Ulysses";
  out += cat(" CP", s.cp, s.cp_kind == ContextParallelKind::all_to_all ? "·a2a" : "");
  if (s.ep > 1 || s.etp > 1) out += cat(" EP", s.ep, " ETP", s.etp);
  out += cat(" PP", schedule.stages);
  if (schedule.virtual_stages > 1) out += cat("(v", schedule.virtual_stages, ")");
  out += cat(" DP", s.dp, zero_label(s), " mb", schedule.micro_batch);
  if (schedule.stages > 1) out += cat(" ", to_string(schedule.kind));
  out += recompute_label(s.recompute);
  if (s.order != RankOrder::tp_cp_dp_pp) out += cat(" ", to_string(s.order));
  out += overlap_label(s.overlap);
  if (!uniform()) out += " (layer-wise)";
  return out;
}

}  // namespace espalier
