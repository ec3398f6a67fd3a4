// SPDX-License-Identifier: Apache-2.0
#include "sim/flow_executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/invariant.h"
#include "sim/traffic_cut.h"

namespace espalier::sim {
namespace {

std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }

}  // namespace

FlowExecutor::FlowExecutor(FlowNetwork network, ProgramTraffic traffic)
    : network_(std::move(network)), traffic_(std::move(traffic)) {}

// ---- streams and waits --------------------------------------------------------------------------------------------

void FlowExecutor::prepare(const Program& program, const cost::Costs& costs) {
  ESPALIER_CHECK(program.folded && network_.now() == 0 && traffic_.collectives.size() == program.ranks.size());
  program_ = &program;
  costs_ = &costs;
  ESPALIER_CHECK(costs.slowdowns.size() == costs.collectives.size());
  for (const cost::MutualSlowdown& slowdown : costs.slowdowns)
    ESPALIER_CHECK(slowdown.compute >= 1.0 && slowdown.communication >= 1.0);
  starts_.assign(program.instructions.size(), 0);
  ends_.assign(program.instructions.size(), -1);
  ranks_.resize(program.ranks.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.end = program.ranks[r].end;
    for (std::int32_t i = program.ranks[r].begin; i < rank.end; ++i)
      if (at(i).stream == Stream::data) rank.serial = rank.serial || costs.slowdowns[at(i).collective()].in_turn();
    for (int s = 0; s < kStreams; ++s) {
      std::int32_t& head = rank.head[static_cast<std::size_t>(s)];
      for (head = program.ranks[r].begin; head < rank.end && at(head).stream != static_cast<Stream>(s);) ++head;
    }
    make_stale(static_cast<std::int32_t>(r));
  }
}

void FlowExecutor::leave_room_for_rounding() {
  const cost::MutualSlowdown none;
  if (std::all_of(costs_->slowdowns.begin(), costs_->slowdowns.end(), [&](const cost::MutualSlowdown& k) { return k == none; }))
    return;
  const auto shorten = [](std::map<std::int32_t, Pieces>& table) {
    for (auto& [id, pieces] : table)
      for (TrafficPiece& piece : pieces) {
        piece.activity.duration_ns = std::max<std::int64_t>(0, piece.activity.duration_ns - 1);
        piece.activity.fixed_ns = std::max<std::int64_t>(0, piece.activity.fixed_ns - 1);
        if (piece.activity.duration_ns == 0) piece.activity.flows.clear();
      }
  };
  for (std::map<std::int32_t, Pieces>& table : traffic_.collectives) shorten(table);
  shorten(traffic_.works);
}

bool FlowExecutor::ended(std::int32_t i) const { return i < 0 || ends_[static_cast<std::size_t>(i)] >= 0; }

bool FlowExecutor::waits_over(const Rank& rank, const Instruction& instruction) const {
  if (!ended(instruction.wait0) || !ended(instruction.wait1)) return false;
  if (!rank.serial) return true;
  if (instruction.stream == Stream::data) return !rank.running[index_of(Stream::compute)].on();
  return instruction.stream != Stream::compute || !rank.running[index_of(Stream::data)].on();
}

void FlowExecutor::make_stale(std::int32_t r) {
  if (rank_at(r).stale) return;
  rank_at(r).stale = true;
  stale_.push_back(r);
}

void FlowExecutor::finish(std::int32_t r, Stream stream, std::int64_t end) {
  Rank& rank = rank_at(r);
  const std::size_t s = index_of(stream);
  std::int32_t& head = rank.head[s];
  ends_[static_cast<std::size_t>(head)] = end;
  rank.free[s] = end;
  iteration_ = std::max(iteration_, end);
  if (stream == Stream::send) make_stale(at(head).peer);
  if (stream == Stream::data && program_->meets(at(head)))
    for (const std::int32_t other : program_->groups.at(program_->collectives[at(head).collective()].pipelines).members)
      if (other != r) make_stale(other);
  do {
    ++head;
  } while (head < rank.end && at(head).stream != stream);
}

