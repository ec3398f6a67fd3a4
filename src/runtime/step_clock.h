// SPDX-License-Identifier: Apache-2.0
// Records when every instruction of a rank's list ran, step by step. It is the measured side of a timeline
// (espalier/measured_step.h).
//
// Computations begin and end on one thread, tasks of the queue on another. Each has its own rows, so that nothing is
// locked. The last kKept steps are kept, and the one of median length is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "espalier/measured_step.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

class StepClock {
 public:
  static constexpr std::size_t kKept = 64;

  /// Records a list of `instructions` instructions of this device.
  StepClock(std::int64_t device, std::size_t instructions) : device_(device), instructions_(instructions) {}

  /// Begins training step `number`, from 0.
  void begin_step(std::int64_t number);
  void end_step();
  /// Drops all steps, because the first one warms up.
  void restart() { steps_.clear(); }
  /// Marks the beginning of row `row`. A second call replaces the first.
  void begin(std::size_t row);
  void end(std::size_t row);
  [[nodiscard]] bool ended(std::size_t row) const { return steps_.back().rows[row].end_ns != 0; }
  /// Records the time that row `row` spent in operators and in collectives.
  void inside(std::size_t row, double operators_s, double collectives_s);
  /// Records a wait before row `row`, which is a computation.
  void waited(std::size_t row, double seconds);
  /// Marks whether the following operators repeat a computation whose results were dropped.
  void repeats(bool on) { repeats_ = on; }
  void ran(std::int32_t layer, std::int32_t number, OperatorPass pass, double seconds);

  /// Writes the step. Every rank of `world` calls this; rank 0 writes. Null means one rank.
  Status write(const std::string& path, const std::string& plan, Communicator* world) const;

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, OperatorPass, bool>;
  struct Step {
    std::int64_t number = 0;
    std::int64_t begin = 0, end = 0;  ///< nanoseconds of this rank's steady clock
    std::vector<MeasuredInstruction> rows;
    std::map<Key, MeasuredOperator> operators;
  };
  [[nodiscard]] std::size_t median_step() const;
  [[nodiscard]] std::vector<std::int64_t> packed(const Step& step) const;
  [[nodiscard]] MeasuredRank unpacked(const std::vector<std::int64_t>& numbers, std::int64_t ahead, std::int64_t origin) const;

  std::int64_t device_;
  std::size_t instructions_;
  bool repeats_ = false;
  std::vector<Step> steps_;
};

}  // namespace espalier::runtime
