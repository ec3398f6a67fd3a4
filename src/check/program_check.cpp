// SPDX-License-Identifier: Apache-2.0
#include "check/program_check.h"

#include <algorithm>
#include <limits>

#include "check/arithmetic.h"
#include "check/verdict.h"

namespace espalier::check {
namespace {

using Kind = InstructionKind;

bool is_p2p(Kind kind) { return kind == Kind::send || kind == Kind::recv; }

std::string name_of(const Program& program, std::int32_t index) {
  const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
  return say(to_string(i.kind), program.carries_gradient(i) ? " gradient" : "", " of chunk ", program.chunk_of(i).value,
             ", micro-batch ", i.microbatch, " (#", index, ")");
}

// ---- shape --------------------------------------------------------------------------------------------------------

std::int64_t represented_by(const RankClass& rank) {
  std::int64_t sum = 0;
  for (const DeviceRange& range : rank.devices) sum = saturating_sum(sum, range.count);
  return sum;
}

/// Returns whether the ends of every range of the rank's devices belong to its stage.
bool devices_of_stage(const View& view, const RankClass& rank, std::int64_t devices) {
  const auto inside = [&](std::int64_t device) {
    if (!view.group_of_stage.empty()) {
      const std::vector<DeviceRange>& own = view.pipeline->stages[rank.stage.index()].devices;
      return std::any_of(own.begin(), own.end(), [device](const DeviceRange& range) {
        const std::int64_t steps = device - range.first;
        return steps >= 0 && steps % range.stride == 0 && steps / range.stride < range.count;
      });
    }
    if (view.listed != nullptr) {
      const std::vector<std::int64_t>& own = view.listed->at(rank.stage.index());
      return std::find(own.begin(), own.end(), device) != own.end();
    }
    return device >= 0 && device < devices && stage_of_device(view.strategy, view.stages, device) == rank.stage.value;
  };
  return !rank.devices.empty() && std::all_of(rank.devices.begin(), rank.devices.end(), [&](const DeviceRange& range) {
    const std::int64_t last = saturating_sum(range.first, saturating_multiply(range.count - 1, range.stride));
    return range.count >= 1 && inside(range.first) && inside(last);
  });
}

void require_ranks(const View& view, const Program& program, Verdict& verdict) {
  const auto size = static_cast<std::int64_t>(program.instructions.size());
  std::vector<std::int64_t> represented(static_cast<std::size_t>(view.stages), 0);
  const std::int64_t devices = device_count(*view.cluster);
  std::int64_t next = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankClass& rank = program.ranks[r];
    verdict.require(rank.begin == next && rank.end >= rank.begin && rank.end <= size, [&] {
      return say("rank ", r, " holds instructions ", rank.begin, "…", rank.end, ", expected to start at ", next);
    });
    next = rank.end;
    const bool stage_ok = verdict.require(rank.stage.value >= 0 && rank.stage.value < view.stages, [&] {
      return say("rank ", r, " is of stage ", rank.stage.value, " of ", view.stages);
    });
    if (!stage_ok) continue;
    verdict.require(represented_by(rank) >= 1, [&] { return say("rank ", r, " represents ", represented_by(rank), " devices"); });
    std::int64_t& sum = represented[rank.stage.index()];
    sum = saturating_sum(sum, std::max<std::int64_t>(represented_by(rank), 0));
    verdict.require(devices_of_stage(view, rank, devices), [&] {
      return say("rank ", r, " of stage ", rank.stage.value, " is device ", rank.device(),
                 ", or lists a device outside that stage");
    });
  }
  verdict.require(next == size, [&] { return say(size - next, " instructions belong to no rank"); });
  for (std::size_t i = 0; i < represented.size(); ++i) {
    std::int64_t expected = devices / view.stages;
    if (!view.group_of_stage.empty()) {
      expected = 0;
      for (const DeviceRange& range : view.pipeline->stages[i].devices) expected += range.count;
    }
    verdict.require(represented[i] == expected,
                    [&] { return say("the ranks of stage ", i, " represent ", represented[i], " devices of ", expected); });
  }
}

/// Requires that works, collectives and transfers belong to the plan's chunks and stages.
void require_tables(const View& view, const Program& program, Verdict& verdict) {
  const auto chunks = static_cast<std::int32_t>(view.chunks.size());
  const auto chunk_of_stage = [&](std::int32_t chunk, std::int32_t stage) {
    return chunk >= 0 && chunk < chunks && view.stage_of[static_cast<std::size_t>(chunk)] == stage;
  };
  for (const Work& w : program.works)
    verdict.require((is_pass(w.phase) || w.phase == Kind::optimizer) && chunk_of_stage(w.chunk.value, w.stage.value), [&] {
      return say("a work of chunk ", w.chunk.value, " of stage ", w.stage.value, " that is not in the plan");
    });
  for (const Collective& c : program.collectives) {
    const bool known = c.kind == Kind::grad_reduce || c.kind == Kind::param_gather || c.kind == Kind::tied_reduce;
    verdict.require(known && chunk_of_stage(c.chunk.value, c.stage.value), [&] {
      return say("a collective of chunk ", c.chunk.value, " of stage ", c.stage.value, " that is not in the plan");
    });
  }
  for (const Transfer& t : program.transfers)
    verdict.require(t.chunk.value > 0 && t.chunk.value < chunks,
                    [&] { return say("a transfer into chunk ", t.chunk.value, " of ", chunks); });
}

/// Returns whether an instruction's id is valid for its kind.
bool names_its_kind(const Program& program, const Instruction& i) {
  const auto inside = [&](std::size_t size) { return i.id >= 0 && static_cast<std::size_t>(i.id) < size; };
  if (is_p2p(i.kind)) return i.stream == (i.kind == Kind::send ? Stream::send : Stream::recv) && inside(program.transfers.size());
  if (is_pass(i.kind) || i.kind == Kind::optimizer)
    return i.stream == Stream::compute && inside(program.works.size()) && program.works[i.work()].phase == i.kind;
  return i.stream == Stream::data && inside(program.collectives.size()) && program.collectives[i.collective()].kind == i.kind;
}

bool fields_in_range(const View& view, const Program& program, const Instruction& i) {
  if (i.kind > Kind::optimizer || static_cast<int>(i.stream) >= kStreams || i.buckets < 1 || i.bucket >= i.buckets) return false;
  if (!names_its_kind(program, i)) return false;
  const bool of_microbatch = is_pass(i.kind) || is_p2p(i.kind);
  if (i.microbatch >= view.microbatches || i.microbatch < (of_microbatch ? 0 : -1)) return false;
  if (!is_p2p(i.kind)) return true;
  return i.peer >= 0 && static_cast<std::size_t>(i.peer) < program.ranks.size();
}

Finding check_shape(const View& view, const Program& program) {
  Verdict verdict("program-shape");
  verdict.require(program.structure().schedule == view.pipeline->schedule,
                  [] { return say("the program was lowered from another schedule"); });
  const bool countable = program.instructions.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  if (!verdict.require(countable, [] { return say("too many instructions"); })) return verdict.finding("");
  require_ranks(view, program, verdict);
  require_tables(view, program, verdict);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    verdict.require(fields_in_range(view, program, program.instructions[i]), [&] {
      return say("instruction #", i, " has a field out of range, runs on the wrong stream, or refers to nothing of its kind");
    });
  }
  return verdict.finding(say(program.ranks.size(), " ranks, ", program.instructions.size(), " instructions"));
}

