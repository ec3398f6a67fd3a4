// SPDX-License-Identifier: Apache-2.0
// Implements the clock of the simulation. It gives every instruction of a program its end (and start, on request) in
// integer nanoseconds.
//
// Each rank has a head per stream. Compute leads: before a compute instruction runs, the receives and collectives
// that it waits for are timed; after it, the sends that it releases. `compute` and `data` of a rank share the device
// (Pair). Each runs at full rate alone, and at rates 1/κ_w and 1/κ_c if they overlap, with κ of the collective.
// Remaining work is kept in double (exact for κ = 1), and each end is rounded down to nanoseconds once. An
// instruction therefore never takes less than its stand-alone time, and two never take more than their sum (1/κ_c +
// 1/κ_w ≥ 1). With larger factors they run one after the other: the one that started ends first, and compute goes
// before data if both could start.
//
// A rank stops if it needs a transfer that its peer has not timed yet, or members of its collective's process group.
// They wake it. In an unfolded program every collective meets by its group, including the exchange of a shared table.
// In a folded program a compute stream waits only for results of earlier compute. A rank that is never woken is
// therefore a deadlock of the program. Unfolded programs are also exact if the members of a data group act alike,
// which uniform plans guarantee.
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

/// Holds stand-alone durations by id. Every call refills it and reuses the memory.
class Durations {
 public:
  void fill(const Program& program, const cost::Costs& costs);
  [[nodiscard]] std::int64_t of(const Instruction& instruction) const {
    if (instruction.buckets > 1 && instruction.stream == Stream::compute) return of_bucket(instruction);
    return table_[first_[static_cast<std::size_t>(instruction.stream)] + static_cast<std::size_t>(instruction.id)];
  }
  /// Returns the time from the end of a send to the end of its receive.
  [[nodiscard]] std::int64_t delay(const Instruction& receive) const {
    return costs_->delays.empty() ? 0 : costs_->delays[receive.transfer()].count();
  }

 private:
  [[nodiscard]] std::int64_t of_bucket(const Instruction& instruction) const;
  std::vector<std::int64_t> table_;            // works, collectives, transfers
  std::array<std::size_t, kStreams> first_{};  // first entry of each stream
  const cost::Costs* costs_ = nullptr;
};

class Engine final : public NetworkModel {
 public:
  /// Times the whole program. Returns false on deadlock. `starts` are filled only with `record`.
  bool run(const Program& program, const cost::Costs& costs, bool record) override;

  [[nodiscard]] std::int64_t iteration_ns() const override { return iteration_; }
  [[nodiscard]] std::int64_t rank_end(std::size_t rank) const override { return ranks_[rank].end_time; }
  [[nodiscard]] const std::vector<std::int64_t>& starts() const override { return starts_; }
  [[nodiscard]] const std::vector<std::int64_t>& ends() const override { return ends_; }
  /// Returns, after a deadlock, the first instruction of `rank` that never started, or −1.
  [[nodiscard]] std::int32_t blocked(std::size_t rank) const override;

 private:
  /// Holds the running compute and data of one rank.
  struct Pair {
    std::int64_t clock = 0;                  ///< time up to which they were advanced
    double compute_left = 0, data_left = 0;  ///< stand-alone nanoseconds
    cost::MutualSlowdown slowdown;           ///< factors of the running collective
    bool compute_running = false, data_running = false;
  };
  struct Rank {
    std::array<std::int32_t, kStreams> head{};  ///< next instruction of each stream
    std::array<std::int64_t, kStreams> free{};  ///< end of the last one
    std::int32_t begin = 0, end = 0;
    /// The data head cannot start before this instruction has ended; −1: it may run, or it runs.
    std::int32_t data_gate = 0;
    std::int32_t awaited_send = -1;
    /// Compute and data run one after the other, as required by some collective of the rank.
    bool serial = false;
    bool arrived = false;     ///< has reached the meeting of its next collective
    bool at_meeting = false;  ///< stopped until the meeting is complete
    bool queued = false;
    Pair pair;
    std::int64_t end_time = 0;
  };
  /// Counts the members of a process group at one collective.
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
