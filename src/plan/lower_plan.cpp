// SPDX-License-Identifier: Apache-2.0
// What a plan adds to the program of its structure: layers and samples of every work, devices of every rank, and, unfolded, a rank for
// every device with the process groups in which it meets others.
#include <algorithm>

#include "base/check.h"
#include "plan/join.h"
#include "plan/program.h"

namespace espalier {
namespace {

/// Devices of a stage in rank order.
std::vector<std::int64_t> devices_of(const Stage& stage) {
  std::vector<std::int64_t> devices;
  for (const DeviceRange& range : stage.devices) {
    for (std::int64_t k = 0; k < range.count; ++k) devices.push_back(range.first + k * range.stride);
  }
  return devices;
}

std::int32_t strategy_index(Program& program, const Strategy& strategy) {
  const auto at = std::find(program.strategies.begin(), program.strategies.end(), strategy);
  if (at != program.strategies.end()) return static_cast<std::int32_t>(at - program.strategies.begin());
  program.strategies.push_back(strategy);
  return static_cast<std::int32_t>(program.strategies.size()) - 1;
}

/// Which layers a chunk holds, under which strategies, and how many samples of a micro-batch a rank has of them.
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

/// Weight shard that device `local` of a stage holds: devices with equal shards meet in data collectives.
/// Where layers of one plan differ in it, all devices of a stage meet.
std::int64_t weight_shard(const Plan& plan, std::int64_t local) {
  if (!plan.uniform()) return 0;
  return local % plan.strategy().weight_tp();  // tp is the innermost dimension of every rank order; Ulysses replicates over it
}

/// Shifts the list of a folded rank to where its copy for one device begins.
void copy_list(const Program& folded, const RankClass& source, std::int64_t local, std::int64_t devices,
               const std::vector<std::int32_t>& begins, Program& program) {
  const auto begin_of = [&](StageId stage) { return begins[static_cast<std::size_t>(stage.value * devices + local)]; };
  const std::int32_t shift = begin_of(source.stage) - source.begin;
  for (std::int32_t i = source.begin; i < source.end; ++i) {
    Instruction instruction = folded.instructions[static_cast<std::size_t>(i)];
    if (instruction.wait0 >= 0) instruction.wait0 += shift;
    if (instruction.wait1 >= 0) instruction.wait1 += shift;
    if (instruction.peer >= 0) {
      const RankClass& peer = folded.ranks[static_cast<std::size_t>(instruction.peer)];
      instruction.match += begin_of(peer.stage) - peer.begin;
      instruction.peer = static_cast<std::int32_t>(peer.stage.value * devices + local);
    }
    program.instructions.push_back(instruction);
  }
}

/// Ranks of a stage that hold the same weights meet; so do the ranks at one position of the stages that hold a copy of the table.
void fill_groups_of_devices(const Plan& plan, const Program& folded, std::int64_t devices, Program& program) {
  const std::int64_t shards = plan.uniform() ? plan.strategy().weight_tp() : 1;
  for (std::int64_t n = 0; n < shards * folded.structure().schedule.stages; ++n) program.groups.add({GroupKind::data_shard, {}});
  const auto copies = static_cast<std::int32_t>(program.groups.size());
  const bool shared = !folded.structure().table_chunks.empty();
  for (std::int64_t local = 0; shared && local < devices; ++local) program.groups.add({GroupKind::table_copies, {}});
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    RankClass& rank = program.ranks[r];
    const auto local = static_cast<std::int32_t>(static_cast<std::int64_t>(r) % devices);
    rank.data = ProcessGroupId(static_cast<std::int32_t>(rank.stage.value * shards + weight_shard(plan, local)));
    program.groups[rank.data].members.push_back(static_cast<std::int32_t>(r));
    if (!folded.ranks[rank.stage.index()].table_copies.valid()) continue;
    rank.table_copies = ProcessGroupId(copies + local);
    program.groups[rank.table_copies].members.push_back(static_cast<std::int32_t>(r));
  }
}

Program unfold(const Program& folded, const Plan& plan) {
  const auto devices = static_cast<std::int64_t>(devices_of(plan.only_pipeline().stages.front()).size());
  Program program = folded;
  program.folded = false;
  program.ranks.clear();
  program.instructions.clear();
  program.groups.clear();
  std::vector<std::int32_t> begins;
  std::int32_t next = 0;
  for (const RankClass& source : folded.ranks) {
    for (std::int64_t local = 0; local < devices; ++local) {
      begins.push_back(next);
      next += source.end - source.begin;
    }
  }
  program.instructions.reserve(static_cast<std::size_t>(next));
  for (const RankClass& source : folded.ranks) {
    const std::vector<std::int64_t> ids = devices_of(plan.only_pipeline().stages[source.stage.index()]);
    ESPALIER_CHECK(static_cast<std::int64_t>(ids.size()) == devices);  // a rank's neighbour has the same position in its stage
    for (std::int64_t local = 0; local < devices; ++local) {
      RankClass rank = source;
      rank.devices = {{ids[static_cast<std::size_t>(local)], 1, 1}};
      rank.table_copies = ProcessGroupId();
      rank.begin = static_cast<std::int32_t>(program.instructions.size());
      copy_list(folded, source, local, devices, begins, program);
      rank.end = static_cast<std::int32_t>(program.instructions.size());
      program.ranks.push_back(rank);
    }
  }
  fill_groups_of_devices(plan, folded, devices, program);
  return program;
}

}  // namespace

namespace {

Program lower(const Pipeline& pipeline, const Model& model) {
  Program program = lower(structure_of(pipeline, model));
  fill_ranges(pipeline, program);
  for (RankClass& rank : program.ranks) rank.devices = pipeline.stages[rank.stage.index()].devices;
  return program;
}

}  // namespace

std::vector<Program> lower_pipelines(const Plan& plan, const Model& model) {
  std::vector<Program> out;
  for (const Pipeline& pipeline : plan.pipelines) out.push_back(lower(pipeline, model));
  return out;
}

Program lower(const Plan& plan, const Model& model, bool fold) {
  if (!fold) return unfold(lower(plan.only_pipeline(), model), plan);
  if (plan.pipelines.size() == 1) return lower(plan.only_pipeline(), model);
  return joined(lower_pipelines(plan, model));
}

}  // namespace espalier
