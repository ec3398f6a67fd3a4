// SPDX-License-Identifier: Apache-2.0
#include "check/pipelines.h"

#include <algorithm>
#include <map>
#include <set>

#include "check/arithmetic.h"
#include "check/verdict.h"
#include "check/view.h"

namespace espalier::check {
namespace {

using Kind = InstructionKind;

/// Returns the first layer of each piece that no pipeline cuts, in descending order.
std::vector<std::int32_t> cuts_of(const Plan& plan) {
  std::set<std::int32_t> firsts;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const Chunk& chunk : stage.chunks) firsts.insert(chunk.first());
  return {firsts.rbegin(), firsts.rend()};
}

/// Returns the stage of a pipeline that holds a layer; −1 if there is none.
std::int32_t holder_of(const Pipeline& pipeline, std::int32_t layer) {
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (const Chunk& chunk : pipeline.stages[i].chunks)
      if (chunk.first() <= layer && layer <= chunk.last()) return static_cast<std::int32_t>(i);
  return -1;
}

bool is_meeting(const Program& program, const Instruction& x) {
  if (x.stream != Stream::data || x.id < 0 || static_cast<std::size_t>(x.id) >= program.collectives.size()) return false;
  return program.collectives[x.collective()].pipelines.valid();
}

/// Returns the entries [from, to) of a table, numbered from 0.
template <class Id, class Entry>
base::IndexedVector<Id, Entry> slice(const base::IndexedVector<Id, Entry>& all, std::int32_t from, std::int32_t to) {
  base::IndexedVector<Id, Entry> out;
  for (std::int32_t i = from; i < to; ++i) out.add(all[Id(i)]);
  return out;
}

std::size_t chunks_of(const Pipeline& pipeline) {
  std::size_t n = 0;
  for (const Stage& stage : pipeline.stages) n += stage.chunks.size();
  return n;
}

/// Returns the first collective that is a meeting. Only meetings follow it.
std::int32_t first_meeting(const Program& program) {
  std::int32_t i = 0;
  while (static_cast<std::size_t>(i) < program.collectives.size() && !program.collectives[CollectiveId(i)].pipelines.valid()) ++i;
  return i;
}

/// Returns the index at which the entries of part `k` end in a table of `size` entries.
std::int32_t end_of(const Program& program, std::size_t k, std::int32_t PipelineProgram::*first, std::size_t size) {
  return k + 1 < program.pipelines.size() ? program.pipelines[k + 1].*first : static_cast<std::int32_t>(size);
}

/// Copies the instructions of one rank class without its meetings, renumbered for its own part.
class Copier {
 public:
  Copier(const Program& whole, const PipelineProgram& part, Program& out) : whole_(whole), part_(part), out_(out) {}
  void copy(const RankClass& source) {
    RankClass rank = source;
    rank.pipeline = 0;
    rank.begin = static_cast<std::int32_t>(out_.instructions.size());
    std::int32_t last_data = -1;
    for (std::int32_t i = source.begin; i < source.end; ++i) {
      Instruction x = whole_.instructions[static_cast<std::size_t>(i)];
      if (is_meeting(whole_, x)) {
        place_[i] = last_data >= 0 ? last_data : placed(x.wait0);
        continue;
      }
      const auto here = static_cast<std::int32_t>(out_.instructions.size());
      place_[i] = here;
      if (x.stream == Stream::data) last_data = here;
      x.wait0 = placed(x.wait0);
      x.wait1 = placed(x.wait1);
      if (x.peer >= 0) x.peer -= part_.first_rank;
      x.id -= x.stream == Stream::compute ? part_.first_work
              : x.stream == Stream::data  ? part_.first_collective
                                          : part_.first_transfer;
      out_.instructions.push_back(x);
    }
    rank.end = static_cast<std::int32_t>(out_.instructions.size());
    out_.ranks.push_back(std::move(rank));
  }
  void match() {
    for (Instruction& x : out_.instructions)
      if (x.match >= 0) x.match = placed(x.match);
  }

 private:
  [[nodiscard]] std::int32_t placed(std::int32_t instruction) const {
    const auto at = place_.find(instruction);
    return at == place_.end() ? -1 : at->second;
  }