Finding check_waits(const Program& program) {
  Verdict verdict("waits");
  for (const RankClass& rank : program.ranks) {
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
      for (const std::int32_t wait : {instruction.wait0, instruction.wait1}) {
        verdict.require(wait == -1 || (wait >= rank.begin && wait < i),
                        [&] { return say(name_of(program, i), " waits for #", wait, ", not an earlier one of its rank"); });
      }
    }
  }
  return verdict.finding("all waits point to earlier instructions of the same rank");
}

// ---- tables -------------------------------------------------------------------------------------------------------

void add_bucket(PassInstructions& pass, const Program& program, std::int32_t index, Verdict& verdict) {
  const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
  if (pass.buckets == 0) {
    pass.buckets = i.buckets;
    pass.first = index;
  }
  verdict.require(pass.buckets == i.buckets && pass.done == i.bucket, [&] {
    return say(name_of(program, index), " is bucket ", int{i.bucket}, " of ", int{i.buckets}, ", expected bucket ", pass.done,
               " of ", pass.buckets, pass.complete() ? " (done twice)" : "");
  });
  ++pass.done;
  pass.last = index;
}

void add_transfer(std::int32_t& slot, const Program& program, std::int32_t index, Verdict& verdict) {
  verdict.require(slot < 0, [&] { return say(name_of(program, index), " repeats #", slot); });
  slot = index;
}

