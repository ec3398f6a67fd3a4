// SPDX-License-Identifier: Apache-2.0
// What the parts of the device-group solver read of a problem: sums over ranges of layers, memory limits, counts of units as one
// number. Internal to solve/device_groups.h, which has the terms.
//
// Options that another of the same kind and units equals or beats in every figure are left out. Units of a kind are counted in the
// greatest common divisor of what its options take. Free units are one number, a *code*: Σ_kind free·stride, so that taking an
// option's units is a subtraction, and at most `codes()` numbers say all. A *shape* is a kind and a number of units; options of one
// shape differ in how they use them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "solve/device_groups.h"

namespace espalier::solve::device_groups {

/// Stands for "not possible"; two of them add up without overflow.
inline constexpr std::int64_t kNever = std::int64_t{1} << 61;

/// The stages from some stage on: X, Y, Σ (w + d + r) and the largest s + Y of device_groups.h.
struct Tail {
  std::int64_t span = 0, finish = 0, work = 0, whole = 0;
};

/// Of one stage; `down` and `up`: to and from the stage behind it (d and r).
struct StageTime {
  std::int64_t forward = 0, backward = 0, down = 0, up = 0, end = 0, begin = 0;
};

/// What a stage's number of stages behind says: k of m micro-batches in flight, ⌊(m − 1)/k⌋ trips.
struct InFlight {
  InFlight(std::int64_t microbatches, std::int64_t in_flight)
      : m(microbatches), k(in_flight), trips(in_flight < microbatches ? (microbatches - 1) / in_flight : 0) {}
  std::int64_t m, k, trips;
};

/// `tail` with a stage in front.
inline Tail in_front(const StageTime& stage, const Tail& tail, const InFlight& at) {
  const std::int64_t w = stage.forward + stage.backward, way = stage.down + stage.up, c = tail.work + way;
  std::int64_t own = std::max(at.m * w, c + (at.m - at.k + 1) * w + (at.k - 1) * std::max(stage.forward, stage.backward));
  if (at.trips > 0) {
    own = std::max(own, 2 * (w + c) + (at.m - 1 - at.k) * w);
    own = std::max(own, (at.trips + 1) * (w + c) + (at.m - 1 - at.trips * at.k) * w);
  }
  Tail result;
  result.span = std::max(own, w + way + tail.span);
  result.finish = std::max(result.span + stage.end, stage.forward + stage.down + tail.finish);
  result.work = w + c;
  result.whole = std::max(tail.whole, stage.begin + result.finish);
  return result;
}

/// Plans with so many stages, both included.
struct StageCount {
  std::int32_t least = 1, most = 1;
};

struct Shape {
  std::int32_t kind = 0, units = 1;  ///< counted in the kind's divisor
  std::int64_t code = 0;
  std::vector<std::int32_t> options;  ///< indices of StageTables::option
};

class StageTables {
 public:
  explicit StageTables(const DeviceGroupsProblem& problem);

  [[nodiscard]] std::int32_t layers() const { return layers_; }
  [[nodiscard]] std::int32_t kinds() const { return static_cast<std::int32_t>(units_.size()); }
  [[nodiscard]] std::int64_t microbatches() const { return microbatches_; }
  [[nodiscard]] std::int32_t most_stages() const { return most_stages_; }
  [[nodiscard]] std::int64_t in_flight(std::int32_t stages) const { return stages < microbatches_ ? stages : microbatches_; }

  [[nodiscard]] const std::vector<std::int32_t>& units() const { return units_; }
  [[nodiscard]] const std::vector<std::int64_t>& strides() const { return strides_; }
  [[nodiscard]] std::int64_t codes() const { return codes_; }
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }
  [[nodiscard]] std::int64_t dropped() const { return dropped_; }

