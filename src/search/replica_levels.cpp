// SPDX-License-Identifier: Apache-2.0
#include "search/replica_levels.h"

#include <algorithm>

#include "base/division.h"
#include "base/invariant.h"

namespace espalier::search {
namespace {

constexpr double kRounding = 1e-9;

/// Enumerates the levels group by group; the last group takes the remainder.
class Lowest {
 public:
  Lowest(const std::vector<std::int64_t>& replicas, std::int64_t samples, const Levels& most, std::size_t limit)
      : replicas_(replicas), samples_(samples), most_(most), left_(limit), levels_(replicas.size(), 1) {}

  std::optional<std::vector<Levels>> run() {
    if (!extend(0, samples_)) return std::nullopt;
    return std::move(found_);
  }

 private:
  /// `missing` is the number of samples that the previous groups do not hold. Returns false if too many levels were
  /// tried.
  bool extend(std::size_t g, std::int64_t missing) {
    const std::int64_t own = replicas_[g];
    if (g + 1 < replicas_.size()) {
      for (levels_[g] = 1; levels_[g] <= most_[g]; ++levels_[g]) {
        if (!extend(g + 1, missing - own * levels_[g])) return false;
        if (own * levels_[g] >= missing) break;  // higher levels are not lowest
      }
      return true;
    }
    if (left_ == 0) return false;
    --left_;
    levels_[g] = std::max<std::int64_t>(1, ceil_div(missing, own));
    if (levels_[g] <= most_[g] && lowest(own * levels_[g] - missing)) found_.push_back(levels_);
    return true;
  }

  [[nodiscard]] bool lowest(std::int64_t surplus) const {
    for (std::size_t g = 0; g < levels_.size(); ++g)
      if (levels_[g] > 1 && surplus >= replicas_[g]) return false;
    return true;
  }

  const std::vector<std::int64_t>& replicas_;
  const std::int64_t samples_;
  const Levels& most_;
  std::size_t left_;
  Levels levels_;
  std::vector<Levels> found_;
};

}  // namespace

std::optional<std::vector<Levels>> lowest_levels(const std::vector<std::int64_t>& replicas, std::int64_t samples,
                                                 const Levels& most, std::size_t limit) {
  ESPALIER_CHECK(!replicas.empty() && most.size() == replicas.size());
  return Lowest(replicas, samples, most, limit).run();
}

std::vector<std::int64_t> dealt_at(const std::vector<std::int64_t>& replicas, const Levels& levels, std::int64_t samples) {
  std::int64_t surplus = -samples;
  for (std::size_t g = 0; g < replicas.size(); ++g) surplus += replicas[g] * levels[g];
  std::vector<std::int64_t> dealt;
  for (std::size_t g = 0; g < replicas.size(); ++g) {
    const std::int64_t less = levels[g] > 1 ? surplus : 0;
    ESPALIER_CHECK(less >= 0 && less < replicas[g]);
    dealt.insert(dealt.end(), static_cast<std::size_t>(replicas[g] - less), levels[g]);
    dealt.insert(dealt.end(), static_cast<std::size_t>(less), levels[g] - 1);
    surplus -= less;
  }
  ESPALIER_CHECK(surplus == 0);
  return dealt;
}

/// Levels rise one by one; each time the group that then ends first rises. No other levels that hold the samples end
/// sooner, since some group would be at a level that these did not need to reach. Levels that are too high at the end
/// are lowered again.
Levels soonest_levels(const std::vector<std::int64_t>& replicas, std::int64_t samples,
                      const std::function<double(std::size_t, std::int64_t)>& time) {
  Levels levels(replicas.size(), 1);
  std::vector<double> next;
  std::int64_t held = 0;
  for (std::size_t g = 0; g < replicas.size(); ++g) {
    held += replicas[g];
    next.push_back(time(g, 2));
  }
  while (held < samples) {
    const auto g = static_cast<std::size_t>(std::min_element(next.begin(), next.end()) - next.begin());
    held += replicas[g];
    next[g] = time(g, ++levels[g] + 1);
  }
  for (std::size_t g = 0; g < replicas.size(); ++g)
    for (; levels[g] > 1 && held - replicas[g] >= samples; --levels[g]) held -= replicas[g];
  return levels;
}

std::vector<std::int64_t> most_even_parts(const std::vector<double>& holds, double spared, std::int64_t unit) {
  std::vector<double> room;
  for (const double own : holds) room.push_back(own * (1 - spared));
  std::vector<double> rising = room;
  std::sort(rising.begin(), rising.end());
  auto left = static_cast<double>(holds.size());  // not yet held; shared by those with more room than all before
  double even = 0;
  for (std::size_t r = 0; r < rising.size(); ++r) {
    even = left / static_cast<double>(rising.size() - r);
    if (rising[r] >= even * (1 - kRounding)) break;
    if (r + 1 == rising.size()) return {};
    left -= rising[r];
  }
  std::int64_t sum = 0;
  std::vector<std::int64_t> parts;
  for (const double own : room) {
    parts.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(own, even) * static_cast<double>(unit))));
    sum += parts.back();
  }
  // Rounding down leaves them a few units short; the replicas with room to spare take these.
  const std::int64_t short_of = unit * static_cast<std::int64_t>(parts.size()) - sum;
  const auto roomy = std::count_if(room.begin(), room.end(), [&](double own) { return own >= even * (1 - kRounding); });
  for (std::size_t r = 0; r < parts.size() && short_of > 0; ++r)
    if (room[r] >= even * (1 - kRounding)) parts[r] += ceil_div(short_of, roomy);
  return parts;
}

}  // namespace espalier::search
