// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_labels.h"

#include <algorithm>
#include <utility>

namespace espalier::solve::device_groups {
namespace {

struct Label {
  Tail tail;
  std::int64_t code = 0;   ///< free units
  std::int64_t least = 0;  ///< X of the whole plan is not below it
  std::int32_t parent = -1, next = -1;
  std::int16_t option = -1, first = 0, kind = -1;
  bool beaten = false;
};

bool no_worse(const Tail& a, const Tail& b) { return a.span <= b.span && a.finish <= b.finish && a.work <= b.work; }

/// Labels of one number of stages, each chained to the others that differ only in their times.
class Level {
 public:
  explicit Level(std::int64_t layers, std::int64_t kinds) : layers_(layers), kinds_(kinds) { clear(); }

  void clear() {
    labels_.clear();
    alive_ = 0;
    heads_.assign(1024, -1);
  }
  [[nodiscard]] std::size_t alive() const { return alive_; }
  /// False when another is no worse.
  bool insert(const Label& label) {
    if (labels_.size() * 2 > heads_.size()) grow();
    std::int32_t* link = &heads_[place(label)];
    for (std::int32_t i = *link; i >= 0; i = labels_[i].next)
      if (no_worse(labels_[i].tail, label.tail)) return false;
    labels_.push_back(label);
    labels_.back().next = *link;
    *link = static_cast<std::int32_t>(labels_.size()) - 1;
    ++alive_;
    for (link = &labels_.back().next; *link >= 0;) {
      Label& other = labels_[*link];
      if (no_worse(label.tail, other.tail)) {
        other.beaten = true;
        *link = other.next;
        --alive_;
      } else {
        link = &other.next;
      }
    }
    return true;
  }
  /// Those that are left, in the order in which they came.
  [[nodiscard]] std::vector<Label> take() {
    std::vector<Label> result;
    for (const Label& label : labels_)
      if (!label.beaten) result.push_back(label);
    clear();
    return result;
  }

 private:
  [[nodiscard]] std::int64_t key(const Label& label) const {
    return (label.code * (layers_ + 1) + label.first) * kinds_ + label.kind;
  }
  /// Where the chain of the label's key begins, or an empty place for it: open addressing.
  [[nodiscard]] std::size_t place(const Label& label) const {
    const std::int64_t wanted = key(label);
    const std::size_t mask = heads_.size() - 1;
    std::uint64_t hash = static_cast<std::uint64_t>(wanted) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
    std::size_t at = static_cast<std::size_t>(hash) & mask;
    while (heads_[at] >= 0 && key(labels_[heads_[at]]) != wanted) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    const std::vector<std::int32_t> old = std::exchange(heads_, std::vector<std::int32_t>(heads_.size() * 2, -1));
    for (const std::int32_t head : old)
      if (head >= 0) heads_[place(labels_[head])] = head;
  }

  std::int64_t layers_, kinds_;
  std::size_t alive_ = 0;
  std::vector<Label> labels_;
  std::vector<std::int32_t> heads_;
};

class Pass {
 public:
  Pass(const StageTables& tables, const Limits& limits, const PassLimits& pass, DeviceGroupsCounters& counters)
      : tables_(tables),
        limits_(limits),
        pass_(pass),
        counters_(counters),
        limit_(pass.limit),
        level_(tables.layers(), tables.kinds()) {}