bool FlowExecutor::receive(std::int32_t r) {
  Rank& rank = rank_at(r);
  const std::int32_t i = rank.head[index_of(Stream::recv)];
  if (i >= rank.end || !waits_over(rank, at(i)) || !ended(at(i).match) || arrival(at(i)) > now_) return false;
  // The span shows the transfer: from the send's start, or from when the stream became free.
  const auto end_of = [&](std::int32_t wait) { return wait < 0 ? std::int64_t{0} : ends_[static_cast<std::size_t>(wait)]; };
  starts_[static_cast<std::size_t>(i)] = std::max({rank.free[index_of(Stream::recv)], end_of(at(i).wait0), end_of(at(i).wait1),
                                                   starts_[static_cast<std::size_t>(at(i).match)]});
  finish(r, Stream::recv, now_);
  return true;
}

/// Returns when the bytes of a receive arrive whose send has ended.
std::int64_t FlowExecutor::arrival(const Instruction& receive) const {
  return ends_[static_cast<std::size_t>(receive.match)] + durations_.delay(receive);
}

bool FlowExecutor::can_start(const Rank& rank, Stream stream) const {
  const std::int32_t i = rank.head[index_of(stream)];
  return i < rank.end && !rank.running[index_of(stream)].on() && waits_over(rank, at(i));
}

bool FlowExecutor::start_head(std::int32_t r, Stream stream) {
  const Rank& rank = rank_at(r);
  if (!can_start(rank, stream)) return false;
  if (stream == Stream::data && program_->meets(at(rank.head[index_of(stream)]))) return start_meeting(r);
  start(r, stream);
  return true;
}

/// Starts the data heads of all members of a meeting, if all have arrived.
bool FlowExecutor::start_meeting(std::int32_t r) {
  const Instruction& call = at(rank_at(r).head[index_of(Stream::data)]);
  const std::vector<std::int32_t>& members = program_->groups.at(program_->collectives[call.collective()].pipelines).members;
  for (const std::int32_t other : members) {
    const Rank& rank = rank_at(other);
    if (!can_start(rank, Stream::data) || at(rank.head[index_of(Stream::data)]).id != call.id) return false;
  }
  for (const std::int32_t other : members) {
    start(other, Stream::data);
    make_stale(other);
  }
  return true;
}

/// Returns whether the instruction is a reduction between pipelines that its first rank class has not ended.
bool FlowExecutor::waits_for_first(std::int32_t r, const Running& running) const {
  const Instruction& call = at(running.instruction);
  if (call.stream != Stream::data || !program_->meets(call)) return false;
  const std::int32_t first = program_->groups.at(program_->collectives[call.collective()].pipelines).members.front();
  if (first == r) return false;
  const Running& leading = ranks_[static_cast<std::size_t>(first)].running[index_of(Stream::data)];
  return leading.on() && at(leading.instruction).id == call.id;
}

// ---- an instruction -----------------------------------------------------------------------------------------------

const Pieces* FlowExecutor::pieces_of(std::int32_t r, const Instruction& instruction, Running& running) const {
  const auto find = [&](const std::map<std::int32_t, Pieces>& table) -> const Pieces* {
    const auto found = table.find(instruction.id);
    return found == table.end() ? nullptr : &found->second;
  };
  if (instruction.stream == Stream::data) return find(traffic_.collectives[static_cast<std::size_t>(r)]);
  if (instruction.stream == Stream::send) return find(traffic_.transfers);
  const Pieces* whole = find(traffic_.works);
  if (whole == nullptr || instruction.buckets <= 1) return whole;
  Instruction bucket = instruction;
  std::int64_t begin = 0;
  for (std::uint8_t k = 0; k < instruction.bucket; ++k) {
    bucket.bucket = k;
    begin += durations_.of(bucket);
  }
  running.cut = cut_pieces(*whole, begin, begin + durations_.of(instruction));
  return &running.cut;
}