  const Program& whole_;
  const PipelineProgram& part_;
  Program& out_;
  std::map<std::int32_t, std::int32_t> place_;
};

/// Requires the meetings of one rank class in the order of the pieces, after all its own backward passes and before
/// its update.
void require_meetings(const Plan& plan, const Program& program, const RankClass& rank, Verdict& verdict) {
  const Pipeline& pipeline = plan.pipelines[static_cast<std::size_t>(rank.pipeline)];
  const auto name = [&] { return say("pipeline ", rank.pipeline, ", stage ", rank.stage.value); };
  std::vector<std::int32_t> expected, found;
  for (const std::int32_t first : cuts_of(plan))
    if (holder_of(pipeline, first) == rank.stage.value) expected.push_back(first);
  std::int32_t last_backward = -1, last_meeting = -1, update = -1;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
    if (x.kind == Kind::backward || x.kind == Kind::backward_weight) last_backward = i;
    if (x.kind == Kind::optimizer) update = i;
    if (!is_meeting(program, x)) continue;
    const Collective& meeting = program.collectives[x.collective()];
    found.push_back(meeting.layers.first);
    verdict.require(update < 0, [&] { return say(name(), " meets for layers ", meeting.layers.first, "… after its update"); });
    verdict.require(x.wait0 >= last_backward && last_backward >= rank.begin,
                    [&] { return say(name(), " meets for layers ", meeting.layers.first, "… before its last backward"); });
    last_meeting = i;
  }
  verdict.require(found == expected, [&] {
    return say(name(), " meets ", found.size(), " times", expected.size() == found.size() ? " in a different order" : "",
               ", expected ", expected.size());
  });
  const bool waits = update >= 0 && program.instructions[static_cast<std::size_t>(update)].wait0 == last_meeting;
  verdict.require(expected.empty() || waits, [&] { return say(name(), " updates without waiting for the other pipelines"); });
}

/// Requires that the rank class of every pipeline that holds a piece meets in it.
void require_members(const Plan& plan, const Program& program, const Collective& meeting, std::int32_t last, Verdict& verdict) {
  std::vector<std::int32_t> expected;
  for (std::size_t p = 0; const Pipeline& pipeline : plan.pipelines)
    expected.push_back(program.pipelines[p++].first_rank + holder_of(pipeline, meeting.layers.first));
  const bool known = static_cast<std::size_t>(meeting.pipelines.value) < program.groups.size();
  verdict.require(known && program.groups[meeting.pipelines].members == expected && meeting.layers.last == last, [&] {
    return say("layers ", meeting.layers.first, "…", meeting.layers.last, " are reduced among the wrong ranks");
  });
}

}  // namespace

std::vector<Plan> plans_alone(const Plan& plan) {
  std::vector<Plan> out;
  while (out.size() < plan.pipelines.size()) out.push_back(plan.alone(out.size()));
  return out;
}

std::vector<Finding> check_pipelines(const Plan& plan, const Cluster& cluster) {
  Verdict samples("pipeline-samples"), devices("pipeline-devices");
  std::set<std::int32_t> ids;
  std::int64_t sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    samples.require(ids.insert(pipeline.id).second, [&] { return say("two pipelines have id ", pipeline.id); });
    samples.require(pipeline.samples >= 1, [&] { return say("pipeline ", pipeline.id, " has ", pipeline.samples, " samples"); });
    sum = saturating_sum(sum, pipeline.samples);
  }
  samples.require(sum == plan.training.global_batch,
                  [&] { return say("the pipelines have ", sum, " samples of ", plan.training.global_batch); });
  std::map<std::int64_t, std::int32_t> owner;
  const std::int64_t all = device_count(cluster);
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices) {
        // Each pipeline's own finding reports these.
        if (range.count < 1 || range.count > all || range.first < 0 || range.stride < 1) continue;
        for (std::int64_t i = 0; i < range.count; ++i) {
          const std::int64_t device = range.first + i * range.stride;
          const std::int32_t holder = owner.emplace(device, pipeline.id).first->second;
          devices.require(holder == pipeline.id,
                          [&] { return say("device ", device, " is in pipeline ", holder, " and in pipeline ", pipeline.id); });
        }
      }
  return {samples.finding(say(plan.pipelines.size(), " pipelines, ", sum, " samples")),
          devices.finding(say(owner.size(), " devices, each in one pipeline"))};
}

Finding check_parts(const Plan& plan, const Program& program) {
  Verdict verdict("program-parts");
  const std::size_t parts = program.pipelines.size(), pipelines = plan.pipelines.size();
  if (!verdict.require(program.folded && parts == pipelines, [&] { return say(parts, " parts for ", pipelines, " pipelines"); }))
    return verdict.finding("");
  const auto inside = [](std::int32_t from, std::int32_t to, std::size_t size) {
    return from >= 0 && to >= from && static_cast<std::size_t>(to) <= size;
  };
  const auto meetings = static_cast<std::size_t>(first_meeting(program));
  for (std::size_t k = 0; k < parts; ++k) {
    const auto in_table = [&](auto first, std::size_t end, std::size_t size) {
      return inside(program.pipelines[k].*first, end_of(program, k, first, end), size);
    };
    const std::size_t works = program.works.size(), transfers = program.transfers.size(), ranks = program.ranks.size();
    verdict.require(in_table(&PipelineProgram::first_work, works, works) &&
                        in_table(&PipelineProgram::first_collective, meetings, program.collectives.size()) &&
                        in_table(&PipelineProgram::first_transfer, transfers, transfers) &&
                        in_table(&PipelineProgram::first_rank, ranks, ranks),
                    [&] { return say("the tables of pipeline ", k, " lie outside the program's"); });
  }
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankClass& rank = program.ranks[r];
    const bool known = rank.pipeline >= 0 && static_cast<std::size_t>(rank.pipeline) < parts;
    const std::int32_t own =
        known ? program.pipelines[static_cast<std::size_t>(rank.pipeline)].first_rank + rank.stage.value : -1;
    verdict.require(known && own == static_cast<std::int32_t>(r),
                    [&] { return say("rank class ", r, " is not the pipeline stage that it claims to be"); });
    verdict.require(inside(rank.begin, rank.end, program.instructions.size()),
                    [&] { return say("rank class ", r, " holds instructions outside the program"); });
  }
  return verdict.finding(say(parts, " parts, ", program.ranks.size(), " rank classes"));
}

