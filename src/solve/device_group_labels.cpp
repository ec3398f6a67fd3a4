// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_labels.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "solve/device_group_level.h"

namespace espalier::solve::device_groups {
namespace {

constexpr std::int64_t kLabelsBetweenPolls = 256;

class LabelPass {
 public:
  LabelPass(const StageTables& tables, StageFronts& fronts, const StageCountLimits& limits, const PassLimits& pass,
            DeviceGroupsCounters& counters)
      : tables_(tables), fronts_(fronts), limits_(limits), pass_(pass), counters_(counters), limit_(pass.limit), level_(tables) {}

  PassResult run() {
    ++counters_.passes;
    ChainLabel end;
    end.code = tables_.codes() - 1;
    end.first = static_cast<std::int16_t>(tables_.layers());
    kept_.push_back(end);
    std::size_t begin = 0;
    for (std::int32_t stages = 1; stages <= limits_.count().most && begin < kept_.size() && !over_budget_; ++stages) {
      const std::size_t behind = kept_.size();
      if (pass_.merged > 0)
        level_.merge(pass_.limit / 1'000'000 * pass_.merged, InFlight(tables_.microbatches(), tables_.in_flight(stages + 1)));
      for (std::size_t i = begin; i < behind && !over_budget_; ++i)
        if (kept_[i].first > 0) extend(static_cast<std::int32_t>(i), stages);
      begin = behind;
      keep();
    }
    if (over_budget_) result_.complete = false;
    collect();
    return std::move(result_);
  }

 private:
  void extend(std::int32_t parent, std::int32_t stages) {
    const ChainLabel from = kept_[parent];
    if (++extended_ % kLabelsBetweenPolls == 0 && pass_.stop != nullptr && *pass_.stop && (*pass_.stop)()) over_budget_ = true;
    if (from.least > limit_ || from.soonest > limit_) return;
    free_.clear();
    worth_.assign(limits_.prices().size(), 0);
    for (std::size_t k = 0; k < tables_.units().size(); ++k) {
      free_.push_back(from.code / tables_.strides()[k] % (tables_.units()[k] + 1));
      for (std::size_t i = 0; i < worth_.size(); ++i) worth_[i] += free_[k] * limits_.prices()[i].of_unit()[k];
    }
    for (std::size_t s = 0; s < tables_.shapes().size(); ++s) {
      const Shape& shape = tables_.shapes()[s];
      if (shape.units > free_[shape.kind]) continue;
      Range begins = limits_.ranges().begins(stages - 1, s, from.first);
      begins.last = std::min(begins.last, static_cast<std::int16_t>(limits_.room(stages, from.code - shape.code)));
      if (stages < limits_.count().least) begins.first = std::max<std::int16_t>(begins.first, 1);
      if (tables_.all_units()) begins = those_that_use_up(begins, from.code - shape.code, stages);
      if (begins.first > begins.last) {
        ++counters_.no_room;
        continue;
      }
      left_ = worth_;
      for (std::size_t i = 0; i < left_.size(); ++i) left_[i] -= shape.units * limits_.prices()[i].of_unit()[shape.kind];
      put_in_front(parent, from, stages, s, begins);
    }
  }

  /// Keeps the first layers with which the stages in front can take all free units of the code. This gets easier with
  /// more remaining layers.
  [[nodiscard]] Range those_that_use_up(Range begins, std::int64_t code, std::int32_t stages) const {
    const std::int32_t more = limits_.count().most - stages;
    if (code == 0) begins.last = std::min<std::int16_t>(begins.last, 0);
    while (begins.first <= begins.last && !tables_.can_use_up(code, begins.first, more)) ++begins.first;
    return begins;
  }

  /// Returns a lower bound of X with a stage in front.
  static std::int64_t soonest_with(const Front& front, const ChainLabel& from, const InFlight& at) {
    return std::max(at.m * front.work(), front.work() + from.tail.span);
  }