/// Returns the index of pipeline chunk `chunk` among the chunks of its stage.
std::size_t local_chunk(const View& view, std::int32_t chunk) {
  const Schedule& s = view.pipeline->schedule;
  if (s.kind == ScheduleKind::zb_v) return chunk < s.stages ? 0 : 1;
  return static_cast<std::size_t>(chunk / s.stages);
}

struct TableBuilder {
  const View& view;
  const Program& program;
  Verdict work{"program-work"};
  Verdict transfers{"send-recv"};

  /// Returns the passes of (chunk, micro-batch) if the chunk is of `stage`; null otherwise.
  ChunkPasses* find(RankTable& table, std::int32_t stage, std::int32_t chunk, std::int32_t microbatch) const {
    if (chunk < 0 || static_cast<std::size_t>(chunk) >= view.stage_of.size()) return nullptr;
    if (view.stage_of[static_cast<std::size_t>(chunk)] != stage) return nullptr;
    return &table.work[local_chunk(view, chunk) * static_cast<std::size_t>(view.microbatches) +
                       static_cast<std::size_t>(microbatch)];
  }

  void add_pass(RankTable& table, std::int32_t stage, std::int32_t index) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
    ChunkPasses* entry = find(table, stage, program.chunk_of(i).value, i.microbatch);
    if (!work.require(entry != nullptr, [&] { return say(name_of(program, index), " on stage ", stage); })) return;
    if (i.kind == Kind::forward) add_bucket(entry->forward, program, index, work);
    if (i.kind == Kind::backward || i.kind == Kind::backward_input) add_bucket(entry->input, program, index, work);
    if (i.kind == Kind::backward || i.kind == Kind::backward_weight) add_bucket(entry->weight, program, index, work);
  }

  /// Adds a transfer. Activations enter a chunk (recv) and leave its predecessor (send); gradients go the other way.
  void add_p2p(RankTable& table, std::int32_t stage, std::int32_t index) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
    const std::int32_t chunk = program.chunk_of(i).value;
    const bool gradient = program.carries_gradient(i);
    const bool at_chunk = (i.kind == Kind::recv) != gradient;  // else at the chunk before
    ChunkPasses* entry = find(table, stage, at_chunk ? chunk : chunk - 1, i.microbatch);
    if (!transfers.require(entry != nullptr, [&] { return say(name_of(program, index), " on stage ", stage); })) return;
    std::int32_t& slot = i.kind == Kind::recv ? (gradient ? entry->recv_gradient : entry->recv_activation)
                                              : (gradient ? entry->send_gradient : entry->send_activation);
    add_transfer(slot, program, index, transfers);
  }

  void add_collective(RankTable& table, std::int32_t stage, std::int32_t index) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
    if (i.kind == Kind::tied_reduce) table.tied.push_back(index);
    if (i.kind == Kind::optimizer) table.optimizers.push_back(index);
    if (i.kind != Kind::grad_reduce && i.kind != Kind::param_gather) return;
    const std::int32_t chunk = program.chunk_of(i).value;
    const bool here = view.stage_of[static_cast<std::size_t>(chunk)] == stage;
    if (!work.require(here, [&] { return say(name_of(program, index), " on stage ", stage); })) return;
    (i.kind == Kind::grad_reduce ? table.reduces : table.gathers)[local_chunk(view, chunk)].push_back(index);
  }

  RankTable build(const RankClass& rank) {
    const auto v = static_cast<std::size_t>(view.pipeline->schedule.virtual_stages);
    RankTable table;
    table.reduces.resize(v);
    table.gathers.resize(v);
    const std::int64_t passes = saturating_multiply(static_cast<std::int64_t>(v), view.microbatches);
    const bool enough = passes <= std::int64_t{rank.end} - rank.begin;  // also limits the table's memory
    if (!work.require(enough, [&] { return say("stage ", rank.stage.value, " has fewer instructions than passes"); }))
      return table;
    table.work.resize(static_cast<std::size_t>(passes));
    for (std::int32_t index = rank.begin; index < rank.end; ++index) {
      const Kind kind = program.instructions[static_cast<std::size_t>(index)].kind;
      if (is_pass(kind))
        add_pass(table, rank.stage.value, index);
      else if (is_p2p(kind))
        add_p2p(table, rank.stage.value, index);
      else
        add_collective(table, rank.stage.value, index);
    }
    for (std::size_t n = 0; n < table.work.size(); ++n) require_complete(table.work[n], n, rank.stage.value);
    return table;
  }

  void require_complete(const ChunkPasses& entry, std::size_t n, std::int32_t stage) {
    const auto m = static_cast<std::size_t>(view.microbatches);
    const auto missing = [&](const char* what) {
      return say("stage ", stage, ", its chunk ", n / m, ", micro-batch ", n % m, ": no complete ", what);
    };
    work.require(entry.forward.complete(), [&] { return missing("forward"); });
    work.require(entry.input.complete(), [&] { return missing("input gradient"); });
    work.require(entry.weight.complete(), [&] { return missing("weight gradient"); });
  }
};

