// SPDX-License-Identifier: Apache-2.0
// How long the operators of a rank take, without the collectives inside them; and ranks that play a slower device than
// they are.
//
// A paced operator lasts what a made-up device would take for it: after the real arithmetic its rank sleeps. Several
// ranks then share the cores of one machine without slowing each other down, as long as all of their arithmetic fits
// beside what they sleep. What an operator overshoots is taken off the next ones, so that a step has the length of the
// made-up device. The device, for an operator of f operations and b bytes (read and written, four an element):
//
//     launch + max(f / flops, b / bandwidth), divided by the speed of the rank
//
// with f = 2·tokens·in·out of a linear, 4·tokens·keys·heads·head_dim of attention, both once more for the gradients of
// inputs (attention: twice) and of parameters; other operators move bytes only.
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
  double flops = 0;      ///< operations a second; 0: ranks are as fast as they are
  double bandwidth = 0;  ///< bytes a second
  double launch = 0;     ///< seconds of every operator
  double speed = 1;      ///< of this rank
  [[nodiscard]] bool plays() const { return flops > 0; }
  [[nodiscard]] double seconds(const profile::OperatorWork& work, Pass pass) const;
  /// The update of `elements` parameters in fp32: 32 bytes each.
  [[nodiscard]] double update_seconds(std::int64_t elements) const;
};

/// "flops=2e10,bandwidth=1e9,launch=1e-4,speed:3=0.5": as rank `rank`, for which speed:RANK counts. Empty: no pace.
Result<Pace> pace_from(const std::string& text, int rank);

/// One computation of an operator.
struct OperatorCall {
  profile::OperatorWork work;
  Pass pass = Pass::forward;
  std::int32_t layer = 0, number = 0;  ///< of the model; of the operator in the kind of its layer
};

class OperatorClock {
 public:
  /// `steps`: who else is told; null: nobody.
  explicit OperatorClock(const Pace& pace, StepClock* steps = nullptr) : pace_(pace), steps_(steps) {}

  /// Runs `body`, which spends `busy()` seconds so far in collectives.
  void run(const OperatorCall& call, const std::function<double()>& busy, const std::function<void()>& body);
  /// Runs `body`, which is all communication: between operators.
  void communicate(const std::function<void()>& body);
  /// Runs the update of `elements` parameters.
  void update(std::int64_t elements, const std::function<void()>& body);
  /// Forgets what was measured: the first step warms up.
  void restart();

  /// Medians of every work, in its order.
  [[nodiscard]] std::vector<profile::MeasuredTime> rows() const;
  [[nodiscard]] double operator_seconds() const { return all_; }
  [[nodiscard]] double update_seconds() const { return update_; }
  /// Of operator_seconds(): forward, repeated ones too, and for gradients. They go on over restart().
  [[nodiscard]] double forward_seconds() const { return forward_; }
  [[nodiscard]] double backward_seconds() const { return backward_; }
  /// Of the thread that computes: inside operators and between them.
  [[nodiscard]] double collective_seconds() const { return collectives_; }
  [[nodiscard]] StepClock* steps() const { return steps_; }
  [[nodiscard]] std::int64_t updated() const { return updated_; }
  /// Operators whose arithmetic alone took longer than the device that is played.
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
