// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_fronts.h"

#include <algorithm>

namespace espalier::solve::device_groups {
namespace {

/// Returns whether a stage is no worse than another of the same layers in front of any tail. The first forward and
/// last backward pass count with the times that delay, stretch and follow them.
bool no_worse_stage(const StageTime& a, const StageTime& b) {
  const std::int64_t backward = a.backward + a.stretch, other = b.backward + b.stretch;
  return a.forward <= b.forward && a.backward <= b.backward && backward <= other && a.forward + a.begin <= b.forward + b.begin &&
         backward + a.end <= other + b.end;
}

}  // namespace

std::span<const Front> StageFronts::of(std::int64_t k, std::size_t shape, std::int32_t run) {
  const Place place = find(k, shape, run);
  return {fronts_.data() + place.begin, static_cast<std::size_t>(place.end - place.begin)};
}

StageFronts::Place StageFronts::find(std::int64_t k, std::size_t shape, std::int32_t run) {
  const auto level = static_cast<std::size_t>(k) - 1, runs = tables_.runs().count();
  if (places_.size() <= level) places_.resize(level + 1);
  if (places_[level].empty()) places_[level].resize(tables_.shapes().size() * runs);
  const std::size_t at = shape * runs + static_cast<std::size_t>(run);
  if (places_[level][at].begin >= 0) return places_[level][at];
  // The options that fit with k micro-batches in flight are those that fit with `same`, the least number that any of
  // them has room for.
  std::int64_t same = tables_.in_flight(tables_.most_stages());
  for (const std::int32_t o : tables_.shapes()[shape].options)
    if (const std::int64_t most = tables_.option(o).most_in_flight[static_cast<std::size_t>(run)]; most >= k)
      same = std::min(same, most);
  const Place place = same > k ? find(same, shape, run) : add(k, tables_.shapes()[shape], run);
  return places_[level][at] = place;
}

StageFronts::Place StageFronts::add(std::int64_t k, const Shape& shape, std::int32_t run) {
  std::vector<Front> all;
  for (const std::int32_t o : shape.options) {
    const StageTables::Option& option = tables_.option(o);
    if (option.most_in_flight[static_cast<std::size_t>(run)] < k) continue;
    all.push_back({tables_.time(option, run), static_cast<std::int16_t>(o), static_cast<std::int16_t>(option.port)});
  }
  std::stable_sort(all.begin(), all.end(), [](const Front& a, const Front& b) { return a.work() < b.work(); });
  const std::size_t begin = fronts_.size();
  for (const Front& front : all) {
    const auto better = [&](const Front& other) {
      return no_worse_stage(other.time, front.time) && tables_.no_worse_port(other.port, front.port);
    };
    if (!tables_.uses(GroupRule::options) ||
        std::none_of(fronts_.begin() + static_cast<std::ptrdiff_t>(begin), fronts_.end(), better))
      fronts_.push_back(front);
  }
  return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(fronts_.size())};
}

}  // namespace espalier::solve::device_groups