void fill_ended(const Program& program, ProgramTables& tables) {
  tables.ended.resize(program.instructions.size());
  for (const RankClass& rank : program.ranks) {
    std::array<std::int32_t, kStreams> last;  // last instruction of each stream so far
    last.fill(-1);
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
      auto& mine = tables.ended[static_cast<std::size_t>(i)];
      mine.fill(-1);
      const auto stream = static_cast<std::size_t>(instruction.stream);
      for (const std::int32_t before : {last[stream], instruction.wait0, instruction.wait1}) {
        if (before < 0) continue;
        const auto& theirs = tables.ended[static_cast<std::size_t>(before)];
        for (std::size_t s = 0; s < kStreams; ++s) mine[s] = std::max(mine[s], theirs[s]);
        auto& own = mine[static_cast<std::size_t>(program.instructions[static_cast<std::size_t>(before)].stream)];
        own = std::max(own, before);
      }
      last[stream] = i;
    }
  }
}

// ---- transfers and order ------------------------------------------------------------------------------------------

void require_matched(const Program& program, std::int32_t rank, std::int32_t index, Verdict& verdict) {
  const auto& all = program.instructions;
  const Instruction& mine = all[static_cast<std::size_t>(index)];
  const bool inside = mine.match >= 0 && static_cast<std::size_t>(mine.match) < all.size();
  if (!verdict.require(inside, [&] { return say(name_of(program, index), " has no counterpart"); })) return;
  const Instruction& theirs = all[static_cast<std::size_t>(mine.match)];
  const Kind expected = mine.kind == Kind::send ? Kind::recv : Kind::send;
  verdict.require(theirs.kind == expected && theirs.match == index && theirs.id == mine.id &&
                      theirs.microbatch == mine.microbatch && theirs.buckets == mine.buckets && theirs.bucket == mine.bucket,
                  [&] { return say(name_of(program, index), " is matched with ", name_of(program, mine.match)); });
  const RankClass& peer = program.ranks[static_cast<std::size_t>(mine.peer)];
  verdict.require(mine.match >= peer.begin && mine.match < peer.end && theirs.peer == rank, [&] {
    return say(name_of(program, index), " names rank ", mine.peer, ", its counterpart is of another rank or names rank ",
               theirs.peer);
  });
}