void FlowExecutor::start(std::int32_t r, Stream stream) {
  Rank& rank = rank_at(r);
  if (stream == Stream::compute || stream == Stream::data) advance_pair(rank);
  const std::int32_t i = rank.head[index_of(stream)];
  Running& running = rank.running[index_of(stream)];
  running.instruction = i;
  if (stream == Stream::data) rank_at(r).slowdown = costs_->slowdowns[at(i).collective()];
  running.clock = now_;
  running.total = durations_.of(at(i));
  running.left = static_cast<double>(running.total);
  running.held_up = false;
  running.next_piece = 0;
  running.in_flight.clear();
  running.pieces = pieces_of(r, at(i), running);
  starts_[static_cast<std::size_t>(i)] = now_;
}

/// Returns the factor by which a running instruction is slowed down.
double FlowExecutor::slowness(const Rank& rank, Stream stream) const {
  const bool both = rank.running[index_of(Stream::compute)].on() && rank.running[index_of(Stream::data)].on();
  if (!both) return 1.0;
  if (stream == Stream::compute) return rank.slowdown.compute;
  return stream == Stream::data ? rank.slowdown.communication : 1.0;
}

/// Returns when the running instruction has `left` ns left.
std::int64_t FlowExecutor::moment(const Rank& rank, Stream stream, double left) const {
  const Running& running = rank.running[index_of(stream)];
  const double until = std::max(0.0, running.left - left);
  return running.clock + static_cast<std::int64_t>(until * slowness(rank, stream));
}

void FlowExecutor::advance(Rank& rank, Stream stream) const {
  Running& running = rank.running[index_of(stream)];
  if (!running.on()) return;
  if (!running.held_up)
    running.left = std::max(0.0, running.left - static_cast<double>(now_ - running.clock) / slowness(rank, stream));
  running.clock = now_;
}

/// Must be called before compute or data of a rank begins or ends.
void FlowExecutor::advance_pair(Rank& rank) const {
  advance(rank, Stream::compute);
  advance(rank, Stream::data);
}

void FlowExecutor::start_pieces(std::int32_t r, Stream stream) {
  Rank& rank = rank_at(r);
  Running& running = rank.running[index_of(stream)];
  if (running.pieces == nullptr || running.held_up) return;
  for (; running.next_piece < running.pieces->size(); ++running.next_piece) {
    const TrafficPiece& piece = (*running.pieces)[running.next_piece];
    if (moment(rank, stream, static_cast<double>(running.total - piece.offset_ns)) > now_) return;
    if (piece.activity.flows.empty()) continue;
    const ActivityId id = network_.start(now_, piece.activity);
    ESPALIER_CHECK(id == static_cast<ActivityId>(owners_.size()));
    owners_.push_back(r);
    over_.push_back(false);
    running.in_flight.push_back({id, std::max(0.0, static_cast<double>(running.total - piece.due_ns))});
  }
}

/// Returns whether a due piece holds up the instruction, and stops or resumes it accordingly.
bool FlowExecutor::hold_up(Rank& rank, Stream stream) {
  Running& running = rank.running[index_of(stream)];
  std::erase_if(running.in_flight, [&](const InFlight& f) { return over_[static_cast<std::size_t>(f.activity)]; });
  const bool due = std::any_of(running.in_flight.begin(), running.in_flight.end(), [&](const InFlight& f) {
    return running.held_up ? f.due_left >= running.left : moment(rank, stream, f.due_left) <= now_;
  });
  if (due != running.held_up) {
    // A piece is due a fraction of a nanosecond after the moment that rounds down to this one. That fraction is kept.
    if (due) {
      double first_due = 0;
      for (const InFlight& f : running.in_flight) first_due = std::max(first_due, f.due_left);
      advance(rank, stream);
      running.left = std::max(0.0, std::min(running.left, first_due));
    }
    running.clock = now_;
    running.held_up = due;
  }
  return due;
}

