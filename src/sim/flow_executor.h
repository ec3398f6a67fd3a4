// SPDX-License-Identifier: Apache-2.0
// The network model in which everything in flight shares the links: runs a folded program beside a flow network, in one
// order of events.
//
// Streams, waits and matching are the engine's (engine.h), and so is what compute and data of a rank do to each other
// (κ, and one after the other where κ is strong). An instruction makes its nominal nanoseconds, at rate 1 or 1/κ; its
// pieces (program_traffic.h) become activities of the flow network when it comes to their offsets. An activity that has
// not ended when its piece is due holds the instruction up until it has: an instruction ends at start + what it takes
// in the closed form + the time for which its pieces held it up. So a message that sharing stretches delays by as much
// as it is late, traffic beside compute only by what is later than the end of that compute, and a program whose pieces
// share nothing takes the closed form's time to the nanosecond.
//
// A message over a long way arrives its delay (Costs::delays) after its bytes have left. A reduction between pipelines
// starts when all rank classes that meet in it are there; its traffic stands with the first of them
// (program_traffic.h), and none ends before that one.
//
// Where κ > 1, moments inside compute and data are real numbers that are rounded down: two of them can be a nanosecond
// nearer to each other than the piece between them is long. Pieces there are activities of a nanosecond less.
//
// Moments are whole nanoseconds. At one moment everything that ends ends first, then compute, sends and receives start,
// and collectives last (compute goes before data when both could start), again until nothing changes; then time moves
// on.
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

/// For one run of one program.
class FlowExecutor final : public NetworkModel {
 public:
  FlowExecutor(FlowNetwork network, ProgramTraffic traffic);
  /// Needs a folded program.
  bool run(const Program& program, const cost::Costs& costs, bool record) override;

  [[nodiscard]] std::int64_t iteration_ns() const override { return iteration_; }
  [[nodiscard]] std::int64_t rank_end(std::size_t rank) const override;
  [[nodiscard]] const std::vector<std::int64_t>& starts() const override { return starts_; }
  [[nodiscard]] const std::vector<std::int64_t>& ends() const override { return ends_; }
  [[nodiscard]] std::int32_t blocked(std::size_t rank) const override;
  [[nodiscard]] const FlowNetwork& network() const { return network_; }

 private:
  /// A piece under way.
  struct InFlight {
    ActivityId activity = 0;
    double due_left = 0;  ///< ns of the instruction that are left when it is due
  };
  /// An instruction under way.
  struct Running {
    std::int32_t instruction = -1;  ///< −1: none
    std::int64_t clock = 0;         ///< `left` is that of this moment
    std::int64_t total = 0;
    double left = 0;       ///< nominal ns
    bool held_up = false;  ///< by a piece that is due
    Pieces cut;            ///< of a bucket
    const Pieces* pieces = nullptr;
    std::size_t next_piece = 0;
    std::vector<InFlight> in_flight;
    [[nodiscard]] bool on() const { return instruction >= 0; }
  };
  struct Rank {
    std::int32_t end = 0;
    std::array<std::int32_t, kStreams> head{};
    std::array<std::int64_t, kStreams> free{};
    std::array<Running, kStreams> running;  ///< of recv never on: it ends with its send, or its delay after it
    cost::MutualSlowdown slowdown;          ///< of the collective that runs, or ran last
    bool serial = false;                    ///< compute and data one after the other
    bool stale = false;                     ///< to be looked at in this moment
  };
  using Timer = std::pair<std::int64_t, std::int32_t>;  ///< when, rank

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