void require_transfers(const View& view, const Program& program, const ProgramTables& tables, Verdict& verdict) {
  const auto last_chunk = static_cast<std::int32_t>(view.chunks.size()) - 1;
  const auto m = static_cast<std::size_t>(view.microbatches);
  for (std::size_t r = 0; r < tables.ranks.size(); ++r) {
    const RankClass& rank = program.ranks[r];
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      if (is_p2p(program.instructions[static_cast<std::size_t>(i)].kind))
        require_matched(program, static_cast<std::int32_t>(r), i, verdict);
    }
    for (std::size_t n = 0; n < tables.ranks[r].work.size(); ++n) {
      const ChunkPasses& work = tables.ranks[r].work[n];
      const std::int32_t chunk = chunk_of_stage(view.pipeline->schedule, rank.stage.value, static_cast<std::int32_t>(n / m));
      const bool before = chunk > 0 && view.stage_of[static_cast<std::size_t>(chunk - 1)] != rank.stage.value;
      const bool after = chunk < last_chunk && view.stage_of[static_cast<std::size_t>(chunk + 1)] != rank.stage.value;
      const bool as_needed = (work.recv_activation >= 0) == before && (work.send_gradient >= 0) == before &&
                             (work.send_activation >= 0) == after && (work.recv_gradient >= 0) == after;
      verdict.require(as_needed, [&] {
        return say("chunk ", chunk, ", micro-batch ", n % m, ": a send or recv of its boundary is missing or superfluous");
      });
    }
  }
}

/// Requires the order of one chunk's passes and transfers for one micro-batch.
void require_own_order(const Program& program, const ProgramTables& tables, const ChunkPasses& work, Verdict& verdict) {
  const auto need = [&](std::int32_t before, std::int32_t after) {
    if (before < 0 || after < 0) return;  // reported by another finding
    verdict.require(tables.precedes(program, before, after),
                    [&] { return say(name_of(program, after), " does not wait for ", name_of(program, before)); });
  };
  need(work.recv_activation, work.forward.first);
  need(work.forward.last, work.send_activation);
  need(work.forward.last, work.input.first);
  need(work.recv_gradient, work.input.first);
  need(work.input.last, work.send_gradient);
  if (work.weight.first != work.input.first) need(work.input.last, work.weight.first);
}

Finding check_order(const View& view, const Program& program, const ProgramTables& tables) {
  Verdict verdict("program-order");
  const auto m = static_cast<std::size_t>(view.microbatches);
  for (std::size_t r = 0; r < tables.ranks.size(); ++r) {
    const RankTable& table = tables.ranks[r];
    const std::int32_t stage = program.ranks[r].stage.value;
    for (std::size_t n = 0; n < table.work.size(); ++n) {
      const ChunkPasses& work = table.work[n];
      require_own_order(program, tables, work, verdict);
      const std::int32_t chunk = chunk_of_stage(view.pipeline->schedule, stage, static_cast<std::int32_t>(n / m));
      if (chunk == 0 || view.stage_of[static_cast<std::size_t>(chunk - 1)] != stage) continue;
      const ChunkPasses& before = table.work[local_chunk(view, chunk - 1) * m + n % m];  // passed on inside the rank
      const auto later = [](std::int32_t a, std::int32_t b) { return a < 0 || b < 0 || a < b; };
      verdict.require(later(before.forward.last, work.forward.first) && later(work.input.last, before.input.first), [&] {
        return say("chunk ", chunk, " and the one before, on one rank, run in the wrong order (micro-batch ", n % m, ")");
      });
    }
  }
  return verdict.finding("every pass and transfer waits for what it needs");
}

}  // namespace

ProgramCheck check_program(const View& view, const Program& program) {
  ProgramCheck result;
  result.findings.push_back(check_shape(view, program));
  if (!result.findings.back().ok) return result;
  result.findings.push_back(check_waits(program));
  if (!result.findings.back().ok) return result;
  TableBuilder builder{view, program};
  ProgramTables tables;
  for (const RankClass& rank : program.ranks) tables.ranks.push_back(builder.build(rank));
  fill_ended(program, tables);
  const bool complete = builder.work.ok();
  result.findings.push_back(
      builder.work.finding(say("every chunk × ", view.microbatches, " micro-batches, forward and backward once")));
  require_transfers(view, program, tables, builder.transfers);
  result.findings.push_back(builder.transfers.finding("every boundary is crossed once each way per micro-batch"));
  if (complete) {
    result.findings.push_back(check_order(view, program, tables));
    for (Finding& finding : check_updates(view, program, tables)) result.findings.push_back(std::move(finding));
  }
  for (Finding& finding : check_deadlock(view, program)) result.findings.push_back(std::move(finding));
  result.readable = std::all_of(result.findings.begin(), result.findings.end(), [](const Finding& f) { return f.ok; });
  return result;
}

}  // namespace espalier::check
