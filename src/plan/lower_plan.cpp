// SPDX-License-Identifier: Apache-2.0
// Adds the parts of a plan to the program of its structure: layers and samples of every work, and devices of every
// rank. An unfolded program has a rank for every device, with the process groups in which it communicates.
#include <algorithm>

#include "base/invariant.h"
#include "plan/join.h"
#include "plan/program.h"
#include "plan/unfold.h"

namespace espalier {
namespace {

std::int32_t strategy_index(Program& program, const Strategy& strategy) {
  const auto at = std::find(program.strategies.begin(), program.strategies.end(), strategy);
  if (at != program.strategies.end()) return static_cast<std::int32_t>(at - program.strategies.begin());
  program.strategies.push_back(strategy);
  return static_cast<std::int32_t>(program.strategies.size()) - 1;
}

/// Fills in the layers and strategies of each chunk, and the samples of a micro-batch that a rank has of them.
void fill_ranges(const Pipeline& pipeline, Program& program) {
  const ProgramStructure& s = program.structure();
  for (std::int32_t c = 0; c < s.chunks(); ++c) {
    const ChunkPlace place = place_of_chunk(s.schedule, c);
    const Chunk& chunk =
        pipeline.stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.local_chunk)];
    const auto begin = static_cast<std::int32_t>(program.ranges.size());
    for (const LayerRange& r : chunk.ranges)
      program.ranges.push_back({r.first, r.last, strategy_index(program, r.strategy),
                                pipeline.samples_per_microbatch() / r.strategy.dp, r.strategy.recompute.layers});
    for (std::int32_t k = 0; k < s.phases(); ++k) {
      Work& work = program.works[WorkId(s.forward(ChunkId(c)).value + k)];
      work.ranges_begin = begin;
      work.ranges_end = static_cast<std::int32_t>(program.ranges.size());
    }
    if (c == 0) continue;
    for (const bool gradient : {false, true}) {
      program.transfers[s.transfer(ChunkId(c), gradient)].sender = begin - 1;
      program.transfers[s.transfer(ChunkId(c), gradient)].receiver = begin;
    }
  }
}

/// Lowers a pipeline that takes samples of the global batch from `first_sample` on.
Program lower(const Pipeline& pipeline, const Model& model, std::int64_t first_sample) {
  Program program = lower(structure_of(pipeline, model));
  PipelineProgram& own = program.pipelines.front();
  own.first_sample = first_sample;
  own.microbatch_samples = pipeline.samples_per_microbatch();
  fill_ranges(pipeline, program);
  for (RankClass& rank : program.ranks) {
    rank.devices = pipeline.stages[rank.stage.index()].devices;
    rank.samples_per_replica = pipeline.stages[rank.stage.index()].samples_per_replica;
  }
  return program;
}

/// Lowers the pipelines, which take the samples of a global batch one after the other.
std::vector<Program> lower_all(const Plan& plan, const Model& model, bool fold) {
  std::vector<Program> out;
  std::int64_t samples = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    Program program = lower(pipeline, model, samples);
    samples += pipeline.samples;
    out.push_back(fold ? std::move(program) : unfolded(program, pipeline, plan.training));
  }
  return out;
}

}  // namespace

std::vector<Program> lower_pipelines(const Plan& plan, const Model& model) { return lower_all(plan, model, true); }

Program lower(const Plan& plan, const Model& model, bool fold) {
  std::vector<Program> parts = lower_all(plan, model, fold);
  return parts.size() == 1 ? std::move(parts.front()) : joined(parts);
}

}  // namespace espalier
