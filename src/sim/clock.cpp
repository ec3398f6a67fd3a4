// SPDX-License-Identifier: Apache-2.0
#include "sim/clock.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/invariant.h"

namespace espalier::sim {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kNoData = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kCompute = static_cast<std::size_t>(Stream::compute), kData = static_cast<std::size_t>(Stream::data),
                      kSend = static_cast<std::size_t>(Stream::send), kRecv = static_cast<std::size_t>(Stream::recv);

std::int64_t floor_ns(double t) { return static_cast<std::int64_t>(t); }  // t ≥ 0

}  // namespace

void Durations::fill(const Program& program, const cost::Costs& costs) {
  ESPALIER_CHECK(costs.works.size() == program.works.size() && costs.collectives.size() == program.collectives.size());
  costs_ = &costs;
  const std::size_t works = costs.works.size(), collectives = costs.collectives.size();
  first_[kCompute] = 0;
  first_[kData] = works;
  first_[kSend] = first_[kRecv] = works + collectives;
  table_.clear();
  for (const cost::WorkCost& work : costs.works) table_.push_back(work.time.duration_ns());
  for (const Nanoseconds t : costs.collectives) table_.push_back(t.count());
  for (const Nanoseconds t : costs.transfers) table_.push_back(t.count());
}

std::int64_t Durations::of_bucket(const Instruction& instruction) const {
  return cost::part_of(costs_->works[instruction.work()].time, instruction.bucket, instruction.buckets).duration_ns();
}

// bookkeeping

void Engine::prepare(const Program& program, const cost::Costs& costs) {
  instructions_ = program.instructions.data();
  costs_ = &costs;
  ESPALIER_CHECK(costs.slowdowns.size() == costs.collectives.size());
  bool any_in_turn = false;
  for (const cost::MutualSlowdown& slowdown : costs.slowdowns) {
    ESPALIER_CHECK(slowdown.compute >= 1.0 && slowdown.communication >= 1.0);
    any_in_turn = any_in_turn || slowdown.in_turn();
  }
  ranks_.resize(program.ranks.size());
  ready_.clear();
  ready_.reserve(ranks_.size());
  ends_.resize(program.instructions.size());
  program_ = &program;
  meetings_.clear();
  for (std::size_t r = ranks_.size(); r-- > 0;) {
    const RankClass& source = program.ranks[r];
    Rank& rank = ranks_[r];
    rank = Rank{};
    rank.begin = source.begin;
    rank.end = source.end;
    for (std::int32_t i = rank.begin; any_in_turn && !rank.serial && i < rank.end; ++i)
      rank.serial = at(i).stream == Stream::data && costs.slowdowns[at(i).collective()].in_turn();
    for (std::size_t s = 0; s < kStreams; ++s) {
      std::int32_t& head = rank.head[s];
      for (head = rank.begin; head < rank.end && at(head).stream != static_cast<Stream>(s);) ++head;
    }
    find_gate(rank);
    wake(rank);
  }
}

void Engine::wake(Rank& rank) {
  if (rank.queued) return;
  rank.queued = true;
  ready_.push_back(static_cast<std::int32_t>(&rank - ranks_.data()));
}

/// Ends the head of a stream and moves to the next.
void Engine::finish(Rank& rank, std::int32_t i, Stream stream, std::int64_t end) {
  const auto s = static_cast<std::size_t>(stream);
  ends_[static_cast<std::size_t>(i)] = end;
  rank.free[s] = end;
  do {
    ++i;
  } while (i < rank.end && at(i).stream != stream);
  rank.head[s] = i;
}

void Engine::find_gate(Rank& rank) {
  const std::int32_t d = rank.head[kData];
  rank.data_gate = d < rank.end ? std::max(at(d).wait0, at(d).wait1) : kNoData;
}

void Engine::finish_data(Rank& rank, std::int64_t end) {
  rank.pair.data_running = false;
  finish(rank, rank.head[kData], Stream::data, end);
  find_gate(rank);
}

std::int32_t Engine::blocked(std::size_t rank) const {
  const Rank& r = ranks_[rank];
  const std::int32_t first = *std::min_element(r.head.begin(), r.head.end());
  return first < r.end ? first : -1;
}

// collectives overlapped with compute

/// Returns the earliest start of the data head as far as this rank decides it; kNever while it waits for an untimed
/// instruction.
std::int64_t Engine::data_ready(const Rank& rank) const {
  const std::int32_t d = rank.head[kData];
  if (d >= rank.end) return kNever;
  const Instruction& here = at(d);
  if (!known(rank, here.wait0) || !known(rank, here.wait1)) return kNever;
  const std::int64_t ready = std::max({rank.free[kData], end_of(here.wait0), end_of(here.wait1)});
  return rank.serial ? std::max(ready, rank.free[kCompute]) : ready;
}

