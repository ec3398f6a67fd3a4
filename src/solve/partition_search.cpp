// SPDX-License-Identifier: Apache-2.0
#include "solve/partition_search.h"

#include <algorithm>

#include "base/infinity.h"
#include "base/invariant.h"

namespace espalier::solve {
namespace {

using base::kInfinity;
/// Relative difference up to which totals are equal: sums of the same values in another order. It is less than 1 for
/// integers below 2^46.
constexpr double kRounding = 64 * std::numeric_limits<double>::epsilon();

/// Holds the values of some consecutive stages: the label of a suffix, or the stages of a prefix.
struct SpanLabel {
  double sum = 0, top = 0, tail = 0;
};

/// Implements the arithmetic of one goal: joins, totals, floors.
class Arithmetic {
 public:
  Arithmetic(const BalanceProblem& problem, const PartitionTask& task)
      : goal_(task.goal),
        micro_(problem.microbatches),
        task_(task),
        message_(at(problem.stages), 0),
        floor_(at(problem.layers) + 1, 0) {
    for (std::size_t i = 0; i < problem.message.size() && i + 1 < at(problem.stages); ++i) message_[i] = problem.message[i];
    before_.push_back(0);
    for (const double message : message_) before_.push_back(before_.back() + message);
    for (std::size_t l = 0; l < problem.layer_floor.size(); ++l) floor_[l + 1] = floor_[l] + problem.layer_floor[l];
  }

  /// Returns A, which never falls with more layers; infinity: does not fit.
  [[nodiscard]] double cost(const StageValue* v) const {
    if (v == nullptr || v->steady > task_.steady_cap || v->peak > task_.peak_cap) return kInfinity;
    if (goal_ == PartitionGoal::steady) return v->steady;
    if (goal_ == PartitionGoal::peak) return static_cast<double>(v->peak);
    return micro_ * v->steady + v->tail;
  }
  /// Returns the least A of layers that were not queried yet.
  [[nodiscard]] double least_cost(std::int32_t first, std::int32_t end) const {
    if (goal_ == PartitionGoal::peak) return 0;
    return goal_ == PartitionGoal::steady ? floor(first, end) : micro_ * floor(first, end);
  }

  /// Returns the label after the last stage.
  [[nodiscard]] SpanLabel nothing() const { return {0, goal_ == PartitionGoal::bound ? -kInfinity : 0, 0}; }
  /// Joins stage i of steady time s, tail t and cost a with the label of the stages behind it.
  [[nodiscard]] SpanLabel join(std::int32_t i, double s, double t, double a, const SpanLabel& label) const {
    if (goal_ == PartitionGoal::bound) return {0, std::max(a, s + message_[at(i)] + label.top), 0};
    if (goal_ == PartitionGoal::published) return {label.sum + s, std::max(label.top, s), std::max(label.tail, t)};
    return {0, std::max(a, label.top), 0};
  }
  /// Appends stage i to a prefix.
  [[nodiscard]] SpanLabel extend(const SpanLabel& prefix, std::int32_t i, double s, double t, double a) const {
    if (goal_ == PartitionGoal::bound) return {prefix.sum + s + message_[at(i)], std::max(prefix.top, prefix.sum + a), 0};
    return join(i, s, t, a, prefix);
  }
  /// Returns the value of all stages: those before and those of the label.
  [[nodiscard]] double total(const SpanLabel& prefix, const SpanLabel& label) const {
    if (goal_ == PartitionGoal::bound) return std::max(prefix.top, prefix.sum + label.top);
    if (goal_ == PartitionGoal::published) {
      return prefix.sum + label.sum + (micro_ - 1) * std::max(prefix.top, label.top) + std::max(prefix.tail, label.tail);
    }
    return std::max(prefix.top, label.top);
  }

