// SPDX-License-Identifier: Apache-2.0
// Holds the tables that the parts of the device-group solver read: sums over ranges of layers, memory limits, and
// counts of units as one number. Internal to solve/device_group_chains.h, which defines the terms.
//
// Options that another of the same kind and units equals or beats in every figure are left out. Units of a kind are
// counted in the greatest common divisor of the units of its options. Free units are one number, a *code*: Σ_kind
// free·stride. Taking an option's units is then a subtraction, and at most `codes()` numbers exist. A *shape* is a
// kind and a number of units; options of one shape differ in how they use them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/division.h"
#include "solve/device_group_chains.h"
#include "solve/device_group_runs.h"

namespace espalier::solve::device_groups {

/// Means "not possible"; the sum of two does not overflow.
inline constexpr std::int64_t kNever = std::int64_t{1} << 61;

/// Holds the figures of the stages from some stage on, in the terms of device_group_chains.h.
struct Tail {
  std::int64_t span = 0, finish = 0;  ///< X, Y
  std::int64_t work = 0;              ///< Σ (w + d + r)
  std::int64_t stretched = 0;         ///< Σ (w + d + r + v)
  std::int64_t near = 0;              ///< w of the foremost stage
  std::int64_t near_two = 0;          ///< Σ (w + d + r) of the foremost two, without the sends behind the second
  std::int64_t ended = 0;             ///< Z
  std::int64_t whole = 0;             ///< bound of these stages alone
};

/// Holds the times of one stage; `down` and `up` are the sends to and from the stage behind it (d and r), `stretch`
/// is v.
struct StageTime {
  std::int64_t forward = 0, backward = 0, down = 0, up = 0, end = 0, begin = 0, stretch = 0;
};

/// Adds the effect of gathers and reductions in n parts to a stage whose other times are known; κ is in millionths.
inline void add_parts(StageTime& stage, std::int64_t gather, std::int64_t reduce, std::int64_t n, std::int64_t slowdown) {
  constexpr std::int64_t kOne = 1'000'000;
  const auto but_one = [&](std::int64_t all) { return all - all / n; };
  const double lost = 1.0 - static_cast<double>(kOne) / static_cast<double>(slowdown);
  const auto of_lost = [&](std::int64_t time) { return static_cast<std::int64_t>(static_cast<double>(time) * lost); };
  if (gather > 0) stage.begin = std::max(gather / n + of_lost(gather - ceil_div(gather, n)), gather - but_one(stage.forward));
  if (reduce <= 0) return;
  const auto stretched =
      static_cast<std::int64_t>(static_cast<double>(stage.backward) * static_cast<double>(slowdown - kOne) * 1e-6);
  const std::int64_t most = std::min(stretched, of_lost(reduce));
  stage.stretch = most - ceil_div(most, n);
  stage.end += std::max(reduce / n, reduce - but_one(stage.backward) - stage.stretch);
}

/// Holds the values that follow from a stage's number of stages behind. These are k of m micro-batches in flight, and
/// the number of rounds of 2, 3 and k micro-batches between the first backward and the last forward pass.
struct InFlight {
  InFlight(std::int64_t microbatches, std::int64_t in_flight)
      : m(microbatches), k(in_flight), between(std::max<std::int64_t>(0, microbatches - in_flight - 1)) {
    rounds_of_all = between / k;
    left_of_all = between % k;
  }
  std::int64_t m, k, between;
  std::int64_t rounds_of_all = 0, left_of_all = 0;
};

/// Returns G of a stage in front of `tail`. Trips of depth 0 take w, of depth 1 and 2 `two` and `three`, to the last
/// stage `all`.
inline std::int64_t own_span(const StageTime& stage, const Tail& tail, const InFlight& at) {
  const std::int64_t f = stage.forward, b = stage.backward, w = f + b, way = stage.down + stage.up, all = w + way + tail.work;
  const std::int64_t ending = w + way + tail.stretched;
  if (at.k >= at.m) return std::max({at.m * w, all + (at.k - 1) * b, ending + (at.k - 1) * f});
  std::int64_t first = std::max(all, w + (at.k - 1) * f), last = std::max(ending, w + (at.k - 1) * b);
  std::int64_t between = std::max(at.between * w, at.rounds_of_all * all + at.left_of_all * w);
  if (at.k >= 2) {
    const std::int64_t two = w + way + tail.near;
    first = std::max(first, two + (at.k - 2) * f);
    last = std::max(last, two + (at.k - 2) * b);
    between = std::max(between, at.between / 2 * two + at.between % 2 * w);
    if (at.k >= 3) {
      const std::int64_t three = w + way + tail.near_two;
      first = std::max(first, three + (at.k - 3) * f);
      last = std::max(last, three + (at.k - 3) * b);
      between = std::max(between, at.between / 3 * three + (at.between % 3 == 2 ? std::max(two, 2 * w) : at.between % 3 * w));
    }
  }
  return first + between + last;
}

/// Returns `tail` with a stage in front.
inline Tail in_front(const StageTime& stage, const Tail& tail, const InFlight& at) {
  const std::int64_t w = stage.forward + stage.backward, way = stage.down + stage.up;
  Tail result;
  result.near = w;
  result.near_two = w + way + tail.near;
  result.span = std::max(own_span(stage, tail, at), w + way + tail.span) + stage.stretch;
  result.finish = std::max(result.span + stage.end, stage.forward + stage.down + tail.finish);
  result.work = w + way + tail.work;
  result.stretched = w + way + tail.stretched + stage.stretch;
  result.ended = std::max(stage.begin + result.span, tail.ended + stage.up + stage.backward + stage.stretch);
  result.whole = std::max({tail.whole, stage.begin + result.finish, result.ended + stage.end});
  return result;
}

/// Gives the range of numbers of stages, both ends included.
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
  /// Returns whether stages of the options can add up to all units of each kind, as far as common divisors show. This
  /// matters only where plans must take every unit; otherwise it is true.
  [[nodiscard]] bool units_can_be_used() const { return units_can_be_used_; }
  [[nodiscard]] bool all_units() const { return all_units_; }
  /// Returns whether stages can still take the free units of a code, where plans must take every unit. There are at
  /// most `stages` of them over `layers` layers.
  [[nodiscard]] bool can_use_up(std::int64_t code, std::int32_t layers, std::int32_t stages) const {
    if (!all_units_ || code == 0) return true;
    if (layers < stages) stages = layers;
    for (std::size_t k = 0; k < units_.size(); ++k)
      if (const std::int64_t free = code / strides_[k] % (units_[k] + 1); free > 0)
        stages -= static_cast<std::int32_t>((free + most_of_stage_[k] - 1) / most_of_stage_[k]);
    return stages >= 0;
  }
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }
  [[nodiscard]] std::int64_t dropped() const { return dropped_; }
  [[nodiscard]] bool uses(GroupRule rule) const { return (without_ & static_cast<std::uint32_t>(rule)) == 0; }

  struct Option {
    std::int32_t original = 0;  ///< index into DeviceGroupsProblem::options
    std::int32_t kind = 0;
    std::int32_t port = 0;
    std::vector<std::int64_t> forward, backward, end, gather, reduce;  ///< [e] over layers [0, e)
    std::int64_t pass_forward = 0, pass_backward = 0, end_fixed = 0, slowdown = 0;
    std::int32_t parts = 1;
    /// [run] holds the most micro-batches that fit, limited to the possible number; 0: none.
    std::vector<std::int32_t> most_in_flight;
  };
  [[nodiscard]] const std::vector<Option>& options() const { return options_; }
  [[nodiscard]] const Option& option(std::int32_t o) const { return options_[static_cast<std::size_t>(o)]; }
  [[nodiscard]] const LayerRuns& runs() const { return runs_; }
  /// Returns the times of a run of layers, without sends.
  [[nodiscard]] StageTime time(const Option& option, std::int32_t run) const {
    const LayerRuns::Run& at = runs_.all()[static_cast<std::size_t>(run)];
    StageTime time;
    time.forward = option.pass_forward + option.forward[at.end] - option.forward[at.begin];
    time.backward = option.pass_backward + option.backward[at.end] - option.backward[at.begin];
    time.end = option.end_fixed + option.end[at.end] - option.end[at.begin];
    add_parts(time, option.gather[at.end] - option.gather[at.begin], option.reduce[at.end] - option.reduce[at.begin],
              std::min(option.parts, at.end - at.begin), option.slowdown);
    return time;
  }
  /// `send` returns the least time between any ports of two kinds, `port_send` that between two ports.
  [[nodiscard]] std::int64_t send(std::int32_t from, std::int32_t to) const { return send_[from * kinds() + to]; }
  [[nodiscard]] std::int64_t port_send(std::int32_t from, std::int32_t to) const { return port_send_[from * ports_ + to]; }
  /// Returns whether no message from or to port a takes longer than the same from or to port b.
  [[nodiscard]] bool no_worse_port(std::int32_t a, std::int32_t b) const { return a == b || better_port_[a * ports_ + b] != 0; }
  /// Returns the least share of the forward way in both ways, over stages and messages, in 1/1000.
  [[nodiscard]] std::int64_t forward_permille() const { return forward_permille_; }
  /// Returns the least share of the backward way in the same form.
  [[nodiscard]] std::int64_t backward_permille() const { return backward_permille_; }
  /// Returns the least `begin` and `end` together of a stage that begins with the first layer.
  [[nodiscard]] std::int64_t least_end() const { return least_end_; }
  /// Returns the least share of max(f, b) in w of any stage, in 1/1000. It is at least half, and more where every
  /// part of a stage takes longer backward than forward.
  [[nodiscard]] std::int64_t longer_permille() const { return longer_permille_; }
  /// Returns a bound that no plan exceeds. A chain of 1F1B passes each stage and message once per micro-batch, so G
  /// is at most m·Σ (w + d + r) + Σ v.
  [[nodiscard]] std::int64_t worst_bound() const;
  /// Returns the largest number of stages behind that the tables distinguish. Their last level holds for all larger
  /// numbers.
  [[nodiscard]] std::int32_t depth() const { return depth_; }
  [[nodiscard]] std::int64_t table_cells() const { return table_cells_; }
  /// Holds the least time of any option of a shape for layers [a, e), whether or not it fits; some option must fit.
  struct Least {
    std::int64_t step = 0;   ///< s + m·w + v + e
    std::int64_t begin = 0;  ///< s + v
    std::int64_t end = 0;    ///< v + e
    std::int64_t both = 0;   ///< s + v + e
    std::int64_t late = 0;   ///< w + v
    std::int64_t alone = 0;  ///< s + w + v + e
  };
  [[nodiscard]] const Least& least(std::size_t shape, std::int32_t a, std::int32_t e) const {
    return least_[shape * runs_.count() + static_cast<std::size_t>(runs_.of(a, e))];
  }
  /// Returns the least w of a run in the shape with `behind` stages behind, by [run]; kNever where no option fits.
  [[nodiscard]] const std::int64_t* least_work(std::int32_t behind, std::size_t shape) const {
    const std::size_t level = static_cast<std::size_t>(std::min(behind, memory_depth_));
    return &least_work_[(level * shapes_.size() + shape) * runs_.count()];
  }

 private:
  void count_most_of_stage();
  void count_units(const DeviceGroupsProblem& problem, const std::vector<std::int32_t>& kept);
  void fill_sends(const DeviceGroupsProblem& problem);
  void add_option(const DeviceGroupsProblem& problem, std::int32_t original);
  void fill_most_in_flight(const DeviceGroupsProblem& problem, const StageOption& from, Option& option) const;
  void fill_least_work();
  void fill_least();

  LayerRuns runs_;
  std::int32_t layers_ = 0, most_stages_ = 1, depth_ = 0, memory_depth_ = 0;
  std::int64_t microbatches_ = 1, table_cells_ = 0, codes_ = 1, dropped_ = 0, least_end_ = kNever, longer_permille_ = 1000;
  std::int64_t forward_permille_ = 1000, backward_permille_ = 1000;
  bool all_units_ = false, units_can_be_used_ = true;
  std::int32_t ports_ = 0;
  std::uint32_t without_ = 0;
  std::vector<std::int32_t> units_, divisor_;
  std::vector<std::int64_t> most_of_stage_;  ///< most units that one stage takes, by kind; at least 1
  std::vector<std::int64_t> strides_, send_, port_send_, least_work_;
  std::vector<std::uint8_t> better_port_;
  std::vector<Least> least_;
  std::vector<Shape> shapes_;
  std::vector<Option> options_;
};

}  // namespace espalier::solve::device_groups
