// SPDX-License-Identifier: Apache-2.0
#include "report/action_check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "adapt/actions.h"
#include "check/verdict.h"
#include "espalier/check.h"
#include "plan/process_groups.h"
#include "report/nanoseconds.h"

namespace espalier::report {
namespace {

using check::say;
using check::Verdict;

/// Returns the numbers of the devices on these nodes, in order.
std::vector<std::int64_t> devices_on(const Cluster& cluster, const std::vector<std::int64_t>& nodes) {
  std::vector<std::int64_t> out;
  for (const std::int64_t node : nodes) {
    const std::int64_t first = cluster.first_device_of_node(node);
    for (std::int64_t k = 0; k < cluster.groups[cluster.group_of_node(node)].devices_per_node; ++k) out.push_back(first + k);
  }
  return out;
}

/// Checks one action against the situation that it answers.
class ActionCheck {
 public:
  ActionCheck(const adapt::Situation& s, const ClaimedChange& claimed) : s_(s), c_(claimed), name_(to_string(claimed.action)) {}

  void check(const std::optional<std::int64_t>& if_stay_ns, std::vector<Finding>& out) {
    if (!c_.possible) {
      check_impossible(out);
      return;
    }
    if (check_place(out)) {
      const auto found = again();
      check_iteration(found, out);
      check_bytes(out);
      check_again(found, out);
    }
    check_pause(out);
    check_break_even(if_stay_ns, out);
  }

 private:
  [[nodiscard]] Verdict verdict(const char* what) const { return Verdict(say(name_, ": ", what)); }

  /// Checks an impossible action. It has no figures; stay is impossible exactly where a node is lost.
  void check_impossible(std::vector<Finding>& out) {
    Verdict v = verdict("possible");
    v.require(!c_.iteration_ns && !c_.pause_ns && !c_.break_even_ns,
              [] { return say("not possible, with a time or a horizon"); });
    v.require(c_.action != adapt::ActionKind::stay || !s_.lost.empty(),
              [] { return say("no part of the plan is lost: it can stay"); });
    if (c_.action == adapt::ActionKind::reshape) {  // only a search can decide whether another plan fits
      const bool nothing = c_.nodes.empty() && !c_.plan && !c_.upper_bound && same_move(adapt::Move{});
      v.require(nothing, [] { return say("not possible, with a plan or a move"); });
    } else {
      const auto found = again();
      if (v.require(found.ok(), [&] { return found.error().message(); })) {
        v.require(!found->possible, [] { return say("it is possible"); });
        if (!found->possible) require_same(*found, v);
      }
    }
    out.push_back(v.finding("not possible"));
  }

  bool check_place(std::vector<Finding>& out) {
    Verdict v = verdict("plan");
    const std::set<std::int64_t> away(s_.state.away.begin(), s_.state.away.end());
    const bool moves = c_.action == adapt::ActionKind::re_place || c_.action == adapt::ActionKind::reshape ||
                       c_.action == adapt::ActionKind::shift;
    v.require(c_.plan.has_value() == moves, [&] { return moves ? say("no plan") : say("a plan for an action that has none"); });
    std::set<std::int64_t> once;
    for (const std::int64_t node : c_.nodes) {
      v.require(node < s_.whole.nodes(), [&] { return say("node:", node, " is not in the cluster"); });
      v.require(!moves || !away.contains(node), [&] { return say("node:", node, " is not present"); });
      v.require(once.insert(node).second, [&] { return say("node:", node, " twice"); });
    }
    if (v.ok())
      v.require(std::is_sorted(c_.nodes.begin(), c_.nodes.end(),
                               [&](auto a, auto b) { return s_.whole.group_of_node(a) < s_.whole.group_of_node(b); }),
                [] { return say("nodes of different groups are not in the order of the cluster's groups"); });
    if (v.ok() && c_.plan) {
      devices_ = devices_on(s_.whole, c_.nodes);
      for (const Pipeline& pipeline : c_.plan->pipelines)
        for (const Stage& stage : pipeline.stages)
          for (const std::int64_t device : devices_of(stage.devices))
            v.require(device < static_cast<std::int64_t>(devices_.size()),
                      [&] { return say("device ", device, " is on none of its ", c_.nodes.size(), " nodes"); });
    }
    if (v.ok() && c_.plan) check_plan_alone(v);
    out.push_back(v.finding(c_.plan ? "valid, on present nodes" : "the running plan"));
    return v.ok();
  }

  /// Checks that the new plan trains what the running one trains, since an action must not change that.
  void check_trains_the_same(Verdict& v) {
    const Plan &next = *c_.plan, &now = *s_.plan;
    v.require(next.model_source == now.model_source, [] { return say("it is for another model"); });
    v.require(next.engine == now.engine && next.calibration_hash == now.calibration_hash,
              [] { return say("it is for another engine or calibration"); });
    Training asked = now.training;
    if (c_.priced_as) {
      v.require(c_.action == adapt::ActionKind::shift && next.training.global_batch > asked.global_batch,
                [] { return say("priced as another plan, which has no larger batch"); });
      asked.global_batch = next.training.global_batch;
    }
    v.require(next.training == asked && next.precision == now.precision,
              [] { return say("it trains something else: batch, sequence, precision, optimizer or trained parts"); });
  }

