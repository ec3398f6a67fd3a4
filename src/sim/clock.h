// SPDX-License-Identifier: Apache-2.0
// The clock of the simulation: gives every instruction of a program its end (and start, if wanted) in integer
// nanoseconds.
//
// Each rank has a head per stream. Compute leads: before a compute instruction runs, the receives and collectives it
// waits for are timed; after it, the sends it releases. `compute` and `data` of a rank share the device (Pair): each at
// full rate alone, at rates 1/κ_w and 1/κ_c of the collective that runs together. Remaining work is kept in double
// (exact for κ = 1), ends are rounded down to nanoseconds once each, so that an instruction never takes less than its
// stand-alone time and two never more than their sum (1/κ_c + 1/κ_w ≥ 1). With stronger factors they run one after the
// other: what has started ends first, and compute goes before data when both could start.
//
// A rank that needs a transfer its peer has not timed yet, or members of the process group of its collective, is laid
// aside and woken by them. Unfolded, every collective meets by its group, the exchange of a shared table too. In a
// folded program a compute stream waits only for what earlier compute made possible, so a rank laid aside for ever is a
// deadlock of the program. Unfolded programs are exact too when the members of a data group act alike, which uniform
// plans guarantee.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cost/costs.h"
#include "plan/program.h"
#include "sim/network_model.h"

namespace espalier::sim {

/// Stand-alone durations by id. Refilled for every call, memory reused.
class Durations {
 public:
  void fill(const Program& program, const cost::Costs& costs);
  [[nodiscard]] std::int64_t of(const Instruction& instruction) const {
    if (instruction.buckets > 1 && instruction.stream == Stream::compute) return of_bucket(instruction);
    return table_[first_[static_cast<std::size_t>(instruction.stream)] + static_cast<std::size_t>(instruction.id)];
  }
  /// From the end of a send to the end of its receive.
  [[nodiscard]] std::int64_t delay(const Instruction& receive) const {
    return costs_->delays.empty() ? 0 : costs_->delays[receive.transfer()].count();
  }

 private:
  [[nodiscard]] std::int64_t of_bucket(const Instruction& instruction) const;
  std::vector<std::int64_t> table_;            // works, collectives, transfers
  std::array<std::size_t, kStreams> first_{};  // of each stream in the table
  const cost::Costs* costs_ = nullptr;
};

class Engine final : public NetworkModel {
 public:
  /// Times the whole program. False on deadlock. `starts` are filled only when `record`.
  bool run(const Program& program, const cost::Costs& costs, bool record) override;

  [[nodiscard]] std::int64_t iteration_ns() const override { return iteration_; }
  [[nodiscard]] std::int64_t rank_end(std::size_t rank) const override { return ranks_[rank].end_time; }
  [[nodiscard]] const std::vector<std::int64_t>& starts() const override { return starts_; }
  [[nodiscard]] const std::vector<std::int64_t>& ends() const override { return ends_; }
  /// After a deadlock: the first instruction of `rank` that never started, or −1.
  [[nodiscard]] std::int32_t blocked(std::size_t rank) const override;

 private:
  /// Compute and data of one rank at work.
  struct Pair {
    std::int64_t clock = 0;                  ///< the running ones have been advanced to here
    double compute_left = 0, data_left = 0;  ///< stand-alone nanoseconds
    cost::MutualSlowdown slowdown;           ///< of the collective that runs
    bool compute_running = false, data_running = false;
  };
  struct Rank {
    std::array<std::int32_t, kStreams> head{};  ///< next instruction of each stream
    std::array<std::int64_t, kStreams> free{};  ///< end of the last one
    std::int32_t begin = 0, end = 0;
    std::int32_t data_gate = 0;  ///< the data head cannot start before this instruction has ended; −1: it may or does
                                 ///< run
    std::int32_t awaited_send = -1;
    bool serial = false;      ///< compute and data one after the other, as some collective of the rank must
    bool arrived = false;     ///< at the meeting of its next collective
    bool at_meeting = false;  ///< laid aside for it
    bool queued = false;
    Pair pair;
    std::int64_t end_time = 0;
  };
  /// The members of a process group at one collective.
  struct Meeting {
    std::int32_t arrived = 0;
    std::int64_t ready = 0;
  };

  void prepare(const Program& program, const cost::Costs& costs);
  void wake(Rank& rank);
  template <bool kRecord>
  bool work();
  template <bool kRecord>
  void advance(Rank& rank);
  template <bool kRecord>
  bool compute(Rank& rank);
  template <bool kRecord>
  bool compute_beside_data(Rank& rank, std::int32_t i, std::int64_t start);
  template <bool kRecord>
  bool run_pair(Rank& rank);
  template <bool kRecord>
  bool run_data(Rank& rank, std::int64_t until, std::int32_t through);
  template <bool kRecord>
  bool receive(Rank& rank, std::int32_t through);
  template <bool kRecord>
  void send(Rank& rank);
  template <bool kRecord>
  bool drain(Rank& rank);
  template <bool kRecord>
  bool await(Rank& rank, std::int32_t i, std::int64_t& start);
  template <bool kRecord>
  void start_data(Rank& rank, std::int64_t at);
  template <bool kRecord>
  bool known_or_timed(Rank& rank, std::int32_t i);

  [[nodiscard]] bool known(const Rank& rank, std::int32_t i) const {
    return i < 0 || i < rank.head[static_cast<std::size_t>(at(i).stream)];
  }
  [[nodiscard]] const Instruction& at(std::int32_t i) const { return instructions_[i]; }
  [[nodiscard]] std::int64_t end_of(std::int32_t i) const { return i < 0 ? 0 : ends_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t data_ready(const Rank& rank) const;
  bool meet(Rank& rank, std::int64_t& start);
  void finish(Rank& rank, std::int32_t i, Stream stream, std::int64_t end);
  void finish_data(Rank& rank, std::int64_t end);
  void find_gate(Rank& rank);

  const Instruction* instructions_ = nullptr;
  const cost::Costs* costs_ = nullptr;
  Durations durations_;
  std::vector<Rank> ranks_;
  std::unordered_map<std::uint64_t, Meeting> meetings_;  // by group, collective and bucket
  const Program* program_ = nullptr;
  std::vector<std::int32_t> ready_;  // stack of ranks to advance
  std::vector<std::int64_t> starts_, ends_;
  std::int64_t iteration_ = 0;
};

}  // namespace espalier::sim
