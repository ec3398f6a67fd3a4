// SPDX-License-Identifier: Apache-2.0
// Times the operators of a rank without the collectives inside them. It also lets ranks emulate a slower device.
//
// A paced operator lasts as long as on a hypothetical device: after the real arithmetic its rank sleeps. Several
// ranks then share the cores of one machine without slowing each other down, as long as their total arithmetic fits
// into the sleep of the others. An overrun of an operator is taken off the next ones, so that a step has the length
// of the hypothetical device. An operator of f operations and b bytes (read and written, four per element) takes
//
//     launch + max(f / flops, b / bandwidth), divided by the speed of the rank.
//
// A linear has f = 2·tokens·in·out, attention 4·tokens·keys·heads·head_dim. Both count once more for the gradients of
// inputs (attention: twice) and of parameters. Other operators move bytes only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "espalier/measured_step.h"
#include "espalier/result.h"
#include "profile/measured_operators.h"

namespace espalier::runtime {

using Pass = OperatorPass;
class StepClock;

struct Pace {
  double flops = 0;      ///< operations per second; 0: ranks are as fast as they are
  double bandwidth = 0;  ///< bytes per second
  double launch = 0;     ///< seconds of every operator
  double speed = 1;      ///< speed of this rank
  [[nodiscard]] bool plays() const { return flops > 0; }
  [[nodiscard]] double seconds(const profile::OperatorWork& work, Pass pass) const;
  /// Returns the seconds of an update of `elements` parameters in fp32, 32 bytes each.
  [[nodiscard]] double update_seconds(std::int64_t elements) const;
};

/// Parses "flops=2e10,bandwidth=1e9,launch=1e-4,speed:3=0.5" for rank `rank`, to which speed:RANK applies. An empty
/// text sets no pace.
Result<Pace> pace_from(const std::string& text, int rank);

/// Describes one computation of an operator.
struct OperatorCall {
  profile::OperatorWork work;
  Pass pass = Pass::forward;
  std::int32_t layer = 0, number = 0;  ///< layer in the model; operator in its layer kind
};

class OperatorClock {
 public:
  /// `steps` also receives the times. Null means that only this clock keeps them.
  explicit OperatorClock(const Pace& pace, StepClock* steps = nullptr) : pace_(pace), steps_(steps) {}

  /// Runs `body`. `busy()` returns the seconds that it has spent in collectives so far.
  void run(const OperatorCall& call, const std::function<double()>& busy, const std::function<void()>& body);
  /// Runs `body`, which is communication between operators.
  void communicate(const std::function<void()>& body);
  /// Runs the update of `elements` parameters.
  void update(std::int64_t elements, const std::function<void()>& body);
  /// Drops all measurements, because the first step warms up.
  void restart();

  /// Returns the medians of every work, in its order.
  [[nodiscard]] std::vector<profile::MeasuredTime> rows() const;
  [[nodiscard]] double operator_seconds() const { return all_; }
  [[nodiscard]] double update_seconds() const { return update_; }
  /// Split operator_seconds() into forward, including repeated forwards, and gradients. restart() does not reset
  /// them.
  [[nodiscard]] double forward_seconds() const { return forward_; }
  [[nodiscard]] double backward_seconds() const { return backward_; }
  /// Returns the collective time of the computing thread, inside operators and between them.
  [[nodiscard]] double collective_seconds() const { return collectives_; }
  [[nodiscard]] StepClock* steps() const { return steps_; }
  [[nodiscard]] std::int64_t updated() const { return updated_; }
  /// Returns the number of operators whose arithmetic alone took longer than the emulated device.
  [[nodiscard]] std::int64_t late() const { return late_; }

 private:
  using Clock = std::chrono::steady_clock;
  double paced(double own, double target);

  struct Times {
    std::vector<float> forward, input, weight;
  };
  struct Order {
    bool operator()(const profile::OperatorWork& a, const profile::OperatorWork& b) const {
      return a.shape != b.shape ? a.shape < b.shape : a.tokens < b.tokens;
    }
  };
  Pace pace_;
  StepClock* steps_;
  std::map<profile::OperatorWork, Times, Order> times_;
  double all_ = 0, update_ = 0, owed_ = 0, collectives_ = 0, forward_ = 0, backward_ = 0;
  std::int64_t updated_ = 0, late_ = 0;
};

}  // namespace espalier::runtime