  struct Option {
    std::int32_t original = 0;  ///< index into DeviceGroupsProblem::options
    std::int32_t kind = 0;
    std::int32_t port = 0;
    std::vector<std::int64_t> forward, backward, end, late_end, begin, late_begin;  ///< [e] over layers [0, e)
    std::int64_t pass_forward = 0, pass_backward = 0, end_fixed = 0, late_end_fixed = 0, late_begin_fixed = 0;
    std::vector<std::int32_t> first_that_fits;  ///< [(k − 1)·(layers + 1) + e]: least a such that layers [a, e) fit; e: none does
  };
  [[nodiscard]] const std::vector<Option>& options() const { return options_; }
  [[nodiscard]] const Option& option(std::int32_t o) const { return options_[static_cast<std::size_t>(o)]; }
  /// Of layers [a, e), without sends.
  [[nodiscard]] StageTime time(const Option& option, std::int32_t a, std::int32_t e) const {
    StageTime time;
    time.forward = option.pass_forward + option.forward[e] - option.forward[a];
    time.backward = option.pass_backward + option.backward[e] - option.backward[a];
    time.end = std::max(option.end_fixed + option.end[e] - option.end[a],
                        option.late_end_fixed + option.late_end[e] - option.late_end[a]);
    time.begin = std::max({std::int64_t{0}, option.begin[e] - option.begin[a],
                           option.late_begin_fixed + option.late_begin[e] - option.late_begin[a]});
    return time;
  }
  [[nodiscard]] std::int32_t first_that_fits(const Option& option, std::int64_t k, std::int32_t e) const {
    return option.first_that_fits[(k - 1) * (layers_ + 1) + e];
  }
  /// The least between any ports of two kinds, and between two ports.
  [[nodiscard]] std::int64_t send(std::int32_t from, std::int32_t to) const { return send_[from * kinds() + to]; }
  [[nodiscard]] std::int64_t port_send(std::int32_t from, std::int32_t to) const { return port_send_[from * ports_ + to]; }
  /// Whether no message from or to port a takes longer than the same from or to port b.
  [[nodiscard]] bool no_worse_port(std::int32_t a, std::int32_t b) const { return a == b || better_port_[a * ports_ + b] != 0; }
  /// Of stages and messages, the forward way is at least this share of both ways, in 1/1000.
  [[nodiscard]] std::int64_t forward_permille() const { return forward_permille_; }
  /// The least `begin` and `end` together of a stage that begins with the first layer.
  [[nodiscard]] std::int64_t least_end() const { return least_end_; }
  /// max(f, b) of any stage is at least this share of its w, in 1/1000: at least half, and more where all that a stage does takes
  /// longer backward than forward.
  [[nodiscard]] std::int64_t longer_permille() const { return longer_permille_; }
  /// No plan has a larger bound: every term of G is at most m·Σ (w + d + r).
  [[nodiscard]] std::int64_t worst_bound() const;
  /// Tables tell apart up to so many stages behind; with more, they say what holds for all of those.
  [[nodiscard]] std::int32_t depth() const { return depth_; }
  [[nodiscard]] std::int64_t table_cells() const { return table_cells_; }
  /// The least w of layers [a, e) in the shape with `behind` stages behind; kNever where no option fits. [e]
  [[nodiscard]] const std::int64_t* least_work(std::int32_t behind, std::size_t shape, std::int32_t a) const {
    const std::size_t side = static_cast<std::size_t>(layers_) + 1;
    const std::size_t level = static_cast<std::size_t>(std::min(behind, memory_depth_));
    return &least_work_[((level * shapes_.size() + shape) * side + static_cast<std::size_t>(a)) * side];
  }

 private:
  void count_units(const DeviceGroupsProblem& problem, const std::vector<std::int32_t>& kept);
  void fill_sends(const DeviceGroupsProblem& problem);
  void add_option(const DeviceGroupsProblem& problem, std::int32_t original);
  void fill_first_that_fits(const DeviceGroupsProblem& problem, const StageOption& from, Option& option) const;
  void fill_least_work();
  void add_least_work(const Option& option, std::int32_t behind, std::int64_t* least) const;

  std::int32_t layers_ = 0, most_stages_ = 1, depth_ = 0, memory_depth_ = 0;
  std::int64_t microbatches_ = 1, table_cells_ = 0, codes_ = 1, dropped_ = 0, least_end_ = kNever, longer_permille_ = 1000;
  std::int64_t forward_permille_ = 1000;
  std::int32_t ports_ = 0;
  std::vector<std::int32_t> units_, divisor_;
  std::vector<std::int64_t> strides_, send_, port_send_, least_work_;
  std::vector<std::uint8_t> better_port_;
  std::vector<Shape> shapes_;
  std::vector<Option> options_;
};

}  // namespace espalier::solve::device_groups
