// SPDX-License-Identifier: Apache-2.0
#include "solve/max_min.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/infinity.h"
#include "base/invariant.h"

namespace espalier::solve {
namespace {

using base::kInfinity;
constexpr std::size_t kNoLink = static_cast<std::size_t>(-1);
/// Limits how much a level may rise after its key was computed and still count as equal.
constexpr double kSameLevel = 1e-12;
/// Below this share of a link's weight, differences of sums are too inaccurate.
constexpr double kSmallRest = 1e-6;

}  // namespace

void MaxMinProblem::clear() {
  capacity_.clear();
  cap_.clear();
  first_.assign(1, 0);
  uses_.clear();
}

std::int32_t MaxMinProblem::add_link(double capacity) {
  ESPALIER_CHECK(capacity >= 0.0 && std::isfinite(capacity));
  capacity_.push_back(capacity);
  return static_cast<std::int32_t>(capacity_.size() - 1);
}

std::int32_t MaxMinProblem::add_flow(double cap) {
  ESPALIER_CHECK(cap >= 0.0);
  cap_.push_back(cap);
  first_.push_back(uses_.size());
  return static_cast<std::int32_t>(cap_.size() - 1);
}

void MaxMinProblem::add_use(std::int32_t link, double weight) {
  ESPALIER_CHECK(!cap_.empty());
  ESPALIER_CHECK(link >= 0 && static_cast<std::size_t>(link) < capacity_.size());
  ESPALIER_CHECK(weight > 0.0 && std::isfinite(weight));
  uses_.push_back({link, weight});
  first_.back() = uses_.size();
}

/// Fills the users of each link, and sorts all flows by cap.
void MaxMinSolver::index(const MaxMinProblem& problem) {
  const std::size_t flows = problem.flows();
  links_.assign(problem.links(), LinkState{});
  for (std::size_t f = 0; f < flows; ++f)
    for (const FlowLink* use = problem.begin(f); use != problem.end(f); ++use) {
      LinkState& link = links_[static_cast<std::size_t>(use->link)];
      link.weight += use->weight;
      ++link.users;
    }
  std::size_t users = 0;
  for (std::size_t l = 0; l < links_.size(); ++l) {
    links_[l].left = problem.capacity(l);
    links_[l].all_weight = links_[l].weight;
    links_[l].first = users;
    users += links_[l].users;
  }
  users_.resize(users);
  for (std::size_t f = 0; f < flows; ++f)
    for (const FlowLink* use = problem.begin(f); use != problem.end(f); ++use) {
      LinkState& link = links_[static_cast<std::size_t>(use->link)];
      users_[link.first + link.free++] = static_cast<std::int32_t>(f);
    }

  by_cap_.resize(flows);
  std::iota(by_cap_.begin(), by_cap_.end(), 0);
  std::sort(by_cap_.begin(), by_cap_.end(), [&](std::int32_t a, std::int32_t b) {
    const double cap_a = problem.cap(static_cast<std::size_t>(a));
    const double cap_b = problem.cap(static_cast<std::size_t>(b));
    return cap_a != cap_b ? cap_a < cap_b : a < b;
  });
}

double MaxMinSolver::level_of(std::size_t link) const {
  const LinkState& state = links_[link];
  return state.free > 0 ? std::max(0.0, state.left) / state.weight : kInfinity;
}

/// Computes exactly what frozen flows leave over, because a small rest is inaccurate after many subtractions.
void MaxMinSolver::recount(const MaxMinProblem& problem, std::size_t number) {
  LinkState& link = links_[number];
  link.left = problem.capacity(number);
  link.weight = 0.0;
  std::int32_t before = -1;
  for (std::size_t i = 0; i < link.users; ++i) {
    const std::int32_t user = users_[link.first + i];
    if (user == before) continue;  // a flow that uses the link twice is listed twice in a row
    before = user;
    const auto flow = static_cast<std::size_t>(user);
    for (const FlowLink* use = problem.begin(flow); use != problem.end(flow); ++use) {
      if (static_cast<std::size_t>(use->link) != number) continue;
      if (frozen_[flow]) link.left -= use->weight * rates_[flow];
      if (!frozen_[flow]) link.weight += use->weight;
    }
  }
}

/// Returns the link that is full first, at the top of the heap with its true level; kNoLink when none is left.
std::size_t MaxMinSolver::fullest_link(const MaxMinProblem& problem) {
  while (!fills_.empty()) {
    const auto [key, number] = fills_.front();
    const auto link = static_cast<std::size_t>(number);
    if (links_[link].free > 0 && links_[link].weight < kSmallRest * links_[link].all_weight) recount(problem, link);
    const double level = level_of(link);
    if (level <= key * (1.0 + kSameLevel)) return link;
    std::pop_heap(fills_.begin(), fills_.end(), std::greater<>());
    if (links_[link].free == 0) {
      fills_.pop_back();
      continue;
    }
    fills_.back().first = level;
    std::push_heap(fills_.begin(), fills_.end(), std::greater<>());
  }
  return kNoLink;
}

void MaxMinSolver::freeze(const MaxMinProblem& problem, std::size_t flow, double rate) {
  rates_[flow] = rate;
  frozen_[flow] = 1;
  for (const FlowLink* use = problem.begin(flow); use != problem.end(flow); ++use) {
    LinkState& link = links_[static_cast<std::size_t>(use->link)];
    link.left -= use->weight * rate;
    link.weight -= use->weight;
    --link.free;
  }
}

const std::vector<double>& MaxMinSolver::solve(const MaxMinProblem& problem) {
  const std::size_t flows = problem.flows();
  index(problem);
  rates_.assign(flows, 0.0);
  frozen_.assign(flows, 0);
  fills_.clear();
  for (std::size_t l = 0; l < links_.size(); ++l)
    if (links_[l].free > 0) fills_.emplace_back(level_of(l), static_cast<std::int32_t>(l));
  std::make_heap(fills_.begin(), fills_.end(), std::greater<>());

  double level = 0.0;  // never falls, however the remaining capacity of a link is rounded
  std::size_t next = 0;
  while (true) {
    while (next < flows && frozen_[static_cast<std::size_t>(by_cap_[next])]) ++next;
    if (next == flows) return rates_;
    const auto slowest = static_cast<std::size_t>(by_cap_[next]);
    const std::size_t link = fullest_link(problem);
    const double full = link == kNoLink ? kInfinity : std::max(level, level_of(link));
    if (problem.cap(slowest) <= full * (1.0 + kSameLevel)) {
      ESPALIER_CHECK(std::isfinite(problem.cap(slowest)));
      level = std::max(level, problem.cap(slowest));
      freeze(problem, slowest, problem.cap(slowest));
      continue;
    }
    level = full;
    for (std::size_t i = 0; i < links_[link].users; ++i) {
      const auto user = static_cast<std::size_t>(users_[links_[link].first + i]);
      if (!frozen_[user]) freeze(problem, user, level);
    }
  }
}

}  // namespace espalier::solve