  /// Returns a label that no stages 0 … i−1 on layers [0, f) beat.
  [[nodiscard]] SpanLabel least_prefix(std::int32_t i, std::int32_t f) const {
    if (goal_ == PartitionGoal::bound) return {before_[at(i)] + floor(0, f), 0, 0};
    if (goal_ == PartitionGoal::published) return {floor(0, f), i == 0 ? 0 : floor(0, f) / i, 0};
    return {};
  }
  /// Returns a label that is no worse than any join of stage i on [f, e), whose cost is at least `a`, with this
  /// label.
  [[nodiscard]] SpanLabel least_join(std::int32_t i, std::int32_t f, std::int32_t e, double a, const SpanLabel& label) const {
    return join(i, floor(f, e), 0, a, label);
  }
  /// Returns a lower bound of the totals of partitions with stage i on [f, e), whose cost is at least `a`, after
  /// `prefix` and before `label`.
  [[nodiscard]] double least_total(const SpanLabel& prefix, const SpanLabel& least, double a, const SpanLabel& label) const {
    const double value = total(prefix, least);
    // Published: Σ s + (m − 1)·max s + max t ≥ (sums of the others) + m·s_i + t_i.
    return goal_ == PartitionGoal::published ? std::max(value, prefix.sum + label.sum + a) : value;
  }
  /// Returns whether a stage i of cost `a` rules out every partition within the limit. It stays true for larger `a`.
  [[nodiscard]] bool hopeless(std::int32_t i, double a) const {
    if (!(a < kInfinity)) return true;
    if (goal_ == PartitionGoal::bound) return before_[at(i)] + a > task_.limit;
    // Published: T ≥ F + A − s_i with F the floor of all layers, and s_i ≤ A/m.
    if (goal_ == PartitionGoal::published) return a * (micro_ - 1) > (task_.limit - floor_.back()) * micro_ || a > task_.limit;
    return a > task_.limit;
  }
  [[nodiscard]] bool beyond(double total) const { return total > task_.limit || !(total < kInfinity); }

  /// Returns whether no earlier stages can make b better than a.
  [[nodiscard]] bool as_good(const SpanLabel& a, const SpanLabel& b) const {
    if (goal_ != PartitionGoal::published) return a.top <= b.top;
    return a.sum - b.sum + (micro_ - 1) * std::max(0.0, a.top - b.top) + std::max(0.0, a.tail - b.tail) <= 0;
  }

 private:
  [[nodiscard]] double floor(std::int32_t first, std::int32_t end) const { return floor_[at(end)] - floor_[at(first)]; }

  PartitionGoal goal_;
  double micro_;
  PartitionTask task_;
  std::vector<double> message_, before_;  ///< by boundary; Σ before stage i
  std::vector<double> floor_;             ///< prefix sums of layer_floor
};

class StagePartitionSearch {
 public:
  StagePartitionSearch(const BalanceProblem& problem, StageMemo& memo, const PartitionTask& task)
      : layers_(problem.layers), stages_(problem.stages), memo_(memo), math_(problem, task) {}

  std::vector<std::int32_t> run() {
    if (stages_ > layers_ || !find_latest_starts()) return {};
    labels_.assign(at(stages_) + 1, std::vector<std::vector<SpanLabel>>(at(layers_) + 1));
    labels_[at(stages_)][at(layers_)].push_back(math_.nothing());
    for (std::int32_t i = stages_ - 1; i >= 0; --i) fill_stage(i);
    return labels_[0][0].empty() ? std::vector<std::int32_t>{} : smallest_best();
  }

 private:
  [[nodiscard]] double ask(std::int32_t i, std::int32_t f, std::int32_t e) { return math_.cost(memo_.ask(i, f, e)); }
  /// Returns the last end of stage i that leaves a layer to each later stage.
  [[nodiscard]] std::int32_t last_end(std::int32_t i) const { return layers_ - (stages_ - 1 - i); }
  [[nodiscard]] bool possible(std::int32_t i, std::int32_t f, std::int32_t e) {
    return !math_.hopeless(i, math_.least_cost(f, e)) && !math_.hopeless(i, ask(i, f, e));
  }

