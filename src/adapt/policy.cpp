// SPDX-License-Identifier: Apache-2.0
#include "adapt/policy.h"

#include <algorithm>

#include "base/infinity.h"
#include "base/invariant.h"

namespace espalier::adapt {
namespace {

using base::kInfinity;

/// Runs the online policy.
class Online {
 public:
  Online(const Epochs& epochs, std::size_t start, const PolicyRules& rules)
      : epochs_(&epochs), rules_(&rules), threshold_(threshold_of(epochs)), counters_(epochs.plans(), 0.0), plan_(start) {
    run_.decisions.push_back({0, start});
  }

  PolicyRun through() {
    for (std::size_t e = 0; e < epochs_->length_s.size(); ++e) epoch(e);
    return run_;
  }

 private:
  [[nodiscard]] double loss(std::size_t e, std::size_t a) const {
    const double l = epochs_->loss[e][a];
    return l > rules_->hysteresis ? l : 0.0;
  }

  void epoch(std::size_t e) {
    // All work that a plan loses at once is charged to the plan that ran.
    for (std::size_t a = 0; a < counters_.size(); ++a) counters_[a] += epochs_->hit_s[e][a];
    run_.lost_s += epochs_->hit_s[e][plan_];
    double left = epochs_->length_s[e];
    const double blind = e == 0 ? 0.0 : std::min(left, rules_->detection_s);
    // Until the change is noticed the plan continues, and the counters ignore the change.
    pass(e, blind, false);
    left -= blind;
    if (left > 0 || blind == epochs_->length_s[e]) begin_noticed(e);
    while (left > 0) {
      const double rate = loss(e, plan_);
      const double until = rate > 0 ? std::max(0.0, threshold_ - counters_[plan_]) / rate : kInfinity;
      const double step = std::min(left, until);
      pass(e, step, true);
      left -= step;
      if (left > 0) leave(e);
    }
    end_s_ += epochs_->length_s[e];
    at_s_ = end_s_;
  }

  /// Charges every plan with the cost of keeping it at the begin of an epoch. The running plan pays it, or is left.
  void begin_noticed(std::size_t e) {
    for (std::size_t a = 0; a < counters_.size(); ++a) counters_[a] += epochs_->forced_s[e][a];
    const double forced = epochs_->forced_s[e][plan_];
    const bool hit = epochs_->hit_s[e][plan_] > 0;
    if (forced <= 0 && !hit) return;
    if (counters_[plan_] >= threshold_ && leave(e)) return;
    run_.forced_s += forced;
  }

  void pass(std::size_t e, double seconds, bool counted) {
    run_.lost_s += seconds * epochs_->loss[e][plan_];
    at_s_ += seconds;
    if (!counted) return;
    for (std::size_t a = 0; a < counters_.size(); ++a) counters_[a] += seconds * loss(e, a);
    // The counter is set exactly to the threshold: a rounding error must not stall time.
    if (loss(e, plan_) > 0 && counters_[plan_] > threshold_ * (1 - 1e-12))
      counters_[plan_] = std::max(counters_[plan_], threshold_);
  }

  /// Moves to the plan that loses least now among those that have not lost a move's worth in this phase. Returns
  /// whether it moved.
  bool leave(std::size_t e) {
    const auto open = [&](std::size_t a) { return counters_[a] < threshold_; };
    bool any = false;
    for (std::size_t a = 0; a < counters_.size(); ++a) any |= open(a);
    if (!any) std::fill(counters_.begin(), counters_.end(), 0.0);
    std::size_t best = plan_;
    double least = any ? kInfinity : loss(e, plan_);
    for (std::size_t a = 0; a < counters_.size(); ++a) {
      if (a == plan_ || !open(a)) continue;
      const bool nearer = loss(e, a) == least && best != plan_ && epochs_->move_s[plan_][a] < epochs_->move_s[plan_][best];
      if (loss(e, a) < least || nearer) {
        least = loss(e, a);
        best = a;
      }
    }
    if (best == plan_) return false;
    run_.moves_s += epochs_->move_s[plan_][best];
    plan_ = best;
    run_.decisions.push_back({at_s_, plan_});
    return true;
  }

