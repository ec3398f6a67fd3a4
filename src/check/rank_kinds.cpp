// SPDX-License-Identifier: Apache-2.0
#include "check/rank_kinds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/invariant.h"
#include "check/arithmetic.h"
#include "check/messages.h"
#include "check/saved_activations.h"
#include "check/stage_peaks.h"
#include "check/static_memory.h"
#include "check/step_time.h"
#include "check/verdict.h"

namespace espalier::check {
namespace {

double speed_of(const NodeGroup& group, std::int64_t device) {
  for (const DeviceSpeed& unlike : group.speed)
    if (unlike.device == device) return unlike.factor;
  return 1.0;
}

std::int64_t sum_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Evaluates derive(view) by stage or chunk, each under the samples of its stage's kind; `stage(n)` is the stage of
/// entry n.
template <class Derive, class StageOf>
std::vector<std::int64_t> under_own_samples(const View& view, const Derive& derive, const StageOf& stage) {
  std::vector<std::int64_t> out;
  std::vector<std::int64_t> seen;
  for (const std::int64_t samples : view.samples_of_stage) {
    if (std::find(seen.begin(), seen.end(), samples) != seen.end()) continue;
    seen.push_back(samples);
    View own = view;
    own.replica_samples = samples;
    const std::vector<std::int64_t> derived = derive(own);
    out.resize(derived.size());
    for (std::size_t n = 0; n < derived.size(); ++n)
      if (view.samples_of_stage[stage(n)] == samples) out[n] = derived[n];
  }
  return out;
}

/// Compares one kind's claims with the values derived for it.
class KindCheck {
 public:
  KindCheck(const View& view, std::size_t kind, const Claims& claims)
      : view_(view_of_kind(view, kind)), kind_(kind), claims_(claims) {}

  [[nodiscard]] bool shape(Verdict& verdict) const {
    const auto p = static_cast<std::size_t>(view_.stages), chunks = view_.chunks.size();
    return verdict.require(claims_.static_bytes_per_stage.size() == p && claims_.gradient_bytes_per_stage.size() == p &&
                               claims_.peak_bytes_per_stage.size() == p && claims_.saved_bytes_per_chunk.size() == chunks &&
                               claims_.boundary_bytes_per_chunk.size() == chunks,
                           [&] { return say("kind ", kind_, ": the number of values differs from that of stages and chunks"); });
  }

  void memory(Verdict& fixed, Verdict& saved) const {
    const std::vector<std::int64_t> states = static_bytes_per_stage(view_), kept = saved_();
    // The planner rounds up each kind of state of each strategy of a stage.
    constexpr double kRounding = 64;
    for (std::size_t i = 0; i < states.size(); ++i)
      near(fixed, "stage", i, claims_.static_bytes_per_stage[i], states[i], kRounding);
    for (std::size_t c = 0; c < kept.size(); ++c) {
      const double slack = 16.0 * (view_.chunks[c].last() - view_.chunks[c].first() + 1) + 1e-6 * static_cast<double>(kept[c]);
      near(saved, "chunk", c, claims_.saved_bytes_per_chunk[c], kept[c], slack);
    }
  }

  void messages(Verdict& gradients, Verdict& boundaries) const {
    const std::vector<std::int64_t> reduced = gradient_bytes_per_stage(view_);
    for (std::size_t i = 0; i < reduced.size(); ++i)
      near(gradients, "stage", i, claims_.gradient_bytes_per_stage[i], reduced[i], 0.0);
    if (kind_ > 0) return;  // the program shows only messages of the first kind
    const auto by_chunk = [this](std::size_t c) { return static_cast<std::size_t>(view_.stage_of[c]); };
    const std::vector<std::int64_t> sent = under_own_samples(
        view_, [](const View& v) { return boundary_bytes_per_chunk(v); }, by_chunk);
    for (std::size_t c = 0; c < sent.size(); ++c) {
      const std::size_t here = by_chunk(c), before = c == 0 ? here : by_chunk(c - 1);
      // These are neighbouring kinds with different numbers of samples.
      if (view_.samples_of_stage[here] != view_.samples_of_stage[before]) continue;
      near(boundaries, "chunk", c, claims_.boundary_bytes_per_chunk[c], sent[c], 0.0);
    }
  }