  /// Fills latest_: no partition within the limit starts stage i after latest_[i], because the stages before would
  /// hold too much. Returns false if there is no partition.
  bool find_latest_starts() {
    latest_.assign(at(stages_) + 1, 0);
    for (std::int32_t i = 0; i < stages_; ++i) {
      std::int32_t f = latest_[at(i)];
      while (f >= i && !possible(i, f, f + 1)) --f;  // a layer that does not fit alone: the stage ends before it
      if (f < i) return false;
      latest_[at(i + 1)] = farthest_end(i, f);
    }
    return latest_.back() == layers_;
  }
  /// Returns the largest possible end from f, which is at least f + 1. It gallops, then bisects.
  std::int32_t farthest_end(std::int32_t i, std::int32_t f) {
    std::int32_t low = f + 1, high = last_end(i) + 1, step = 1;
    while (low + step < high) {
      if (!possible(i, f, low + step)) {
        high = low + step;
        break;
      }
      low += step;
      step *= 2;
    }
    while (high - low > 1) {
      const std::int32_t middle = low + (high - low) / 2;
      (possible(i, f, middle) ? low : high) = middle;
    }
    return low;
  }

  /// Fills the labels of stage i for all its first layers, the last first: floors of the cost carry over to earlier
  /// ones.
  void fill_stage(std::int32_t i) {
    floor_.assign(at(layers_) + 1, 0);
    for (std::int32_t f = latest_[at(i)]; f >= i; --f) {
      const std::int32_t last = std::min(last_end(i), latest_[at(i + 1)]);
      for (std::int32_t e = f + 1; e <= last; ++e) {
        double& a = floor_[at(e)];
        a = std::max(a, math_.least_cost(f, e));
        if (e > f + 1) a = std::max(a, floor_[at(e - 1)]);
        if (memo_.known(i, f, e)) a = std::max(a, ask(i, f, e));
      }
      fill_labels(i, f, last);
    }
  }

  /// Queries the ends in the order of the total they could give, and keeps the labels that count.
  void fill_labels(std::int32_t i, std::int32_t f, std::int32_t last) {
    std::vector<SpanLabel>& set = labels_[at(i)][at(f)];
    promise_.assign(at(layers_) + 1, kInfinity);
    for (std::int32_t e = f + 1; e <= last; ++e) promise_[at(e)] = promise(i, f, e, set);
    while (true) {
      const auto best = std::min_element(promise_.begin(), promise_.end());
      if (!(*best < kInfinity)) return;
      const auto e = static_cast<std::int32_t>(best - promise_.begin());
      const double now = promise(i, f, e, set);  // floors and labels have changed since
      if (now > *best) {
        *best = now;
        continue;
      }
      *best = kInfinity;
      const StageValue* v = memo_.ask(i, f, e);
      const double a = math_.cost(v);
      for (std::int32_t later = e; later <= last && floor_[at(later)] < a; ++later) floor_[at(later)] = a;
      if (a < kInfinity) add_labels(i, f, *v, a, labels_[at(i + 1)][at(e)], set);
    }
  }
  void add_labels(std::int32_t i, std::int32_t f, const StageValue& v, double a, const std::vector<SpanLabel>& next,
                  std::vector<SpanLabel>& set) {
    const SpanLabel prefix = math_.least_prefix(i, f);
    for (const SpanLabel& after : next) {
      const SpanLabel label = math_.join(i, v.steady, v.tail, a, after);
      if (math_.beyond(math_.least_total(prefix, label, a, after)) || needless(label, set)) continue;
      // Only a label of no larger sum can be as good as another.
      const auto place =
          std::lower_bound(set.begin(), set.end(), label.sum, [](const SpanLabel& l, double sum) { return l.sum < sum; });
      const auto worse = [&](const SpanLabel& old) { return math_.as_good(label, old); };
      const auto position = place - set.begin();
      set.erase(std::remove_if(place, set.end(), worse), set.end());
      set.insert(set.begin() + position, label);
    }
  }
  /// Returns whether some label of `set` is as good; `set` rises in sum.
  [[nodiscard]] bool needless(const SpanLabel& label, const std::vector<SpanLabel>& set) const {
    for (const SpanLabel& other : set) {
      if (other.sum > label.sum) return false;
      if (math_.as_good(other, label)) return true;
    }
    return false;
  }
  /// Returns the least total that stage i on [f, e) could give; infinity if it can give no label that counts.
  [[nodiscard]] double promise(std::int32_t i, std::int32_t f, std::int32_t e, const std::vector<SpanLabel>& set) const {
    double least = kInfinity;
    const double a = floor_[at(e)];
    if (!(a < kInfinity)) return least;
    const SpanLabel prefix = math_.least_prefix(i, f);
    bool counts = false;
    for (const SpanLabel& after : labels_[at(i + 1)][at(e)]) {
      const SpanLabel label = math_.least_join(i, f, e, a, after);
      const double total = math_.least_total(prefix, label, a, after);
      if (math_.beyond(total)) continue;
      least = std::min(least, total);
      counts = counts || !needless(label, set);
    }
    return counts ? least : kInfinity;
  }