  const Epochs* epochs_;
  const PolicyRules* rules_;
  double threshold_;
  std::vector<double> counters_;
  std::size_t plan_;
  double at_s_ = 0, end_s_ = 0;  // now, and the end of the last whole epoch
  PolicyRun run_;
};

}  // namespace

double cheapest_move(const Epochs& epochs) {
  double least = kInfinity;
  for (std::size_t a = 0; a < epochs.plans(); ++a)
    for (std::size_t b = 0; b < epochs.plans(); ++b)
      if (a != b) least = std::min(least, epochs.move_s[a][b]);
  ESPALIER_CHECK(least > 0);
  return least;
}

namespace {

double largest(const std::vector<std::vector<double>>& rows) {
  double most = 0;
  for (const auto& row : rows)
    for (const double value : row) most = std::max(most, value);
  return most;
}

}  // namespace

double threshold_of(const Epochs& epochs) { return cheapest_move(epochs) + largest(epochs.hit_s); }

double factor_of(const Epochs& epochs) {
  if (epochs.plans() == 1) return 1;
  const double dearest = std::max(largest(epochs.move_s), largest(epochs.forced_s));
  const double all = threshold_of(epochs) + largest(epochs.hit_s) + dearest;
  return static_cast<double>(epochs.plans()) * all / cheapest_move(epochs);
}

PolicyBound bound_of(const Epochs& epochs, const PolicyRules& rules, double clairvoyant_s) {
  PolicyBound out;
  out.factor = factor_of(epochs);
  out.clairvoyant_s = clairvoyant_s;
  if (epochs.plans() == 1) return out;
  out.cheapest_move_s = cheapest_move(epochs);
  for (const double length : epochs.length_s) out.noise_s += rules.hysteresis * length;
  out.unnoticed_s = rules.detection_s * static_cast<double>(epochs.length_s.size());
  return out;
}

PolicyRun static_run(const Epochs& epochs, std::size_t plan) {
  PolicyRun run;
  run.decisions.push_back({0, plan});
  for (std::size_t e = 0; e < epochs.length_s.size(); ++e) {
    run.lost_s += epochs.loss[e][plan] * epochs.length_s[e];
    run.lost_s += epochs.hit_s[e][plan];
    run.forced_s += epochs.forced_s[e][plan];
  }
  return run;
}

PolicyRun online_run(const Epochs& epochs, std::size_t start, const PolicyRules& rules) {
  if (epochs.plans() == 1) return static_run(epochs, 0);
  return Online(epochs, start, rules).through();
}

namespace {

/// Returns the values of all plans after a chance to move; `from` receives the plan that each came from.
std::vector<double> moved(const Epochs& epochs, const std::vector<double>& value, const std::vector<double>& stay,
                          std::vector<std::size_t>& from) {
  std::vector<double> next(value.size(), kInfinity);
  from.assign(value.size(), 0);
  for (std::size_t a = 0; a < value.size(); ++a)
    for (std::size_t b = 0; b < value.size(); ++b) {
      const double way = value[b] + (a == b ? stay[a] : epochs.move_s[b][a]);
      if (way >= next[a]) continue;
      next[a] = way;
      from[a] = b;
    }
  return next;
}

}  // namespace

PolicyRun clairvoyant_run(const Epochs& epochs) {
  const std::size_t n = epochs.length_s.size(), plans = epochs.plans();
  const std::vector<double> nothing(plans, 0.0);
  std::vector<std::vector<std::size_t>> early(n), late(n);  // moves before and after the begin of an epoch
  std::vector<double> value = nothing;
  for (std::size_t e = 0; e < n; ++e) {
    if (e > 0) {
      value = moved(epochs, value, nothing, early[e]);
      for (std::size_t a = 0; a < plans; ++a) value[a] += epochs.hit_s[e][a];
      value = moved(epochs, value, epochs.forced_s[e], late[e]);
    }
    for (std::size_t a = 0; a < plans; ++a) value[a] += epochs.loss[e][a] * epochs.length_s[e];
  }
  PolicyRun run;
  auto plan = static_cast<std::size_t>(std::min_element(value.begin(), value.end()) - value.begin());
  double at_s = 0;
  for (const double length : epochs.length_s) at_s += length;
  for (std::size_t e = n; e-- > 0;) {
    at_s -= epochs.length_s[e];
    run.lost_s += epochs.loss[e][plan] * epochs.length_s[e];
    if (e == 0) break;
    const std::size_t between = late[e][plan], from = early[e][between];
    if (between == plan) run.forced_s += epochs.forced_s[e][plan];
    if (between != plan) run.moves_s += epochs.move_s[between][plan];
    if (from != between) run.moves_s += epochs.move_s[from][between];
    run.lost_s += epochs.hit_s[e][between];
    if (from != plan) run.decisions.push_back({at_s, plan});
    plan = from;
  }
  run.decisions.push_back({0, plan});
  std::reverse(run.decisions.begin(), run.decisions.end());
  return run;
}

}  // namespace espalier::adapt