/// Advances a running instruction at this moment. Returns true if it ended.
bool FlowExecutor::progress(std::int32_t r, Stream stream) {
  Rank& rank = rank_at(r);
  Running& running = rank.running[index_of(stream)];
  if (!running.on() || hold_up(rank, stream)) return false;
  start_pieces(r, stream);
  if (hold_up(rank, stream)) return false;
  if (!running.in_flight.empty() && moment(rank, stream, 0.0) <= now_) return false;
  if (moment(rank, stream, 0.0) > now_ || waits_for_first(r, running)) return false;
  if (stream == Stream::compute || stream == Stream::data) advance_pair(rank);
  running.instruction = -1;
  finish(r, stream, now_);
  return true;
}

// ---- time ---------------------------------------------------------------------------------------------------------

bool FlowExecutor::settle_rank(std::int32_t r) {
  bool any = false;
  for (bool changed = true; changed; any = any || changed) {
    changed = false;
    // Data comes once more: when compute has just ended, less than a nanosecond of a collective may be left. It must
    // end before the next compute slows it down.
    for (const Stream stream : {Stream::data, Stream::compute, Stream::data, Stream::send})
      changed = progress(r, stream) || changed;
    while (receive(r)) changed = true;
    for (const Stream stream : {Stream::send, Stream::compute}) changed = start_head(r, stream) || changed;
  }
  return any;
}

/// Processes everything that happens at this moment.
void FlowExecutor::settle() {
  std::vector<std::int32_t> seen;
  while (!stale_.empty()) {
    while (!stale_.empty()) {
      const std::int32_t r = stale_.back();
      stale_.pop_back();
      rank_at(r).stale = false;
      seen.push_back(r);
      settle_rank(r);
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    for (const std::int32_t r : seen)
      if (start_head(r, Stream::data)) make_stale(r);
  }
  for (const std::int32_t r : seen) set_timers(r);
}

void FlowExecutor::set_timers(std::int32_t r) {
  Rank& rank = rank_at(r);
  std::int64_t next = -1;
  const auto consider = [&](std::int64_t t) {
    if (t > now_ && (next < 0 || t < next)) next = t;
  };
  const std::int32_t awaited = rank.head[index_of(Stream::recv)];
  if (awaited < rank.end && ended(at(awaited).match)) consider(arrival(at(awaited)));
  for (const Stream stream : {Stream::compute, Stream::data, Stream::send}) {
    const Running& running = rank.running[index_of(stream)];
    if (!running.on() || running.held_up) continue;
    consider(moment(rank, stream, 0.0));
    for (const InFlight& f : running.in_flight) consider(moment(rank, stream, f.due_left));
    if (running.pieces != nullptr && running.next_piece < running.pieces->size())
      consider(moment(rank, stream, static_cast<double>(running.total - (*running.pieces)[running.next_piece].offset_ns)));
  }
  if (next > now_) timers_.emplace(next, r);
}

bool FlowExecutor::run(const Program& program, const cost::Costs& costs, bool) {
  durations_.fill(program, costs);
  prepare(program, costs);
  leave_room_for_rounding();
  std::vector<FinishedActivity> finished;
  for (;;) {
    settle();
    std::optional<std::int64_t> next = network_.active() > 0 ? network_.next_event() : std::nullopt;
    if (!timers_.empty() && (!next || timers_.top().first < *next)) next = timers_.top().first;
    if (!next) break;
    now_ = *next;
    finished.clear();
    network_.advance(now_, finished);
    for (const FinishedActivity& activity : finished) {
      over_[static_cast<std::size_t>(activity.id)] = true;
      make_stale(owners_[static_cast<std::size_t>(activity.id)]);
    }
    for (; !timers_.empty() && timers_.top().first <= now_; timers_.pop()) make_stale(timers_.top().second);
  }
  return std::all_of(ends_.begin(), ends_.end(), [](std::int64_t end) { return end >= 0; });
}

std::int64_t FlowExecutor::rank_end(std::size_t rank) const {
  return *std::max_element(ranks_[rank].free.begin(), ranks_[rank].free.end());
}

std::int32_t FlowExecutor::blocked(std::size_t rank) const {
  const std::int32_t first = *std::min_element(ranks_[rank].head.begin(), ranks_[rank].head.end());
  return first < ranks_[rank].end ? first : -1;
}

}  // namespace espalier::sim