  void peaks(const Program& program, Verdict& peak, Verdict& limit) const {
    const std::vector<PeakBytes> derived = peak_bytes_per_stage(view_, program, static_bytes_per_stage(view_), saved_());
    for (std::size_t i = 0; i < derived.size(); ++i) {
      peak.require(derived[i].admits(claims_.peak_bytes_per_stage[i]), [&] {
        return say("stage ", i, ", kind ", kind_, ": claimed peak ", claims_.peak_bytes_per_stage[i], " bytes, derived ",
                   derived[i].least, " to ", derived[i].most);
      });
      const std::int64_t usable = usable_bytes(*view_.cluster, view_.group_of_stage[i]);
      limit.require(claims_.peak_bytes_per_stage[i] <= usable, [&] {
        return say("stage ", i, ", kind ", kind_, " peaks at ", claims_.peak_bytes_per_stage[i], " bytes, the limit is ", usable);
      });
    }
  }

  [[nodiscard]] std::int64_t least_ns(const Program& program) const { return step_time(view_, program).least_ns; }

 private:
  [[nodiscard]] std::vector<std::int64_t> saved_() const {
    return under_own_samples(
        view_, [](const View& v) { return saved_bytes_per_chunk(v); },
        [this](std::size_t c) { return static_cast<std::size_t>(view_.stage_of[c]); });
  }
  void near(Verdict& verdict, const char* unit, std::size_t n, std::int64_t claimed, std::int64_t derived, double slack) const {
    verdict.require(std::abs(static_cast<double>(claimed) - static_cast<double>(derived)) <= slack,
                    [&] { return say(unit, " ", n, ", kind ", kind_, ": claimed ", claimed, " bytes, derived ", derived); });
  }

  View view_;
  std::size_t kind_;
  const Claims& claims_;
};

}  // namespace

std::size_t most_kinds(const Pipeline& pipeline, const Cluster& cluster) {
  std::size_t most = 1;
  for (const Stage& stage : pipeline.stages) most = std::max(most, kinds_of(stage, cluster).size());
  return most;
}

std::vector<RankKind> kinds_of(const Stage& stage, const Cluster& cluster) {
  std::vector<RankKind> out;
  const auto tp = static_cast<std::size_t>(stage.chunks.front().ranges.front().strategy.tp);
  std::size_t place = 0;
  for (const DeviceRange& range : stage.devices)
    for (std::int64_t n = 0; n < range.count; ++n, ++place) {
      const std::int64_t device = range.first + n * range.stride;
      RankKind kind;
      kind.group = group_of_device(cluster, device);
      kind.speed = speed_of(cluster.groups[kind.group], device);
      const std::size_t replica = place / tp;
      if (!stage.samples_per_replica.empty()) kind.samples = stage.samples_per_replica[replica];
      if (!stage.state_shares.empty())
        kind.states = static_cast<double>(stage.state_shares[replica]) * static_cast<double>(stage.state_shares.size()) /
                      static_cast<double>(sum_of(stage.state_shares));
      if (std::find(out.begin(), out.end(), kind) == out.end()) out.push_back(kind);
    }
  return out;
}

bool has_rank_kinds(const Pipeline& pipeline, const Cluster& cluster) {
  return std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
    if (stage.devices.empty()) return false;  // There is no kind: the structure of the plan is not sound.
    const DeviceRange& first = stage.devices.front();
    if (!stage.samples_per_replica.empty() || !stage.state_shares.empty()) return true;
    if (stage.devices.size() > 1 || (first.count > 1 && first.stride != 1)) return true;
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (range.strategy.order != RankOrder::tp_cp_dp_pp) return true;
    return group_of_device(cluster, first.first) != group_of_device(cluster, first.first + first.count - 1);
  });
}

