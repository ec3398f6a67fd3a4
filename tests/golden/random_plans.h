// SPDX-License-Identifier: Apache-2.0
// Generates random plans beyond one strategy for all layers: several ranges in a chunk, moved
// boundaries, operator partitions.
#pragma once

#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "random_configurations.h"

namespace espalier::golden {

/// Returns a sequence of `bits` bits over `letters`; "P" stands for P2, which takes two bits.
inline std::string any_sequence(Random& random, const std::vector<std::string>& letters, int bits) {
  std::string out;
  while (bits > 0) {
    const std::string& part = random.of(letters);
    const int taken = part == "P2" ? 2 : 1;
    if (taken > bits) continue;
    bits -= taken;
    out += (out.empty() ? "" : ",") + part;
  }
  return out;
}

/// Returns sequences for the operators of a decoder's block, as strategies name them.
inline std::string any_partition(Random& random, bool gated, std::int32_t tp) {
  const std::vector<std::string> linear = {"K", "N", "M", "P2", "K", "N"}, core = {"H", "H", "M"}, plain = {"M", "N", "R", "M"};
  const std::string up = gated ? "mlp.gate_up" : "mlp.up";
  int bits = 0;
  while (1 << bits < tp) ++bits;
  std::string out;
  const auto add = [&](const std::string& name, const std::vector<std::string>& letters) {
    out += (out.empty() ? "" : "; ") + name + " " + any_sequence(random, letters, bits);
  };
  add("attn.norm", plain);
  add("attn.qkv", linear);
  add("attn.core", core);
  add("attn.out", linear);
  add("attn.residual", plain);
  add("mlp.norm", plain);
  add(up, linear);
  add("mlp.activation", plain);
  add("mlp.down", linear);
  add("mlp.residual", plain);
  return out;
}

inline bool gated(const Model& model) {
  for (const LayerKind& kind : model.kinds)
    for (const Operator& op : kind.operators)
      if (op.name == "mlp.gate_up") return true;
  return false;
}

/// Returns the strategy with partitioned operators, where its group may have them.
inline Strategy partitioned(Random& random, const Job& job, Strategy s) {
  const bool possible = (s.tp == 2 || s.tp == 4 || s.tp == 8) && s.cp == 1 && s.ep == 1 && s.etp == 1;
  if (!possible) return s;
  s.sp = SequenceParallel::none;
  s.overlap.tp = false;
  if (s.recompute.kind == RecomputeKind::selective) s.recompute.kind = RecomputeKind::none;
  choose_state(random, number_of(s.zero), s);
  s.partition = BlockPartition(any_partition(random, gated(job.model), s.tp));
  return s;
}

/// Returns another strategy over as many devices, for as many samples of a micro-batch.
inline Strategy other_strategy(Random& random, const Job& job, const Strategy& base, bool partitions) {
  Strategy s = base;
  s.partition = {};
  s.tp = s.cp = s.dp = 1;
  spread(random, base.devices(), {&s.tp, &s.cp, &s.dp});
  s.sp = s.tp > 1 ? static_cast<SequenceParallel>(random.below(3)) : SequenceParallel::none;
  s.cp_kind = s.cp > 1 && random.one_in(2) ? ContextParallelKind::all_to_all : ContextParallelKind::ring;
  if (s.etp > 1) s.etp = s.weight_tp();
  choose_state(random, static_cast<std::int32_t>(random.below(4)), s);
  s.recompute.kind = static_cast<RecomputeKind>(random.below(3));
  s.recompute.layers = 0;
  s.overlap.tp = base.overlap.tp && s.sp == SequenceParallel::megatron;
  s.overlap.grad_reduce = base.overlap.grad_reduce && s.data_ranks() > 1;
  s.overlap.param_gather = base.overlap.param_gather && s.shards_optimizer();
  return partitions && random.one_in(2) ? partitioned(random, job, s) : s;
}

inline bool legal_beside(const Job& job, const Plan& plan, const Strategy& s) {
  const std::int64_t samples = plan.samples_per_microbatch();
  if (samples % s.dp != 0) return false;
  Schedule c = plan.only_pipeline().schedule;
  c.micro_batch = static_cast<std::int32_t>(samples / s.dp);
  Strategy asked = s;
  if (asked.recompute.kind == RecomputeKind::full) asked.recompute.layers = 1;
  return violations(job.model, job.cluster, job.training, asked, c).empty();
}

/// Returns another legal strategy, or the same one if none is found.
inline Strategy changed(Random& random, const Job& job, const Plan& plan, const Strategy& base, bool partitions) {
  for (int i = 0; i < 200; ++i) {
    const Strategy s = other_strategy(random, job, base, partitions);
    if (legal_beside(job, plan, s)) return s;
  }
  return base;
}

/// Sets full recomputation to the number of blocks in its range.
inline void count_recomputed(Random& random, const Model& model, LayerRange& range) {
  Recompute& r = range.strategy.recompute;
  r.layers = 0;
  if (r.kind != RecomputeKind::full) return;
  std::int64_t blocks = 0;
  for (std::int32_t i = range.first; i <= range.last; ++i)
    if (model.layer(static_cast<std::size_t>(i)).role == LayerRole::block) ++blocks;
  r.layers = blocks == 0 ? 0 : static_cast<std::int32_t>(1 + random.below(blocks));
  if (blocks == 0) r.kind = RecomputeKind::none;
}

/// Returns the first layers of the ranges of a chunk: embedding and head alone, the blocks between them in
/// up to three.
inline std::set<std::int32_t> range_starts(Random& random, const LayerRange& whole, std::int32_t head) {
  std::set<std::int32_t> starts = {whole.first};
  if (whole.first == 0 && whole.last > 0) starts.insert(1);
  if (whole.last == head) starts.insert(head);
  for (std::int64_t cuts = random.below(3); cuts > 0; --cuts)
    starts.insert(static_cast<std::int32_t>(whole.first + random.below(whole.last - whole.first + 1)));
  return starts;
}

/// Replaces a range by several. The embedding keeps the plan's strategy, and so does a head that shares its table.
inline void cut(Random& random, const Job& job, const Plan& plan, bool partitions, Chunk& chunk) {
  const LayerRange whole = chunk.ranges.front();
  const auto head = static_cast<std::int32_t>(job.model.layers.size()) - 1;
  chunk.ranges.clear();
  const std::set<std::int32_t> starts = range_starts(random, whole, head);
  for (auto it = starts.begin(); it != starts.end(); ++it) {
    LayerRange range{*it, std::next(it) == starts.end() ? whole.last : *std::next(it) - 1, whole.strategy};
    const bool keeps = range.first == 0 || (range.first == head && job.model.tied_embeddings) || random.one_in(4);
    if (!keeps) range.strategy = changed(random, job, plan, whole.strategy, partitions);
    count_recomputed(random, job.model, range);
    chunk.ranges.push_back(range);
  }
}

inline Chunk& chunk_at(Plan& plan, std::int32_t pipeline_chunk) {
  const ChunkPlace place = place_of_chunk(plan.only_pipeline().schedule, pipeline_chunk);
  return plan.only_pipeline().stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.local_chunk)];
}

/// Moves half of the boundaries between chunks by a layer.
inline void move_boundaries(Random& random, Plan& plan) {
  for (std::int32_t c = 0; c + 1 < plan.only_pipeline().schedule.chunks(); ++c) {
    LayerRange& before = chunk_at(plan, c).ranges.front();
    LayerRange& after = chunk_at(plan, c + 1).ranges.front();
    if (random.one_in(2) || before.first == before.last) continue;
    --before.last;
    --after.first;
  }
}

/// Makes a plan whose layers have their own strategies from one where all are alike.
inline Plan layered(Random& random, const Job& job, Plan plan, bool partitions) {
  move_boundaries(random, plan);
  const Plan before = plan;
  for (std::int32_t c = 0; c < plan.only_pipeline().schedule.chunks(); ++c)
    cut(random, job, before, partitions, chunk_at(plan, c));
  return plan;
}

}  // namespace espalier::golden
