// SPDX-License-Identifier: Apache-2.0
// Chooses the parts that a random training trains, and its samples: adapters next to frozen weights, frozen parts
// of the model, sequences of unlike length. Leaves out anything that the engine does not run, and targets that
// the model lacks.
#pragma once

#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "random.h"

namespace espalier::property {

/// Returns the schedules of one chunk a stage for which `has` holds.
template <class Predicate>
std::vector<ScheduleKind> one_chunk_kinds(Predicate has) {
  std::vector<ScheduleKind> out;
  for (const ScheduleKind kind : kScheduleKinds)
    if (!has_chunks(kind) && has(kind)) out.push_back(kind);
  return out;
}

/// Chooses an adapter, or frozen parts: the embedding (with the table that a tied head shares), the head,
/// the first blocks.
inline void choose_trained_parts(Random& random, const EngineModel& engine, Model& model, Training& training) {
  if (!engine.runs.frozen_weights) return;
  Training chosen = training;
  if (random.one_in(2)) {
    chosen.adapter.rank = static_cast<std::int32_t>(random.of<std::int64_t>({1, 4, 16}));
    chosen.adapter.targets = random.one_in(2) ? std::vector<std::string>{"all-linear"} : std::vector<std::string>{"attn.qkv"};
    chosen.adapter.base = random.of<FrozenType>({FrozenType::compute, FrozenType::nf4, FrozenType::int8});
  } else {
    if (random.one_in(2)) chosen.freeze.emplace_back("embedding");
    if (random.one_in(4)) chosen.freeze.emplace_back("head");
    if (random.one_in(2)) chosen.freeze.push_back("layers 0-" + std::to_string(random.below(model.blocks())));
  }
  Model marked = model;
  if (!mark_trained(marked, chosen, "toy").ok()) return;
  model = std::move(marked);
  training = chosen;
}

/// Chooses one to four lengths, often one that fills a sample.
inline void choose_lengths(Random& random, const EngineModel& engine, Training& training) {
  const std::int64_t most = training.sequence.main;
  if (most < 2 || training.sequence.encoder > 0) return;
  Lengths lengths;
  lengths.packing = random.of<Packing>({Packing::none, Packing::packed, Packing::packed, Packing::balanced});
  if (lengths.packing != Packing::none && !engine.runs.packed_sequences) return;
  const std::int64_t longest = random.one_in(2) ? most : random.between(1, most);
  for (std::int64_t tokens = longest; tokens >= 1 && lengths.histogram.size() < 4; tokens /= random.between(2, 8))
    lengths.histogram.insert(lengths.histogram.begin(), {tokens, static_cast<double>(random.between(1, 60))});
  training.lengths = lengths;
}

}  // namespace espalier::property