  void check_plan_alone(Verdict& v) {
    check_trains_the_same(v);
    if (c_.action == adapt::ActionKind::reshape) {
      const auto present = adapt::present_on(s_.whole, s_.source, s_.state, c_.nodes);
      v.require(present.ok() && c_.plan->cluster_source == present->source,
                [] { return say("it is for another cluster than its nodes"); });
    }
    if (!v.ok()) return;
    const auto job = job_of_plan(*c_.plan);
    if (!v.require(job.ok(), [&] { return job.error().message(); })) return;
    const auto report = check_plan(*job, *c_.plan);
    if (!v.require(report.ok(), [&] { return report.error().message(); })) return;
    for (const Finding& f : report->findings) v.require(f.ok, [&] { return say(f.name, ": ", f.text); });
  }

  /// Derives the action again, without any search. A new plan is timed where it would run.
  [[nodiscard]] Result<adapt::Change> again() const {
    switch (c_.action) {
      case adapt::ActionKind::stay: return adapt::stay(s_);
      case adapt::ActionKind::shift: return adapt::shift(s_);
      case adapt::ActionKind::re_place: return adapt::re_place(s_);
      case adapt::ActionKind::reroute: return adapt::reroute(s_);
      case adapt::ActionKind::reshape: break;
    }
    const auto present = adapt::present_on(s_.whole, s_.source, s_.state, c_.nodes);
    if (!present) return present.error();
    const auto time = adapt::step_time(s_, *present, *c_.plan);
    if (!time) return time.error();
    adapt::Change out;
    out.possible = true;
    out.iteration_ns = time->ns;
    out.upper_bound = time->bound;
    const std::size_t nodes = c_.nodes.size();
    out.what = say(c_.plan->label(), " on ", nodes, nodes == 1 ? " node" : " nodes");
    out.nodes = c_.nodes;
    out.plan = c_.plan;
    auto move = adapt::move_of(s_.scene(), s_.placed, {&*c_.plan, devices_});
    if (!move) return move.error();
    out.move = std::move(*move);
    return out;
  }

  /// Compares to the byte, and to the nanosecond that a document holds.
  [[nodiscard]] bool same_move(const adapt::Move& found) const {
    const check::MoveClaims& m = c_.move;
    std::vector<std::pair<std::string, std::int64_t>> links;
    for (const adapt::LinkLoad& link : found.links) links.emplace_back(link.link, link.bytes);
    return m.kept == found.kept_bytes && m.peer == found.peer_bytes && m.storage == found.storage_bytes &&
           m.lost == found.lost_bytes && m.links == links && m.transfer_ns == to_ns(found.transfer_s) &&
           m.storage_ns == to_ns(found.storage_s) && m.rollback_ns == to_ns(found.rollback_s) &&
           m.restart_ns == to_ns(found.restart_s) && m.warm_up_ns == to_ns(found.warm_up_s);
  }

  void require_same(const adapt::Change& found, Verdict& v) const {
    v.require(c_.what == found.what, [&] { return say("it states \"", c_.what, "\", derived \"", found.what, "\""); });
    v.require(c_.nodes == found.nodes, [] { return say("its nodes differ"); });
    v.require(c_.upper_bound == found.upper_bound, [] { return say("its upper-bound flag differs from the simulation"); });
    const std::optional<Plan>& plan = found.priced_as ? found.priced_as : found.plan;
    v.require(c_.plan == plan && c_.priced_as == found.priced_as.has_value(),
              [] { return say("its plan is not the plan of the action"); });
    v.require(same_move(found.move), [] { return say("its bytes or seconds differ"); });
  }

  /// Checks the whole action. A new plan of a search is taken as given.
  void check_again(const Result<adapt::Change>& found, std::vector<Finding>& out) {
    Verdict v = verdict("derived-again");
    if (v.require(found.ok(), [&] { return found.error().message(); })) require_same(*found, v);
    out.push_back(v.finding("plan, nodes, bytes and words match the action"));
  }

  void check_iteration(const Result<adapt::Change>& found, std::vector<Finding>& out) {
    Verdict v = verdict("iteration");
    if (v.require(found.ok(), [&] { return found.error().message(); })) {
      v.require(found->possible, [&] { return say("claimed possible: ", found->what); });
      v.require(c_.iteration_ns == found->iteration_ns,
                [&] { return say("claimed ", written(c_.iteration_ns), ", simulated ", found->iteration_ns, " ns"); });
      v.require(c_.upper_bound == found->upper_bound, [] { return say("its upper-bound flag differs from the simulation"); });
    }
    out.push_back(v.finding("as simulated again"));
  }