/// Makes the members of a process group start together: raises `start` to the latest. Returns false if some are
/// missing.
bool Engine::meet(Rank& rank, std::int64_t& start) {
  const Instruction& here = at(rank.head[kData]);
  if (!program_->meets(here)) return true;
  const ProcessGroupId id = program_->group_of(program_->ranks[static_cast<std::size_t>(&rank - ranks_.data())], here);
  const std::vector<std::int32_t>& members = program_->groups.at(id).members;
  const std::uint64_t key =
      (static_cast<std::uint64_t>(id.value) << 40U) | (static_cast<std::uint64_t>(here.id) << 8U) | here.bucket;
  Meeting& meeting = meetings_[key];
  if (!rank.arrived) {
    rank.arrived = true;
    meeting.ready = std::max(meeting.ready, start);
    if (++meeting.arrived == static_cast<std::int32_t>(members.size())) {
      for (const std::int32_t r : members) {
        Rank& other = ranks_[static_cast<std::size_t>(r)];
        if (!other.at_meeting) continue;
        other.at_meeting = false;
        wake(other);
      }
    }
  }
  start = std::max(start, meeting.ready);
  rank.at_meeting = meeting.arrived < static_cast<std::int32_t>(members.size());
  return !rank.at_meeting;
}

template <bool kRecord>
void Engine::start_data(Rank& rank, std::int64_t start) {
  const std::int32_t d = rank.head[kData];
  if constexpr (kRecord) starts_[static_cast<std::size_t>(d)] = start;
  rank.arrived = false;
  rank.data_gate = -1;
  rank.pair.clock = start;
  rank.pair.data_left = static_cast<double>(durations_.of(at(d)));
  rank.pair.slowdown = costs_->slowdowns[at(d).collective()];
  rank.pair.data_running = true;
}

/// Runs data at full rate while compute is idle, until `until` or until instruction `through` has ended. Returns
/// false if the rank must wait for a meeting.
template <bool kRecord>
bool Engine::run_data(Rank& rank, std::int64_t until, std::int32_t through) {
  Pair& pair = rank.pair;
  while (rank.head[kData] <= through) {
    if (!pair.data_running) {
      std::int64_t start = data_ready(rank);
      if (start >= until) return true;
      if (!meet(rank, start)) return false;
      if (start >= until) return true;
      start_data<kRecord>(rank, start);
    }
    const std::int64_t end = pair.clock + floor_ns(pair.data_left);
    if (end > until) {
      pair.data_left -= static_cast<double>(until - pair.clock);
      pair.clock = until;
      return true;
    }
    finish_data(rank, end);
  }
  return true;
}

/// Runs both streams until the compute head has ended. Returns false if the rank stops in the middle, to be resumed.
template <bool kRecord>
bool Engine::run_pair(Rank& rank) {
  Pair& pair = rank.pair;
  const cost::MutualSlowdown& slowdown = pair.slowdown;
  for (;;) {
    if (!pair.data_running) {
      const std::int64_t alone = pair.clock + floor_ns(pair.compute_left);
      std::int64_t start = data_ready(rank);
      if (start < alone && !meet(rank, start)) return false;
      if (start >= alone) {
        pair.clock = alone;
        break;
      }
      start = std::max(start, pair.clock);
      pair.compute_left -= static_cast<double>(start - pair.clock);
      start_data<kRecord>(rank, start);
    }
    const double compute_needs = pair.compute_left * slowdown.compute, data_needs = pair.data_left * slowdown.communication;
    if (data_needs < compute_needs) {
      const std::int64_t step = floor_ns(data_needs);
      pair.clock += step;
      pair.compute_left = std::max(0.0, pair.compute_left - static_cast<double>(step) / slowdown.compute);
      finish_data(rank, pair.clock);
    } else {
      const std::int64_t step = floor_ns(compute_needs);
      pair.clock += step;
      pair.data_left = std::max(0.0, pair.data_left - static_cast<double>(step) / slowdown.communication);
      break;
    }
  }
  pair.compute_running = false;
  finish(rank, rank.head[kCompute], Stream::compute, pair.clock);
  return true;
}

template <bool kRecord>
bool Engine::compute_beside_data(Rank& rank, std::int32_t i, std::int64_t start) {
  if (!run_data<kRecord>(rank, start, rank.end)) return false;
  Pair& pair = rank.pair;
  const std::int64_t duration = durations_.of(at(i));
  if (rank.serial) {
    if (pair.data_running) {  // it started before, so it ends first
      start = pair.clock + floor_ns(pair.data_left);
      finish_data(rank, start);
    }
    if constexpr (kRecord) starts_[static_cast<std::size_t>(i)] = start;
    finish(rank, i, Stream::compute, start + duration);
    return true;
  }
  if constexpr (kRecord) starts_[static_cast<std::size_t>(i)] = start;
  pair.clock = start;
  pair.compute_left = static_cast<double>(duration);
  pair.compute_running = true;
  return run_pair<kRecord>(rank);
}