Program part_of(const Program& program, std::size_t k) {
  const PipelineProgram& part = program.pipelines[k];
  const auto end = [&](auto first, std::size_t size) { return end_of(program, k, first, size); };
  Program out;
  out.pipelines = {PipelineProgram{.structure = part.structure}};
  out.works = slice(program.works, part.first_work, end(&PipelineProgram::first_work, program.works.size()));
  out.collectives = slice(program.collectives, part.first_collective,
                          end(&PipelineProgram::first_collective, static_cast<std::size_t>(first_meeting(program))));
  out.transfers = slice(program.transfers, part.first_transfer, end(&PipelineProgram::first_transfer, program.transfers.size()));
  out.ranges = program.ranges;
  out.strategies = program.strategies;
  out.parts = program.parts;
  out.groups = program.groups;
  Copier copier(program, part, out);
  for (std::int32_t r = part.first_rank; r < end(&PipelineProgram::first_rank, program.ranks.size()); ++r)
    copier.copy(program.ranks[static_cast<std::size_t>(r)]);
  copier.match();
  return out;
}

Claims part_of(const Claims& claims, const Plan& plan, std::size_t k) {
  std::size_t stage = 0, chunk = 0;
  for (std::size_t p = 0; p < k; ++p) {
    stage += plan.pipelines[p].stages.size();
    chunk += chunks_of(plan.pipelines[p]);
  }
  const auto cut = [](const std::vector<std::int64_t>& all, std::size_t from, std::size_t count) {
    const std::size_t begin = std::min(from, all.size()), end = std::min(from + count, all.size());
    return std::vector<std::int64_t>(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                     all.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const std::size_t stages = plan.pipelines[k].stages.size(), chunks = chunks_of(plan.pipelines[k]);
  Claims out;
  out.iteration_ns = claims.iteration_ns;
  out.static_bytes_per_stage = cut(claims.static_bytes_per_stage, stage, stages);
  out.saved_bytes_per_chunk = cut(claims.saved_bytes_per_chunk, chunk, chunks);
  out.boundary_bytes_per_chunk = cut(claims.boundary_bytes_per_chunk, chunk, chunks);
  out.gradient_bytes_per_stage = cut(claims.gradient_bytes_per_stage, stage, stages);
  out.peak_bytes_per_stage = cut(claims.peak_bytes_per_stage, stage, stages);
  out.memory_limit_bytes = claims.memory_limit_bytes;
  for (const Claims& kind : claims.kinds) out.kinds.push_back(part_of(kind, plan, k));
  return out;
}

Finding check_meetings(const Plan& plan, const Program& program) {
  Verdict verdict("gradient-meetings");
  const std::vector<std::int32_t> cuts = cuts_of(plan);
  std::int32_t last = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const Chunk& chunk : stage.chunks) last = std::max(last, chunk.last());
  std::size_t n = 0;
  for (auto i = static_cast<std::size_t>(first_meeting(program)); i < program.collectives.size(); ++i, ++n) {
    const Collective& meeting = program.collectives[CollectiveId(static_cast<std::int32_t>(i))];
    const bool own = verdict.require(meeting.pipelines.valid() && n < cuts.size() && meeting.layers.first == cuts[n],
                                     [&] { return say("collective ", i, " reduces layers that are not a piece of the model"); });
    if (!own) break;
    require_members(plan, program, meeting, last, verdict);
    last = cuts[n] - 1;
  }
  verdict.require(n == cuts.size(), [&] { return say(n, " pieces of the model meet, expected ", cuts.size()); });
  for (const RankClass& rank : program.ranks) require_meetings(plan, program, rank, verdict);
  return verdict.finding(say(cuts.size(), " pieces of the model meet between ", plan.pipelines.size(), " pipelines"));
}

}  // namespace espalier::check