  [[nodiscard]] check::MovePrices prices() const {
    const adapt::MoveOptions& o = s_.options.move;
    check::MovePrices out;
    out.storage_per_device = o.storage_per_device;
    out.checkpoint_age_ns = to_ns(o.checkpoint_age_s);
    // Other shares of samples among the same replicas take effect with the next step.
    const bool no_restart = c_.action == adapt::ActionKind::stay || (c_.action == adapt::ActionKind::shift && s_.lost.empty());
    out.restart_ns = no_restart ? 0 : to_ns(o.restart_s);
    out.warm_up_ns = no_restart ? 0 : to_ns(o.warm_up_s);
    for (const CapacityFactor& factor : s_.state.capacity) out.narrowed.emplace_back(factor.target, factor.factor);
    return out;
  }

  void check_bytes(std::vector<Finding>& out) {
    check::MoveQuestion question;
    question.model = &s_.job->model;
    question.cluster = &s_.whole;
    question.running = {s_.plan, s_.placed.devices};
    question.next = c_.plan ? check::PlanOnCluster{&*c_.plan, devices_} : question.running;
    question.lost_nodes = s_.state.away;
    if (c_.plan) {
      for (Finding& f : check::check_move(question, prices(), c_.move)) out.push_back({say(name_, ": ", f.name), f.ok, f.text});
      return;
    }
    Verdict v = verdict("moved-bytes");
    const check::MoveClaims& m = c_.move;
    v.require(m.kept == 0 && m.peer == 0 && m.storage == 0 && m.lost == 0 && m.links.empty(),
              [] { return say("it moves nothing, but claims that bytes move"); });
    v.require(m.transfer_ns == 0 && m.storage_ns == 0 && m.rollback_ns == 0,
              [] { return say("it moves nothing, but takes time"); });
    v.require(m.restart_ns == prices().restart_ns && m.warm_up_ns == prices().warm_up_ns,
              [] { return say("restart or warm-up differ from the question"); });
    const std::int64_t lost = check::moved_bytes(question).lost;
    v.require(lost == 0, [&] { return say("no present node holds ", lost, " bytes"); });
    out.push_back(v.finding("nothing moves, and nothing needs to move"));
  }

  void check_pause(std::vector<Finding>& out) {
    Verdict v = verdict("pause");
    const check::MoveClaims& m = c_.move;
    const std::int64_t sum = m.transfer_ns + m.storage_ns + m.rollback_ns + m.restart_ns + m.warm_up_ns;
    constexpr std::int64_t kRounded = 5;  // five terms, each rounded to a nanosecond
    v.require(c_.pause_ns && std::abs(*c_.pause_ns - sum) <= kRounded,
              [&] { return say("claimed ", written(c_.pause_ns), ", its parts are ", sum, " ns"); });
    out.push_back(v.finding("the sum of its parts"));
  }

  void check_break_even(const std::optional<std::int64_t>& if_stay_ns, std::vector<Finding>& out) {
    Verdict v = verdict("break-even");
    v.require(c_.if_stay_ns == if_stay_ns, [&] {
      return say("without a change: claimed ", written(c_.if_stay_ns), ", for the whole plan ", written(if_stay_ns));
    });
    const std::int64_t step = c_.iteration_ns.value_or(0), pause = c_.pause_ns.value_or(0);
    std::optional<std::int64_t> gain, horizon;
    double slack = 1;
    if (if_stay_ns) gain = *if_stay_ns - step;
    if (c_.action != adapt::ActionKind::stay && !if_stay_ns) horizon = pause;
    if (c_.action != adapt::ActionKind::stay && gain && *gain > 0) {
      const double ratio = static_cast<double>(*if_stay_ns) / static_cast<double>(*gain);
      const double product = static_cast<double>(pause) * ratio;
      constexpr double kLongest = 4e18;  // nanoseconds: beyond it no document has a horizon
      horizon = std::llround(std::min(product, kLongest));
      slack += ratio + 1e-12 * product;  // the pause is known to half a nanosecond
    }
    v.require(c_.gain_ns == gain, [&] { return say("gain: claimed ", written(c_.gain_ns), ", derived ", written(gain)); });
    const bool both = c_.break_even_ns && horizon;
    v.require(both ? std::abs(static_cast<double>(*c_.break_even_ns - *horizon)) <= slack : c_.break_even_ns == horizon,
              [&] { return say("horizon: claimed ", written(c_.break_even_ns), ", derived ", written(horizon)); });
    out.push_back(v.finding("follows from pause and gain"));
  }

  const adapt::Situation& s_;
  const ClaimedChange& c_;
  std::string name_;
  std::vector<std::int64_t> devices_;
};

}  // namespace

std::string written(const std::optional<std::int64_t>& ns) { return ns ? say(*ns, " ns") : "null"; }

void check_action(const adapt::Situation& situation, const ClaimedChange& claimed, const std::optional<std::int64_t>& if_stay_ns,
                  std::vector<Finding>& out) {
  ActionCheck(situation, claimed).check(if_stay_ns, out);
}

}  // namespace espalier::report
