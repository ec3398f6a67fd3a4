// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_labels.h"

#include <algorithm>
#include <tuple>

namespace espalier::solve {
namespace {

/// Holds points (memory, base) of which none equals or beats another: memory rises, base falls.
class Staircase {
 public:
  [[nodiscard]] bool covers(std::int64_t memory, std::int64_t base) const {
    const auto after = first_above(memory);
    return after != steps_.begin() && std::prev(after)->second <= base;
  }
  void add(std::int64_t memory, std::int64_t base) {
    if (covers(memory, base)) return;
    const auto begin = std::lower_bound(steps_.begin(), steps_.end(), std::make_pair(memory, std::int64_t{0}),
                                        [](const Step& a, const Step& b) { return a.first < b.first; });
    auto end = begin;
    while (end != steps_.end() && end->second >= base) ++end;
    if (begin == end) {
      steps_.insert(begin, {memory, base});
    } else {
      *begin = {memory, base};
      steps_.erase(begin + 1, end);
    }
  }
  void clear() { steps_.clear(); }

 private:
  using Step = std::pair<std::int64_t, std::int64_t>;
  [[nodiscard]] std::vector<Step>::const_iterator first_above(std::int64_t memory) const {
    return std::upper_bound(steps_.begin(), steps_.end(), memory, [](std::int64_t m, const Step& s) { return m < s.first; });
  }
  std::vector<Step> steps_;
};

bool in_order(const LayerLabel& a, const LayerLabel& b) {
  return std::tuple(a.layout, a.cost, a.memory, a.base(), a.tail, a.after, a.option, a.copies) <
         std::tuple(b.layout, b.cost, b.memory, b.base(), b.tail, b.after, b.option, b.copies);
}

bool beats_but_for_cost(const LayerLabel& a, const LayerLabel& b) {
  return a.tail <= b.tail && a.memory <= b.memory && a.base() <= b.base();
}

using Iterator = std::vector<LayerLabel>::iterator;

/// Removes labels of `group` that labels of `rivals` make superfluous at distance d; both are sorted by rising cost.
/// Returns the new end of the group.
Iterator drop_beaten(Iterator group, Iterator group_end, Iterator rivals, Iterator rivals_end, std::int64_t d, bool tails) {
  Iterator out = group, rival = rivals;
  Staircase stairs;
  for (Iterator label = group; label != group_end; ++label) {
    for (; rival != rivals_end && rival->cost + d <= label->cost; ++rival)
      if (!tails) stairs.add(rival->memory, rival->base());
    const bool beaten = tails ? std::any_of(rivals, rival, [&](const LayerLabel& r) { return beats_but_for_cost(r, *label); })
                              : stairs.covers(label->memory, label->base());
    if (!beaten) *out++ = *label;
  }
  return out;
}

/// Removes superfluous labels inside one layout, where earlier labels are the rivals.
Iterator drop_beaten_inside(Iterator group, Iterator group_end, bool tails) {
  Iterator out = group, beater = group;  // a label that beat the previous one often beats the next
  Staircase stairs;
  for (Iterator label = group; label != group_end; ++label) {
    if (tails && beater != out) {
      if (!beats_but_for_cost(*beater, *label))
        beater = std::find_if(group, out, [&](const LayerLabel& r) { return beats_but_for_cost(r, *label); });
    }
    const bool beaten = tails ? beater != out : stairs.covers(label->memory, label->base());
    if (beaten) continue;
    if (!tails) stairs.add(label->memory, label->base());
    *out++ = *label;
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> layout_distances(const std::vector<std::int64_t>& transition, std::size_t layouts) {
  std::vector<std::int64_t> distance(layouts * layouts, 0);
  for (std::size_t a = 0; a < layouts; ++a) {
    for (std::size_t b = 0; b < layouts; ++b) {
      std::int64_t& d = distance[a * layouts + b];
      for (std::size_t from = 0; from < layouts && a != b; ++from) {
        const std::int64_t to_a = transition[from * layouts + a], to_b = transition[from * layouts + b];
        if (to_b >= kForbidden) continue;
        d = to_a >= kForbidden ? kForbidden : std::max(d, to_a - to_b);
        if (d >= kForbidden) break;
      }
    }
  }
  return distance;
}

void drop_superfluous(std::vector<LayerLabel>& labels, const std::vector<std::int64_t>& distance, std::size_t layouts) {
  const bool tails = std::any_of(labels.begin(), labels.end(), [](const LayerLabel& l) { return l.tail != 0; });
  std::sort(labels.begin(), labels.end(), in_order);
  struct Group {
    std::size_t layout;
    Iterator begin, end;
  };
  std::vector<Group> groups;
  for (Iterator at = labels.begin(); at != labels.end();) {
    const std::int32_t layout = at->layout;
    const Iterator end = std::find_if(at, labels.end(), [&](const LayerLabel& l) { return l.layout != layout; });
    groups.push_back({static_cast<std::size_t>(layout), at, drop_beaten_inside(at, end, tails)});
    at = end;
  }
  // Pairs are handled one after the other. A label that beat another still exists, or a label that beats both has
  // beaten it.
  for (const Group& rivals : groups) {
    for (Group& group : groups) {
      if (distance.empty() || rivals.layout == group.layout) continue;
      const std::int64_t d = distance[rivals.layout * layouts + group.layout];
      if (d < kForbidden) group.end = drop_beaten(group.begin, group.end, rivals.begin, rivals.end, d, tails);
    }
  }
  Iterator out = labels.begin();
  for (const Group& group : groups) out = out == group.begin ? group.end : std::move(group.begin, group.end, out);
  labels.erase(out, labels.end());
}

}  // namespace espalier::solve
