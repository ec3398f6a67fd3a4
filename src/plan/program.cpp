// SPDX-License-Identifier: Apache-2.0
// Names instructions and streams, and proves the structure of a program: fields, matching, and an order in
// which everything ends.
#include "plan/program.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "base/invariant.h"

namespace espalier {

std::string_view to_string(InstructionKind k) {
  switch (k) {
    case InstructionKind::forward: return "forward";
    case InstructionKind::backward: return "backward";
    case InstructionKind::backward_input: return "backward_input";
    case InstructionKind::backward_weight: return "backward_weight";
    case InstructionKind::send: return "send";
    case InstructionKind::recv: return "recv";
    case InstructionKind::grad_reduce: return "grad_reduce";
    case InstructionKind::param_gather: return "param_gather";
    case InstructionKind::tied_reduce: return "tied_reduce";
    case InstructionKind::optimizer: return "optimizer";
  }
  return "?";
}

std::string_view to_string(Stream s) {
  switch (s) {
    case Stream::compute: return "compute";
    case Stream::data: return "data";
    case Stream::send: return "send";
    case Stream::recv: return "recv";
  }
  return "?";
}

std::int64_t RankClass::represents() const {
  std::int64_t count = 0;
  for (const DeviceRange& range : devices) count += range.count;
  return std::max<std::int64_t>(1, count);
}

ChunkId Program::chunk_of(const Instruction& i) const {
  switch (i.stream) {
    case Stream::compute: return works.at(i.work()).chunk;
    case Stream::data: return collectives.at(i.collective()).chunk;
    default: return transfers.at(i.transfer()).chunk;
  }
}

std::int32_t Program::stages() const {
  std::int32_t count = 0;
  for (const PipelineProgram& pipeline : pipelines) count += pipeline.structure.schedule.stages;
  return count;
}

StageId Program::stage_row(const RankClass& rank) const {
  return StageId(pipelines[static_cast<std::size_t>(rank.pipeline)].first_rank + rank.stage.value);
}

bool Program::carries_gradient(const Instruction& i) const {
  return (i.stream == Stream::send || i.stream == Stream::recv) && transfers.at(i.transfer()).gradient;
}

LayerSpan bucket_layers(std::int32_t first, std::int32_t last, bool forward, std::int32_t bucket, std::int32_t buckets) {
  ESPALIER_CHECK(first <= last && buckets >= 1 && bucket >= 0 && bucket < buckets);
  const std::int32_t layers = last - first + 1;
  const std::int32_t from = layers * bucket / buckets, to = layers * (bucket + 1) / buckets;
  return forward ? LayerSpan{first + from, first + to - 1} : LayerSpan{last - to + 1, last - from};
}

namespace {

using Kind = InstructionKind;

Stream stream_of(Kind kind) {
  switch (kind) {
    case Kind::send: return Stream::send;
    case Kind::recv: return Stream::recv;
    case Kind::grad_reduce:
    case Kind::param_gather:
    case Kind::tied_reduce: return Stream::data;
    default: return Stream::compute;
  }
}

bool is_transfer(Kind kind) { return kind == Kind::send || kind == Kind::recv; }

/// Returns the size of the table to which instructions of a stream refer.
std::int32_t table_size(const Program& program, Stream stream) {
  const std::size_t size = stream == Stream::compute ? program.works.size()
                           : stream == Stream::data  ? program.collectives.size()
                                                     : program.transfers.size();
  return static_cast<std::int32_t>(size);
}

std::string describe(const Program& program, std::int32_t index) {
  const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
  std::string text(to_string(instruction.kind));
  if (table_size(program, instruction.stream) > instruction.id && instruction.id >= 0)
    text += " of chunk " + std::to_string(program.chunk_of(instruction).value);
  if (instruction.microbatch >= 0) text += ", micro-batch " + std::to_string(instruction.microbatch);
  return text;
}

Error broken(const Program& program, std::int32_t rank, std::int32_t index, std::string found, std::string expected) {
  return Error{
      ErrorKind::check_failed,
      "program: rank " + std::to_string(rank) + ", instruction " + std::to_string(index) + " (" + describe(program, index) + ")",
      std::move(found), std::move(expected), ""};
}

/// Checks that the rank lists tile the instruction array, and that groups are those of the program.
Status check_layout(const Program& program) {
  const auto pipelines = static_cast<std::int32_t>(program.pipelines.size());
  std::int32_t next = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankClass& rank = program.ranks[r];
    const auto wrong = [&](std::string found, std::string expected) {
      return Error{ErrorKind::check_failed, "program: rank " + std::to_string(r), std::move(found), std::move(expected), ""};
    };
    if (rank.begin != next || rank.end < rank.begin) {
      return wrong("instructions [" + std::to_string(rank.begin) + ", " + std::to_string(rank.end) + ")",
                   "a list that starts at " + std::to_string(next));
    }
    if (rank.pipeline < 0 || rank.pipeline >= pipelines)
      return wrong("pipeline " + std::to_string(rank.pipeline), "a pipeline below " + std::to_string(pipelines));
    const std::int32_t stages = program.structure(rank).schedule.stages;
    if (!rank.stage.valid() || rank.stage.value >= stages) {
      return wrong("stage " + std::to_string(rank.stage.value), "a stage below " + std::to_string(stages));
    }
    if (!rank.data.valid() || rank.data.index() >= program.groups.size())
      return wrong("group " + std::to_string(rank.data.value), "a group below " + std::to_string(program.groups.size()));
    next = rank.end;
  }
  if (static_cast<std::size_t>(next) == program.instructions.size()) return {};
  return Error{ErrorKind::check_failed, "program", std::to_string(program.instructions.size()) + " instructions",
               std::to_string(next) + ", those that belong to ranks", ""};
}

Status check_match(const Program& program, std::int32_t r, std::int32_t i) {
  const Instruction& here = program.instructions[static_cast<std::size_t>(i)];
  if (here.peer < 0 || static_cast<std::size_t>(here.peer) >= program.ranks.size() || here.peer == r) {
    return broken(program, r, i, "peer " + std::to_string(here.peer), "another rank");
  }
  const RankClass& peer = program.ranks[static_cast<std::size_t>(here.peer)];
  if (here.match < peer.begin || here.match >= peer.end)
    return broken(program, r, i, "no match", "a match on rank " + std::to_string(here.peer));
  const Instruction& other = program.instructions[static_cast<std::size_t>(here.match)];
  const Kind opposite = here.kind == Kind::send ? Kind::recv : Kind::send;
  if (other.kind != opposite || other.match != i || other.peer != r || other.id != here.id ||
      other.microbatch != here.microbatch) {
    return broken(program, r, i, "match " + describe(program, here.match), "the other end of the same transfer");
  }
  return {};
}

/// Returns whether an instruction of `stage` may refer to its operation: works and collectives of its own chunks, and
/// the exchange of the table.
bool belongs(const Program& program, const Instruction& i, const RankClass& rank) {
  const StageId stage = rank.stage;
  if (i.stream == Stream::compute) return program.works[i.work()].stage == stage;
  const Collective& collective = program.collectives[i.collective()];
  if (collective.pipelines.valid()) {
    const auto& members = program.groups[collective.pipelines].members;
    return std::any_of(members.begin(), members.end(),
                       [&](std::int32_t r) { return &program.ranks[static_cast<std::size_t>(r)] == &rank; });
  }
  if (collective.kind != Kind::tied_reduce) return collective.stage == stage;
  const ProgramStructure& structure = program.structure(rank);
  const auto& copies = structure.table_chunks;
  return std::any_of(copies.begin(), copies.end(),
                     [&](ChunkId c) { return place_of_chunk(structure.schedule, c.value).stage == stage.value; });
}
Kind kind_of(const Program& program, const Instruction& i) {
  return i.stream == Stream::compute ? program.works[i.work()].phase : program.collectives[i.collective()].kind;
}

Status check_instruction(const Program& program, std::int32_t r, std::int32_t i) {
  const Instruction& here = program.instructions[static_cast<std::size_t>(i)];
  const RankClass& rank = program.ranks[static_cast<std::size_t>(r)];
  if (here.stream != stream_of(here.kind))
    return broken(program, r, i, "stream " + std::string(to_string(here.stream)), std::string(to_string(stream_of(here.kind))));
  const std::int32_t size = table_size(program, here.stream);
  if (here.id < 0 || here.id >= size)
    return broken(program, r, i, "id " + std::to_string(here.id), "an id below " + std::to_string(size));
  if (!is_transfer(here.kind) && !belongs(program, here, rank))
    return broken(program, r, i, "a chunk of another stage", "a chunk of stage " + std::to_string(rank.stage.value));
  if (!is_transfer(here.kind) && kind_of(program, here) != here.kind)
    return broken(program, r, i, "an id of a " + std::string(to_string(kind_of(program, here))),
                  "one of a " + std::string(to_string(here.kind)));
  if (here.bucket >= here.buckets)
    return broken(program, r, i, "bucket " + std::to_string(here.bucket), "a bucket below " + std::to_string(here.buckets));
  for (const std::int32_t wait : {here.wait0, here.wait1}) {
    if (wait != -1 && (wait < rank.begin || wait >= i))
      return broken(program, r, i, "a wait for " + std::to_string(wait), "an earlier instruction of the rank");
    if (wait == -1 || here.stream == Stream::compute || here.stream == Stream::recv) continue;
    const Stream awaited = program.instructions[static_cast<std::size_t>(wait)].stream;
    if (awaited != Stream::compute && awaited != here.stream)
      return broken(program, r, i, "a wait for a transfer", "a wait for compute");
  }
  return is_transfer(here.kind) ? check_match(program, r, i) : Status();
}

/// Maps groups to collectives, in the order of a rank's calls.
using Calls = std::map<ProcessGroupId, std::vector<std::int32_t>>;

Calls calls_of(const Program& program, const RankClass& rank) {
  Calls calls;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const Instruction& here = program.instructions[static_cast<std::size_t>(i)];
    if (here.stream == Stream::data) calls[program.group_of(rank, here)].push_back(i);
  }
  return calls;
}