View view_of_kind(const View& view, std::size_t kind) {
  View out = view;
  out.group_of_stage.clear();
  out.speed_of_stage.clear();
  for (const Stage& stage : view.pipeline->stages) {
    const std::vector<RankKind> kinds = kinds_of(stage, *view.cluster);
    const RankKind& own = kinds[std::min(kind, kinds.size() - 1)];
    out.group_of_stage.push_back(own.group);
    out.speed_of_stage.push_back(own.speed);
    out.samples_of_stage.push_back(own.samples);
    out.states_of_stage.push_back(own.states);
  }
  out.free_network = true;
  return out;
}

Finding check_shares(const Pipeline& pipeline) {
  Verdict verdict("replica-shares");
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const Stage& stage = pipeline.stages[i];
    const Strategy& s = stage.chunks.front().ranges.front().strategy;
    const auto above_zero = [](const std::vector<std::int64_t>& all) {
      return std::all_of(all.begin(), all.end(), [](std::int64_t n) { return n > 0; });
    };
    if (!stage.samples_per_replica.empty()) {
      const std::int64_t all = sum_of(stage.samples_per_replica),
                         wanted = pipeline.schedule.micro_batch * std::int64_t{pipeline.strategy().dp};
      verdict.require(static_cast<std::int64_t>(stage.samples_per_replica.size()) == s.dp &&
                          above_zero(stage.samples_per_replica) && all == wanted,
                      [&] {
                        return say("stage ", i, ": samples of ", stage.samples_per_replica.size(), " replicas, ", all, " of ",
                                   wanted);
                      });
    }
    if (!stage.state_shares.empty())
      verdict.require(static_cast<std::int64_t>(stage.state_shares.size()) == s.shard && above_zero(stage.state_shares), [&] {
        return say("stage ", i, ": ", stage.state_shares.size(), " shares of states for ", s.shard, " ranks");
      });
  }
  return verdict.finding("samples and states are shared among all replicas");
}

std::vector<Finding> check_claims_of_kinds(const View& view, const Program& program, bool replayable, const Claims& claims) {
  Verdict shape("claims-shape"), fixed("static-memory"), saved("saved-activations"), boundaries("boundary-messages"),
      gradients("gradient-messages"), limit("memory-limit"), peak("peak-memory"), time("time-bounds");
  const std::size_t most = most_kinds(*view.pipeline, *view.cluster);
  // All stages have one kind, on devices in an order of their own: the claims are those of that kind.
  const std::vector<Claims> of_one{claims};
  const std::vector<Claims>& kinds = claims.kinds.empty() && most == 1 ? of_one : claims.kinds;
  // One of several pipelines may have more kinds than another. The last kind of the latter then stands for the
  // missing ones.
  bool usable =
      shape.require(kinds.size() >= most, [&] { return say("claims of ", kinds.size(), " kinds of ranks, there are ", most); });
  std::int64_t least = 0;
  for (std::size_t k = 0; k < most && usable; ++k) {
    const KindCheck check(view, k, kinds[k]);
    usable = check.shape(shape);
    if (!usable) break;
    check.memory(fixed, saved);
    check.messages(gradients, boundaries);
    if (!replayable) continue;
    check.peaks(program, peak, limit);
    least = std::max(least, check.least_ns(program));
  }
  time.require(claims.iteration_ns > 0 && claims.iteration_ns >= least,
               [&] { return say("claimed ", claims.iteration_ns, " ns, the arithmetic alone takes ", least, " ns"); });
  std::vector<Finding> findings = {shape.finding(say(most, " kinds of ranks"))};
  if (!usable) return findings;
  findings.push_back(fixed.finding("as derived for every kind of rank"));
  findings.push_back(saved.finding("as derived for every kind of rank"));
  findings.push_back(boundaries.finding("as derived"));
  findings.push_back(gradients.finding("as derived"));
  if (!replayable) return findings;
  findings.push_back(limit.finding("every kind of rank within the usable memory of its device"));
  findings.push_back(peak.finding("every peak within 2 % of the derived one"));
  if (view.part == PlanPart::whole)
    findings.push_back(time.finding(say(claims.iteration_ns, " ns, the arithmetic alone ", least,
                                        " ns; no upper bound is derived for stages on devices in any order")));
  return findings;
}

}  // namespace espalier::check