  /// Puts all ranges of layers and options of a shape in front of `from`, starting with the fewest layers.
  void put_in_front(std::int32_t parent, const ChainLabel& from, std::int32_t stages, std::size_t s, Range begins) {
    const Shape& shape = tables_.shapes()[s];
    const InFlight at(tables_.microbatches(), tables_.in_flight(stages));
    ChainLabel label;
    label.parent = parent;
    label.kind = static_cast<std::int16_t>(shape.kind);
    label.code = from.code - shape.code;
    const std::vector<std::int64_t>& counted = counted_work(label.code);
    for (std::int16_t a = begins.last; a >= begins.first; --a) {
      const std::span<const Front> all = fronts_.of(at.k, s, tables_.runs().of(a, from.first));
      if (all.empty()) continue;
      std::int64_t work = 0, before = tables_.least_end();
      if (a > 0 && tables_.uses(GroupRule::work)) {
        before = std::max(before, counted[static_cast<std::size_t>(a)]);
        if (soonest_with(all.front(), from, at) + before <= limit_) {  // otherwise it is too late already
          work = limits_.least_work(stages, a, shape.kind, left_);
          before = std::max(before, work + tables_.least_end());
        }
      }
      for (const Front& front : all) {
        ++counters_.tried;
        StageTime time = front.time;
        const std::int64_t soonest = soonest_with(front, from, at);
        if (soonest + before > limit_) {
          ++counters_.too_late;
          // More layers only take longer.
          if (&front == &all.front() && soonest + tables_.least_end() > limit_) return;
          break;  // more work only takes longer
        }
        time.down = from.kind < 0 ? 0 : tables_.port_send(front.port, from.port);
        time.up = from.kind < 0 ? 0 : tables_.port_send(from.port, front.port);
        label.tail = in_front(time, from.tail, at);
        label.option = front.option;
        label.port = front.port;
        label.first = a;
        label.least = label.tail.span + before;
        label.soonest = std::max({label.tail.whole, label.tail.finish + work / 1000 * tables_.forward_permille(),
                                  label.tail.ended + work / 1000 * tables_.backward_permille() + tables_.least_end()});
        add(label);
      }
    }
  }

  const std::vector<std::int64_t>& counted_work(std::int64_t code) {
    const auto [found, added] = counted_.try_emplace(code);
    if (added) found->second = limits_.counted_work(code);
    return found->second;
  }

  void add(const ChainLabel& label) {
    if (label.least > limit_ || label.soonest > limit_) {
      ++counters_.too_late;
      return;
    }
    if (!level_.insert(label)) {
      ++counters_.beaten;
      return;
    }
    if (label.first == 0) limit_ = std::min(limit_, label.tail.whole + label.tail.whole / 1000 * pass_.slack);
    if (static_cast<std::int64_t>(kept_.size() + level_.alive()) > pass_.states) over_budget_ = true;
  }

  /// Keeps the labels of this number of stages: all, or the most promising.
  void keep() {
    std::vector<ChainLabel> labels = level_.take();
    if (pass_.width > 0) thin_out(labels);
    counters_.states += static_cast<std::int64_t>(labels.size());
    kept_.insert(kept_.end(), labels.begin(), labels.end());
  }

  /// Keeps the most promising of the labels with the same first layer. They cover as many layers, and only their cost
  /// differs.
  void thin_out(std::vector<ChainLabel>& labels) {
    std::stable_sort(labels.begin(), labels.end(), [](const ChainLabel& a, const ChainLabel& b) {
      return a.first != b.first ? a.first < b.first : a.least < b.least;
    });
    std::size_t kept = 0, same = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      same = i > 0 && labels[i].first == labels[i - 1].first ? same + 1 : 0;
      if (same >= pass_.width) continue;
      const ChainLabel label = labels[i];
      labels[kept++] = label;
    }
    if (kept < labels.size()) result_.complete = false;
    labels.resize(kept);
  }

  void collect() {
    result_.none_below = limit_ + 1;
    for (const ChainLabel& label : kept_) {
      if (label.first > 0 || label.tail.whole > limit_) continue;
      if (pass_.merged > 0) result_.none_below = std::min(result_.none_below, label.tail.whole);
      std::vector<GroupedStage> plan;
      for (const ChainLabel* at = &label; at->parent >= 0; at = &kept_[at->parent]) {
        const std::int32_t end = kept_[at->parent].first;
        plan.push_back({tables_.option(at->option).original, at->first, end - 1});
      }
      result_.plans.push_back(std::move(plan));
    }
  }

  const StageTables& tables_;
  StageFronts& fronts_;
  const StageCountLimits& limits_;
  const PassLimits pass_;
  DeviceGroupsCounters& counters_;
  std::int64_t limit_;
  bool over_budget_ = false;
  std::int64_t extended_ = 0;
  std::vector<std::int64_t> free_, worth_,
      left_;  ///< Free units of each kind, and the worth of these at the prices, with and without a stage.
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> counted_;  ///< by code
  Level level_;
  std::vector<ChainLabel> kept_;
  PassResult result_;
};

}  // namespace

PassResult search_labels(const StageTables& tables, StageFronts& fronts, const StageCountLimits& limits, const PassLimits& pass,
                         DeviceGroupsCounters& counters) {
  return LabelPass(tables, fronts, limits, pass, counters).run();
}

}  // namespace espalier::solve::device_groups