bool same_collective(const Instruction& a, const Instruction& b) {
  return a.kind == b.kind && a.id == b.id && a.bucket == b.bucket && a.buckets == b.buckets;
}

/// Checks that the ranks of a group call the same collectives in the same order.
Status check_groups(const Program& program) {
  std::map<ProcessGroupId, std::vector<std::int32_t>> called;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (const auto& [group, calls] : calls_of(program, program.ranks[r])) {
      if (!group.valid() || group.index() >= program.groups.size())
        return broken(program, static_cast<std::int32_t>(r), calls.front(), "a collective of no group", "a group of the program");
      const auto [at, first] = called.try_emplace(group, calls);
      for (std::size_t n = 0; n < std::max(calls.size(), at->second.size()); ++n) {
        const auto instruction = [&](const std::vector<std::int32_t>& list) {
          return program.instructions[static_cast<std::size_t>(list[n])];
        };
        if (n < calls.size() && n < at->second.size() && same_collective(instruction(calls), instruction(at->second))) continue;
        return broken(program, static_cast<std::int32_t>(r), calls[std::min(n, calls.size() - 1)],
                      "a collective that its group does not call here", "the same collectives in the same order");
      }
    }
  }
  return {};
}

/// Runs the program without times: every stream advances as soon as it may. Instructions that remain can never run.
class UntimedRun {
 public:
  explicit UntimedRun(const Program& program) : program_(program), ranks_(program.ranks.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].head.fill(program.ranks[r].begin - 1);
      for (std::size_t s = 0; s < kStreams; ++s) move_on(r, s);
    }
  }

  Status run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) progress = advance(r) || progress;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::int32_t first = *std::min_element(ranks_[r].head.begin(), ranks_[r].head.end());
      if (first < program_.ranks[r].end)
        return broken(program_, static_cast<std::int32_t>(r), first, "it never starts", "no deadlock");
    }
    return {};
  }

 private:
  struct Rank {
    std::array<std::int32_t, kStreams> head{};  // next instruction of each stream
    bool arrived = false;                       // at its next collective
  };

  [[nodiscard]] const Instruction& at(std::int32_t i) const { return program_.instructions[static_cast<std::size_t>(i)]; }

  void move_on(std::size_t r, std::size_t stream) {
    std::int32_t& head = ranks_[r].head[stream];
    do {
      ++head;
    } while (head < program_.ranks[r].end && at(head).stream != static_cast<Stream>(stream));
  }
  [[nodiscard]] bool done(std::size_t r, std::int32_t i) const {
    return i < 0 || i < ranks_[r].head[static_cast<std::size_t>(at(i).stream)];
  }
  bool may_run(std::size_t r, std::int32_t i) {
    const Instruction& here = at(i);
    if (!done(r, here.wait0) || !done(r, here.wait1)) return false;
    if (here.kind == Kind::recv) return done(static_cast<std::size_t>(here.peer), here.match);
    if (here.stream != Stream::data || !program_.meets(here)) return true;
    const ProcessGroupId group = program_.group_of(program_.ranks[r], here);
    std::int64_t& arrivals = arrivals_[{group, here.id, here.bucket}];
    Rank& rank = ranks_[r];
    if (!rank.arrived) {
      rank.arrived = true;
      ++arrivals;
    }
    if (arrivals < static_cast<std::int64_t>(program_.groups.at(group).members.size())) return false;
    rank.arrived = false;
    return true;
  }
  bool advance(std::size_t r) {
    bool any = false;
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t s = 0; s < kStreams; ++s) {
        while (ranks_[r].head[s] < program_.ranks[r].end && may_run(r, ranks_[r].head[s])) {
          move_on(r, s);
          progress = any = true;
        }
      }
    }
    return any;
  }

  const Program& program_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<ProcessGroupId, std::int32_t, int>, std::int64_t> arrivals_;  // ranks that reached a collective
};

}  // namespace

Status validate(const Program& program) {
  if (Status status = check_layout(program); !status.ok()) return status;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (std::int32_t i = program.ranks[r].begin; i < program.ranks[r].end; ++i) {
      if (Status status = check_instruction(program, static_cast<std::int32_t>(r), i); !status.ok()) return status;
    }
  }
  if (Status status = check_groups(program); !status.ok()) return status;
  return UntimedRun(program).run();
}

}  // namespace espalier