  PassResult run() {
    ++counters_.passes;
    Label end;
    end.code = tables_.codes() - 1;
    end.first = static_cast<std::int16_t>(tables_.layers());
    kept_.push_back(end);
    std::size_t begin = 0;
    for (std::int32_t stages = 1; stages <= limits_.count().most && begin < kept_.size() && !over_budget_; ++stages) {
      const std::size_t behind = kept_.size();
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
    const Label from = kept_[parent];
    if (from.least + tables_.least_end() > limit_) return;
    std::vector<std::int64_t> free;
    std::vector<std::int64_t> worth(limits_.prices().size(), 0);
    for (std::size_t k = 0; k < tables_.units().size(); ++k) {
      free.push_back(from.code / tables_.strides()[k] % (tables_.units()[k] + 1));
      for (std::size_t i = 0; i < worth.size(); ++i) worth[i] += free[k] * limits_.prices()[i].of_unit()[k];
    }
    for (std::size_t s = 0; s < tables_.shapes().size(); ++s) {
      const Shape& shape = tables_.shapes()[s];
      if (shape.units > free[shape.kind]) continue;
      Range begins = limits_.ranges().begins(stages - 1, s, from.first);
      begins.last = std::min(begins.last, static_cast<std::int16_t>(limits_.room(stages, from.code - shape.code)));
      if (stages < limits_.count().least) begins.first = std::max<std::int16_t>(begins.first, 1);
      if (begins.first > begins.last) {
        ++counters_.no_room;
        continue;
      }
      std::vector<std::int64_t> left = worth;
      for (std::size_t i = 0; i < left.size(); ++i) left[i] -= shape.units * limits_.prices()[i].of_unit()[shape.kind];
      for (const std::int32_t option : shape.options) put_in_front(parent, from, stages, shape, option, begins, left);
    }
  }

  /// All ranges of layers for the option in front of `from`, from the fewest on.
  void put_in_front(std::int32_t parent, const Label& from, std::int32_t stages, const Shape& shape, std::int32_t o, Range begins,
                    const std::vector<std::int64_t>& worth) {
    const StageTables::Option& option = tables_.option(o);
    const InFlight at(tables_.microbatches(), tables_.in_flight(stages));
    Label label;
    label.parent = parent;
    label.option = static_cast<std::int16_t>(o);
    label.kind = static_cast<std::int16_t>(shape.kind);
    label.code = from.code - shape.code;
    const std::int64_t down = from.kind < 0 ? 0 : tables_.send(shape.kind, from.kind);
    const std::int64_t up = from.kind < 0 ? 0 : tables_.send(from.kind, shape.kind);
    const std::int32_t least = std::max<std::int32_t>(begins.first, tables_.first_that_fits(option, at.k, from.first));
    for (std::int32_t a = begins.last; a >= least; --a) {
      ++counters_.tried;
      StageTime time = tables_.time(option, a, from.first);
      time.down = down;
      time.up = up;
      const std::int64_t w = time.forward + time.backward, soonest = std::max(at.m * w, w + down + up + from.tail.span);
      const std::int64_t left = limit_ - tables_.least_end(),
                         before = a > 0 ? limits_.least_work(stages, a, shape.kind, worth) : 0;
      if (soonest + before > left) {
        ++counters_.too_late;
        if (soonest > left) return;  // and so with more layers
        continue;
      }
      label.tail = in_front(time, from.tail, at);
      label.first = static_cast<std::int16_t>(a);
      label.least = label.tail.span + before;
      add(label);
    }
  }

  void add(const Label& label) {
    if (label.least + tables_.least_end() > limit_ || label.tail.finish > limit_) {
      ++counters_.too_late;
      return;
    }
    if (!level_.insert(label)) {
      ++counters_.beaten;
      return;
    }
    if (label.first == 0) limit_ = std::min(limit_, label.tail.finish + label.tail.finish / 1000 * pass_.slack);
    if (static_cast<std::int64_t>(kept_.size() + level_.alive()) > pass_.states) over_budget_ = true;
  }

  /// The labels of this number of stages: all, or the most promising.
  void keep() {
    std::vector<Label> labels = level_.take();
    if (pass_.width > 0) thin_out(labels);
    counters_.states += static_cast<std::int64_t>(labels.size());
    kept_.insert(kept_.end(), labels.begin(), labels.end());
  }

  /// Of the labels with the same first layer the most promising: they stand for as many layers, and only what they spent differs.
  void thin_out(std::vector<Label>& labels) {
    std::stable_sort(labels.begin(), labels.end(),
                     [](const Label& a, const Label& b) { return a.first != b.first ? a.first < b.first : a.least < b.least; });
    std::size_t kept = 0, same = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      same = i > 0 && labels[i].first == labels[i - 1].first ? same + 1 : 0;
      if (same >= pass_.width) continue;
      const Label label = labels[i];
      labels[kept++] = label;
    }
    if (kept < labels.size()) result_.complete = false;
    labels.resize(kept);
  }

  void collect() {
    for (const Label& label : kept_) {
      if (label.first > 0 || label.tail.finish > limit_) continue;
      std::vector<GroupedStage> plan;
      for (const Label* at = &label; at->parent >= 0; at = &kept_[at->parent]) {
        const std::int32_t end = kept_[at->parent].first;
        plan.push_back({tables_.option(at->option).original, at->first, end - 1});
      }
      result_.plans.push_back(std::move(plan));
    }
  }

  const StageTables& tables_;
  const Limits& limits_;
  const PassLimits pass_;
  DeviceGroupsCounters& counters_;
  std::int64_t limit_;
  bool over_budget_ = false;
  Level level_;
  std::vector<Label> kept_;
  PassResult result_;
};

}  // namespace

PassResult search_labels(const StageTables& tables, const Limits& limits, const PassLimits& pass,
                         DeviceGroupsCounters& counters) {
  return Pass(tables, limits, pass, counters).run();
}

}  // namespace espalier::solve::device_groups