// one rank

template <bool kRecord>
bool Engine::receive(Rank& rank, std::int32_t through) {
  while (rank.head[kRecv] <= through && rank.head[kRecv] < rank.end) {
    const std::int32_t i = rank.head[kRecv];
    const Instruction& here = at(i);
    std::int64_t start = rank.free[kRecv];
    if (!await<kRecord>(rank, i, start)) return false;
    if (here.match >= ranks_[static_cast<std::size_t>(here.peer)].head[kSend]) {
      rank.awaited_send = here.match;
      return false;
    }
    const std::int64_t end = std::max(start, end_of(here.match) + durations_.delay(here));
    // The span shows the transfer: from the send's start, or from when the stream became free.
    if constexpr (kRecord) starts_[static_cast<std::size_t>(i)] = std::max(start, starts_[static_cast<std::size_t>(here.match)]);
    finish(rank, i, Stream::recv, end);
  }
  return true;
}

/// Times the sends whose waits are timed, and wakes the ranks that wait for them.
template <bool kRecord>
void Engine::send(Rank& rank) {
  while (rank.head[kSend] < rank.end) {
    const std::int32_t i = rank.head[kSend];
    const Instruction& here = at(i);
    if (!known(rank, here.wait0) || !known(rank, here.wait1)) return;
    const std::int64_t start = std::max({rank.free[kSend], end_of(here.wait0), end_of(here.wait1)});
    if constexpr (kRecord) starts_[static_cast<std::size_t>(i)] = start;
    finish(rank, i, Stream::send, start + durations_.of(here));
    Rank& peer = ranks_[static_cast<std::size_t>(here.peer)];
    if (peer.awaited_send == i) {
      peer.awaited_send = -1;
      wake(peer);
    }
  }
}

/// Times instruction i of any stream if it is not timed yet. Returns false if that is not possible now.
template <bool kRecord>
bool Engine::known_or_timed(Rank& rank, std::int32_t i) {
  if (known(rank, i)) return true;
  switch (at(i).stream) {
    case Stream::recv: return receive<kRecord>(rank, i);
    case Stream::data: return run_data<kRecord>(rank, kNever, i) && known(rank, i);
    case Stream::send: send<kRecord>(rank); return known(rank, i);
    case Stream::compute: return false;
  }
  return false;
}

/// Raises `start` to the ends of the waits of instruction i.
template <bool kRecord>
bool Engine::await(Rank& rank, std::int32_t i, std::int64_t& start) {
  for (const std::int32_t wait : {at(i).wait0, at(i).wait1}) {
    if (wait < 0) continue;
    if (!known_or_timed<kRecord>(rank, wait)) return false;
    start = std::max(start, ends_[static_cast<std::size_t>(wait)]);
  }
  return true;
}

template <bool kRecord>
bool Engine::compute(Rank& rank) {
  if (rank.pair.compute_running) return run_pair<kRecord>(rank);
  const std::int32_t i = rank.head[kCompute];
  std::int64_t start = rank.free[kCompute];
  if (!await<kRecord>(rank, i, start)) return false;
  if (rank.data_gate < i) return compute_beside_data<kRecord>(rank, i, start);
  if constexpr (kRecord) starts_[static_cast<std::size_t>(i)] = start;
  finish(rank, i, Stream::compute, start + durations_.of(at(i)));
  return true;
}

/// Times the remaining instructions of the other streams after the last compute instruction.
template <bool kRecord>
bool Engine::drain(Rank& rank) {
  if (!run_data<kRecord>(rank, kNever, rank.end - 1) || rank.head[kData] < rank.end) return false;
  if (!receive<kRecord>(rank, rank.end - 1)) return false;
  send<kRecord>(rank);
  if (rank.head[kSend] < rank.end) return false;
  rank.end_time = *std::max_element(rank.free.begin(), rank.free.end());
  return true;
}

template <bool kRecord>
void Engine::advance(Rank& rank) {
  rank.awaited_send = -1;
  send<kRecord>(rank);
  while (rank.head[kCompute] < rank.end) {
    if (!compute<kRecord>(rank)) return;
    send<kRecord>(rank);
  }
  drain<kRecord>(rank);
}

template <bool kRecord>
bool Engine::work() {
  while (!ready_.empty()) {
    Rank& rank = ranks_[static_cast<std::size_t>(ready_.back())];
    ready_.pop_back();
    rank.queued = false;
    advance<kRecord>(rank);
  }
  iteration_ = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (blocked(r) >= 0) return false;
    iteration_ = std::max(iteration_, ranks_[r].end_time);
  }
  return true;
}

bool Engine::run(const Program& program, const cost::Costs& costs, bool record) {
  durations_.fill(program, costs);
  if (record) starts_.resize(program.instructions.size());
  prepare(program, costs);
  return record ? work<true>() : work<false>();
}

}  // namespace espalier::sim
