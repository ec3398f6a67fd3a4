// SPDX-License-Identifier: Apache-2.0
// Names of instructions and streams, and the structural proof of a program: fields, matching, and an order in which everything
// ends.
#include "plan/program.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"

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
/// Data collectives that meet over the rank's group.
bool meets(Kind kind) { return kind == Kind::grad_reduce || kind == Kind::param_gather; }

std::string describe(const Program& program, std::int32_t index) {
  const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
  std::string text(to_string(instruction.kind));
  text += " of chunk " + std::to_string(instruction.chunk);
  if (instruction.microbatch >= 0) text += ", micro-batch " + std::to_string(instruction.microbatch);
  return text;
}

Error broken(const Program& program, std::int32_t rank, std::int32_t index, std::string found, std::string expected) {
  return Error{
      ErrorKind::check_failed,
      "program: rank " + std::to_string(rank) + ", instruction " + std::to_string(index) + " (" + describe(program, index) + ")",
      std::move(found), std::move(expected), ""};
}

/// The rank lists tile the instruction array; groups are numbered below the number of ranks.
Status check_layout(const Program& program) {
  std::int32_t next = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    const auto wrong = [&](std::string found, std::string expected) {
      return Error{ErrorKind::check_failed, "program: rank " + std::to_string(r), std::move(found), std::move(expected), ""};
    };
    if (rank.begin != next || rank.end < rank.begin) {
      return wrong("instructions [" + std::to_string(rank.begin) + ", " + std::to_string(rank.end) + ")",
                   "a list that begins at " + std::to_string(next));
    }
    if (rank.stage < 0 || rank.stage >= program.schedule.stages) {
      return wrong("stage " + std::to_string(rank.stage), "a stage below " + std::to_string(program.schedule.stages));
    }
    if (rank.group < 0 || static_cast<std::size_t>(rank.group) >= program.ranks.size()) {
      return wrong("group " + std::to_string(rank.group), "a group below " + std::to_string(program.ranks.size()));
    }
    next = rank.end;
  }
  if (static_cast<std::size_t>(next) == program.instructions.size()) return std::nullopt;
  return Error{ErrorKind::check_failed, "program", std::to_string(program.instructions.size()) + " instructions",
               std::to_string(next) + ", those that belong to ranks", ""};
}

Status check_match(const Program& program, std::int32_t r, std::int32_t i) {
  const Instruction& here = program.instructions[static_cast<std::size_t>(i)];
  if (here.peer < 0 || static_cast<std::size_t>(here.peer) >= program.ranks.size() || here.peer == r) {
    return broken(program, r, i, "peer " + std::to_string(here.peer), "another rank");
  }
  const RankProgram& peer = program.ranks[static_cast<std::size_t>(here.peer)];
  if (here.match < peer.begin || here.match >= peer.end)
    return broken(program, r, i, "no match", "a match on rank " + std::to_string(here.peer));
  const Instruction& other = program.instructions[static_cast<std::size_t>(here.match)];
  const Kind opposite = here.kind == Kind::send ? Kind::recv : Kind::send;
  if (other.kind != opposite || other.match != i || other.peer != r || other.chunk != here.chunk ||
      other.gradient != here.gradient || other.microbatch != here.microbatch) {
    return broken(program, r, i, "match " + describe(program, here.match), "the other end of the same transfer");
  }
  return std::nullopt;
}