  /// Chooses, from the first stage on, the smallest end that still reaches the best total. Where rounding allows
  /// none, it takes the nearest one.
  std::vector<std::int32_t> smallest_best() {
    SpanLabel prefix;
    double best = kInfinity;
    for (const SpanLabel& label : labels_[0][0]) best = std::min(best, math_.total(prefix, label));
    std::vector<std::int32_t> firsts;
    for (std::int32_t i = 0, f = 0; i < stages_; ++i) {
      firsts.push_back(f);
      std::int32_t end = smallest_end(i, f, prefix, best + best * kRounding);
      if (end == 0) end = smallest_end(i, f, prefix, kInfinity);
      ESPALIER_CHECK(end != 0);
      const StageValue* v = memo_.ask(i, f, end);
      prefix = math_.extend(prefix, i, v->steady, v->tail, math_.cost(v));
      f = end;
    }
    return firsts;
  }
  /// Returns the first end with a total of at most `enough`, or the end with the least total if that is infinite; 0:
  /// none.
  std::int32_t smallest_end(std::int32_t i, std::int32_t f, const SpanLabel& prefix, double enough) {
    double nearest = enough;
    std::int32_t found = 0;
    for (std::int32_t e = f + 1; e <= last_end(i); ++e) {
      const std::vector<SpanLabel>& next = labels_[at(i + 1)][at(e)];
      double possible = kInfinity;
      const double floor = math_.least_cost(f, e);
      for (const SpanLabel& after : next) {
        possible = std::min(possible, math_.least_total(prefix, math_.least_join(i, f, e, floor, after), floor, after));
      }
      if (next.empty() || possible > nearest) continue;
      const StageValue* v = memo_.ask(i, f, e);
      const double a = math_.cost(v);
      if (!(a < kInfinity)) continue;
      const SpanLabel extended = math_.extend(prefix, i, v->steady, v->tail, a);
      double total = kInfinity;
      for (const SpanLabel& after : next) total = std::min(total, math_.total(extended, after));
      if (total <= enough && enough < kInfinity) return e;
      if (total < nearest) {
        nearest = total;
        found = e;
      }
    }
    return found;
  }

  std::int32_t layers_, stages_;
  StageMemo& memo_;
  Arithmetic math_;
  std::vector<std::int32_t> latest_;
  std::vector<std::vector<std::vector<SpanLabel>>> labels_;  ///< [stage][first layer]
  std::vector<double> floor_;                                ///< [end] cost of the current stage from the current first layer
  std::vector<double> promise_;                              ///< [end] see promise(); infinite once queried
};

}  // namespace

std::vector<std::int32_t> search_partition(const BalanceProblem& problem, StageMemo& memo, const PartitionTask& task) {
  return StagePartitionSearch(problem, memo, task).run();
}

}  // namespace espalier::solve
