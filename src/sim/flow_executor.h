// SPDX-License-Identifier: Apache-2.0
// Implements the network model in which everything in flight shares the links. It runs a folded program together with
// a flow network, in one order of events.
//
// Streams, waits and matching are those of the engine (clock.h), and so is the interaction of compute and data of a
// rank (κ, and one after the other if κ is large). An instruction makes its nominal nanoseconds, at rate 1 or 1/κ.
// When it reaches the offset of a piece (program_traffic.h), the piece becomes an activity of the flow network.
//
// An activity that has not ended when its piece is due holds the instruction up until it has. An instruction ends at
// its start + its closed-form duration + the time for which its pieces held it up. A message that sharing stretches
// therefore delays by its full lateness. Traffic that overlaps compute delays only by the part after the end of that
// compute. A program whose pieces share nothing takes the closed form's time to the nanosecond.
//
// A message over a long path arrives its delay (Costs::delays) after its bytes have left. A reduction between
// pipelines starts when all rank classes that meet in it have arrived. Its traffic belongs to the first of them
// (program_traffic.h), and none ends before that one.
//
// If κ > 1, moments inside compute and data are real numbers that are rounded down. Two of them can then be a
// nanosecond closer than the piece between them is long. Such pieces are activities of a nanosecond less.
//
// Moments are whole nanoseconds. At one moment all endings come first, then compute, sends and receives start, and
// collectives last. If both could start, compute goes before data. This repeats until nothing changes; then time
// moves on.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "sim/clock.h"
#include "sim/network_model.h"
#include "sim/program_traffic.h"

namespace espalier::sim {

/// Runs one program once.
class FlowExecutor final : public NetworkModel {
 public:
  FlowExecutor(FlowNetwork network, ProgramTraffic traffic);
  /// Requires a folded program.
  bool run(const Program& program, const cost::Costs& costs, bool record) override;

  [[nodiscard]] std::int64_t iteration_ns() const override { return iteration_; }
  [[nodiscard]] std::int64_t rank_end(std::size_t rank) const override;
  [[nodiscard]] const std::vector<std::int64_t>& starts() const override { return starts_; }
  [[nodiscard]] const std::vector<std::int64_t>& ends() const override { return ends_; }
  [[nodiscard]] std::int32_t blocked(std::size_t rank) const override;
  [[nodiscard]] const FlowNetwork& network() const { return network_; }

 private:
  /// Describes a piece in flight.
  struct InFlight {
    ActivityId activity = 0;
    double due_left = 0;  ///< remaining ns of the instruction when the piece is due
  };
  /// Describes a running instruction.
  struct Running {
    std::int32_t instruction = -1;  ///< −1: none
    std::int64_t clock = 0;         ///< time to which `left` refers
    std::int64_t total = 0;
    double left = 0;       ///< nominal ns
    bool held_up = false;  ///< a due piece holds it up
    Pieces cut;            ///< pieces of a bucket
    const Pieces* pieces = nullptr;
    std::size_t next_piece = 0;
    std::vector<InFlight> in_flight;
    [[nodiscard]] bool on() const { return instruction >= 0; }
  };
  struct Rank {
    std::int32_t end = 0;
    std::array<std::int32_t, kStreams> head{};
    std::array<std::int64_t, kStreams> free{};
    /// Never holds a running recv: it ends with its send, or its delay after it.
    std::array<Running, kStreams> running;
    cost::MutualSlowdown slowdown;  ///< factors of the running, or last, collective
    bool serial = false;            ///< compute and data run one after the other
    bool stale = false;             ///< must be processed at this moment
  };
  using Timer = std::pair<std::int64_t, std::int32_t>;  ///< time, rank

  void prepare(const Program& program, const cost::Costs& costs);
  void leave_room_for_rounding();
  void settle();
  bool settle_rank(std::int32_t r);
  bool progress(std::int32_t r, Stream stream);
  void start_pieces(std::int32_t r, Stream stream);
  bool hold_up(Rank& rank, Stream stream);
  bool start_head(std::int32_t r, Stream stream);
  bool start_meeting(std::int32_t r);
  [[nodiscard]] bool can_start(const Rank& rank, Stream stream) const;
  [[nodiscard]] std::int64_t arrival(const Instruction& receive) const;
  [[nodiscard]] bool waits_for_first(std::int32_t r, const Running& running) const;
  bool receive(std::int32_t r);
  void start(std::int32_t r, Stream stream);
  void finish(std::int32_t r, Stream stream, std::int64_t at);
  void set_timers(std::int32_t r);
  void make_stale(std::int32_t r);
  void advance(Rank& rank, Stream stream) const;
  void advance_pair(Rank& rank) const;
  [[nodiscard]] const Pieces* pieces_of(std::int32_t r, const Instruction& instruction, Running& running) const;
  [[nodiscard]] double slowness(const Rank& rank, Stream stream) const;
  [[nodiscard]] std::int64_t moment(const Rank& rank, Stream stream, double left) const;
  [[nodiscard]] bool waits_over(const Rank& rank, const Instruction& instruction) const;
  [[nodiscard]] bool ended(std::int32_t i) const;
  [[nodiscard]] const Instruction& at(std::int32_t i) const { return program_->instructions[static_cast<std::size_t>(i)]; }
  Rank& rank_at(std::int32_t r) { return ranks_[static_cast<std::size_t>(r)]; }

  FlowNetwork network_;
  ProgramTraffic traffic_;
  const Program* program_ = nullptr;
  const cost::Costs* costs_ = nullptr;
  Durations durations_;
  std::int64_t now_ = 0, iteration_ = 0;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> owners_;  ///< rank of each activity
  std::vector<bool> over_;            ///< by activity
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<std::int32_t> stale_;
  std::vector<std::int64_t> starts_, ends_;
};

}  // namespace espalier::sim