Status check_instruction(const Program& program, std::int32_t r, std::int32_t i) {
  const Instruction& here = program.instructions[static_cast<std::size_t>(i)];
  const RankProgram& rank = program.ranks[static_cast<std::size_t>(r)];
  if (here.stream != stream_of(here.kind))
    return broken(program, r, i, "stream " + std::string(to_string(here.stream)), std::string(to_string(stream_of(here.kind))));
  const std::int32_t chunks = program.schedule.stages * program.schedule.virtual_stages;
  if (here.chunk < 0 || here.chunk >= chunks)
    return broken(program, r, i, "chunk " + std::to_string(here.chunk), "a chunk below " + std::to_string(chunks));
  if (!is_transfer(here.kind) && place_of_chunk(program.schedule, here.chunk).stage != rank.stage) {
    return broken(program, r, i, "a chunk of another stage", "a chunk of stage " + std::to_string(rank.stage));
  }
  if (here.piece >= here.pieces)
    return broken(program, r, i, "piece " + std::to_string(here.piece), "a piece below " + std::to_string(here.pieces));
  for (const std::int32_t wait : {here.wait0, here.wait1}) {
    if (wait != -1 && (wait < rank.begin || wait >= i))
      return broken(program, r, i, "a wait for " + std::to_string(wait), "an earlier instruction of the rank");
    if (wait == -1 || here.stream == Stream::compute || here.stream == Stream::recv) continue;
    const Stream awaited = program.instructions[static_cast<std::size_t>(wait)].stream;
    if (awaited != Stream::compute && awaited != here.stream)
      return broken(program, r, i, "a wait for a transfer", "a wait for compute");
  }
  return is_transfer(here.kind) ? check_match(program, r, i) : std::nullopt;
}

bool same_collective(const Instruction& a, const Instruction& b) {
  return a.kind == b.kind && a.chunk == b.chunk && a.piece == b.piece && a.pieces == b.pieces;
}

/// The ranks of a data group call the same collectives in the same order.
Status check_groups(const Program& program) {
  std::vector<std::vector<std::int32_t>> called(program.ranks.size());  // by group
  std::vector<bool> seen(program.ranks.size(), false);
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    std::vector<std::int32_t>& expected = called[static_cast<std::size_t>(rank.group)];
    const bool first = !seen[static_cast<std::size_t>(rank.group)];
    seen[static_cast<std::size_t>(rank.group)] = true;
    std::size_t n = 0;
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& here = program.instructions[static_cast<std::size_t>(i)];
      if (!meets(here.kind)) continue;
      if (first) expected.push_back(i);
      if (n == expected.size() || !same_collective(here, program.instructions[static_cast<std::size_t>(expected[n])])) {
        return broken(program, static_cast<std::int32_t>(r), i, "a collective that its data group does not call here",
                      "the same collectives in the same order");
      }
      ++n;
    }
    if (n == expected.size()) continue;
    return Error{ErrorKind::check_failed, "program: rank " + std::to_string(r), std::to_string(n) + " data collectives",
                 std::to_string(expected.size()) + " like the others of its data group", ""};
  }
  return std::nullopt;
}

/// Runs the program without times: every stream moves on as soon as it may. Whatever remains cannot ever run.
class Walk {
 public:
  explicit Walk(const Program& program) : program_(program), ranks_(program.ranks.size()) {
    std::int32_t groups = 0;
    for (const RankProgram& rank : program.ranks) groups = std::max(groups, rank.group + 1);
    members_.assign(static_cast<std::size_t>(groups), 0);
    arrivals_.assign(static_cast<std::size_t>(groups), 0);
    for (const RankProgram& rank : program.ranks) ++members_[static_cast<std::size_t>(rank.group)];
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
    return std::nullopt;
  }

 private:
  struct Rank {
    std::array<std::int32_t, kStreams> head{};  // next instruction of each stream
    std::int64_t meetings = 0;                  // data collectives done
    bool arrived = false;                       // at the next one
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
    if (program_.folded || !meets(here.kind)) return true;
    const auto group = static_cast<std::size_t>(program_.ranks[r].group);
    Rank& rank = ranks_[r];
    if (!rank.arrived) {
      rank.arrived = true;
      ++arrivals_[group];
    }
    // No member is more than one arrival ahead, so this many arrivals mean that all are here.
    if (arrivals_[group] < members_[group] * (rank.meetings + 1)) return false;
    rank.arrived = false;
    ++rank.meetings;
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
  std::vector<std::int64_t> members_, arrivals_;  // per group
};

}  // namespace

Status validate(const Program& program) {
  if (Status status = check_layout(program)) return status;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (std::int32_t i = program.ranks[r].begin; i < program.ranks[r].end; ++i) {
      if (Status status = check_instruction(program, static_cast<std::int32_t>(r), i)) return status;
    }
  }
  if (!program.folded) {
    if (Status status = check_groups(program)) return status;
  }
  return Walk(program).run();
}

}  // namespace espalier
