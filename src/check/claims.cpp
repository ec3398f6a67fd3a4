// SPDX-License-Identifier: Apache-2.0
#include "check/claims.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/arithmetic.h"
#include "check/messages.h"
#include "check/network_time.h"
#include "check/pipelines.h"
#include "check/rank_kinds.h"
#include "check/saved_activations.h"
#include "check/stage_peaks.h"
#include "check/static_memory.h"
#include "check/step_time.h"
#include "check/verdict.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

Finding check_shape(const View& view, const Claims& claims) {
  Verdict verdict("claims-shape");
  const auto p = static_cast<std::size_t>(view.stages), chunks = view.chunks.size();
  const auto expect = [&](const char* name, std::size_t found, std::size_t expected) {
    verdict.require(found == expected, [&] { return say(name, ": ", found, " values, expected ", expected); });
  };
  expect("static memory", claims.static_bytes_per_stage.size(), p);
  expect("saved activations", claims.saved_bytes_per_chunk.size(), chunks);
  expect("boundary messages", claims.boundary_bytes_per_chunk.size(), chunks);
  expect("gradient messages", claims.gradient_bytes_per_stage.size(), p);
  expect("peak memory", claims.peak_bytes_per_stage.size(), p);
  return verdict.finding(say(p, " stages, ", chunks, " chunks"));
}

/// Compares claimed with derived values, which must agree within `slack(n)`.
template <class Slack>
Finding compare(const char* name, const char* unit, const std::vector<std::int64_t>& claimed,
                const std::vector<std::int64_t>& derived, const Slack& slack) {
  Verdict verdict(name);
  for (std::size_t n = 0; n < derived.size(); ++n) {
    const double difference = std::abs(static_cast<double>(claimed[n]) - static_cast<double>(derived[n]));
    verdict.require(difference <= slack(n),
                    [&] { return say(unit, " ", n, ": claimed ", claimed[n], " bytes, derived ", derived[n]); });
  }
  return verdict.finding(say("as derived; ", unit, " 0: ", derived.front(), " bytes"));
}

Finding check_saved(const View& view, const Claims& claims, const std::vector<std::int64_t>& derived) {
  return compare("saved-activations", "chunk", claims.saved_bytes_per_chunk, derived, [&](std::size_t c) {
    return 16.0 * (view.chunks[c].last() - view.chunks[c].first() + 1) + 1e-6 * static_cast<double>(derived[c]);
  });
}

Finding check_peak(const View& view, const Program& program, const Claims& claims, const std::vector<std::int64_t>& fixed,
                   const std::vector<std::int64_t>& saved) {
  Verdict verdict("peak-memory");
  const std::vector<PeakBytes> derived = peak_bytes_per_stage(view, program, fixed, saved);
  for (std::size_t i = 0; i < derived.size(); ++i) {
    verdict.require(derived[i].admits(claims.peak_bytes_per_stage[i]), [&] {
      return say("stage ", i, ": claimed peak ", claims.peak_bytes_per_stage[i], " bytes, derived ", derived[i].least,
                 derived[i].most > derived[i].least ? say(" to ", derived[i].most) : std::string());
    });
  }
  return verdict.finding(say("every peak within 2 % of the derived one; stage 0: ", derived.front().least, " bytes"));
}

/// Checks the claimed limit, which is the smallest over the device kinds used. Each stage must stay below that of its
/// own kind.
Finding check_limit(const View& view, const Claims& claims) {
  Verdict verdict("memory-limit");
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const auto usable = [&](std::size_t stage) {
    return usable_bytes(*view.cluster, view.group_of_stage.empty() ? 0 : view.group_of_stage[stage]);
  };
  for (std::size_t i = 0; i < claims.peak_bytes_per_stage.size(); ++i) least = std::min(least, usable(i));
  const bool part = view.part == PlanPart::of_several;
  verdict.require(part ? claims.memory_limit_bytes <= least : claims.memory_limit_bytes == least, [&] {
    return say("claimed limit ", claims.memory_limit_bytes, " bytes, the device has ", least, " usable bytes");
  });
  for (std::size_t i = 0; i < claims.peak_bytes_per_stage.size(); ++i) {
    verdict.require(claims.peak_bytes_per_stage[i] <= usable(i), [&] {
      return say("stage ", i, " peaks at ", claims.peak_bytes_per_stage[i], " bytes, the limit is ", usable(i));
    });
  }
  return verdict.finding(view.group_of_stage.empty()
                             ? say("all peaks within ", least, " bytes")
                             : say("all peaks within the usable memory of their devices, at least ", least, " bytes"));
}

/// Checks the bytes that the devices of a node keep in its host's memory: states, and activations that wait there.
/// Each device counts as much as one of the fullest stage.
Finding check_host(const View& view, const Program& program, bool replayable) {
  Verdict verdict("host-memory");
  std::int64_t most = 0;
  std::vector<std::int64_t> bytes = host_bytes_per_stage(view);
  if (replayable) {
    const std::vector<std::int64_t> waiting = waiting_on_hosts(view, program);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += waiting[i];
  }
  for (const std::int64_t of_stage : bytes) most = std::max(most, of_stage);
  for (const NodeGroup& group : view.cluster->groups)
    verdict.require(most == 0 || most * group.devices_per_node <= group.host.memory.count(), [&] {
      return say(group.devices_per_node, " devices put ", most, " bytes each into the ", group.host.memory.count(),
                 " bytes of their host");
    });
  return verdict.finding(most == 0 ? "nothing is kept on hosts" : say("at most ", most, " bytes per device"));
}

Finding check_time(const View& view, const Program& program, const Claims& claims) {
  Verdict verdict("time-bounds");
  constexpr double kSerialSlack = 1.5;
  const StepTimeRange bounds = step_time(view, program);
  const double most = kSerialSlack * static_cast<double>(bounds.most_ns);
  verdict.require(claims.iteration_ns > 0 && claims.iteration_ns >= bounds.least_ns,
                  [&] { return say("claimed ", claims.iteration_ns, " ns, the program alone takes ", bounds.least_ns, " ns"); });
  verdict.require(static_cast<double>(claims.iteration_ns) <= most, [&] {
    return say("claimed ", claims.iteration_ns, " ns, without any overlap it takes ", bounds.most_ns, " ns");
  });
  return verdict.finding(say(claims.iteration_ns, " ns, between ", bounds.least_ns, " and ", bounds.most_ns, " ns"));
}

}  // namespace

std::vector<Finding> check_claims(const View& view, const Program& program, bool replayable, const Claims& claims) {
  std::vector<Finding> findings = {check_shape(view, claims)};
  if (!findings.back().ok) return findings;
  const auto exactly = [](std::size_t) { return 0.0; };
  const std::vector<std::int64_t> fixed = static_bytes_per_stage(view), saved = saved_bytes_per_chunk(view);
  findings.push_back(compare("static-memory", "stage", claims.static_bytes_per_stage, fixed, exactly));
  findings.push_back(check_saved(view, claims, saved));
  findings.push_back(
      compare("boundary-messages", "chunk", claims.boundary_bytes_per_chunk, boundary_bytes_per_chunk(view), exactly));
  findings.push_back(
      compare("gradient-messages", "stage", claims.gradient_bytes_per_stage, gradient_bytes_per_stage(view), exactly));
  findings.push_back(check_limit(view, claims));
  const auto offloads = [](const LayerRange& range) { return range.strategy.offload != Offload::none; };
  if (std::any_of(view.chunks.begin(), view.chunks.end(),
                  [&](const Chunk& c) { return std::any_of(c.ranges.begin(), c.ranges.end(), offloads); }))
    findings.push_back(check_host(view, program, replayable));
  if (!replayable) return findings;  // Peak and time depend on the program.
  findings.push_back(check_peak(view, program, claims, fixed, saved));
  if (view.part == PlanPart::whole) findings.push_back(check_time(view, program, claims));
  return findings;
}

namespace {

/// Returns the bounds of the step of several pipelines. If ranks of a stage differ, the lower bound is the largest
/// over their kinds, and no upper bound exists.
StepTimeRange bounds_of_several(const Plan& plan, const std::vector<View>& views, const Program& program, std::size_t kinds) {
  if (kinds == 0) return step_time_of_several(plan, views, program);
  StepTimeRange bounds{0, std::numeric_limits<std::int64_t>::max()};
  for (std::size_t k = 0; k < kinds; ++k) {
    std::vector<View> of_kind;
    for (const View& view : views) of_kind.push_back(view_of_kind(view, k));
    bounds.least_ns = std::max(bounds.least_ns, step_time_of_several(plan, of_kind, program).least_ns);
  }
  return bounds;
}

}  // namespace

std::vector<Finding> check_claims_of_several(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program,
                                             const Claims& claims, const EngineModel* engine) {
  constexpr double kSerialSlack = 1.5;
  Verdict limit("memory-limit-of-all"), time("time-bounds");
  std::vector<View> views;
  const std::vector<Plan> own = plans_alone(plan);
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
  std::size_t kinds = 0;  // 0: all ranks of every stage are alike
  for (const Plan& alone : own) views.push_back(make_view(alone, model, cluster, PlanPart::of_several, engine));
  for (const Pipeline& pipeline : plan.pipelines) {
    for (const Stage& stage : pipeline.stages)
      for (const RankKind& kind : kinds_of(stage, cluster))
        least_bytes = std::min(least_bytes, usable_bytes(cluster, kind.group));
    if (has_rank_kinds(pipeline, cluster)) kinds = std::max(kinds, most_kinds(pipeline, cluster));
  }
  const StepTimeRange bounds = bounds_of_several(plan, views, program, kinds);
  limit.require(claims.memory_limit_bytes == least_bytes, [&] {
    return say("claimed limit ", claims.memory_limit_bytes, " bytes, the devices have at least ", least_bytes, " usable bytes");
  });
  time.require(claims.iteration_ns > 0 && claims.iteration_ns >= bounds.least_ns,
               [&] { return say("claimed ", claims.iteration_ns, " ns, the program alone takes ", bounds.least_ns, " ns"); });
  if (kinds > 0)
    return {limit.finding(say("the smallest device has ", least_bytes, " usable bytes")),
            time.finding(say(claims.iteration_ns, " ns, the arithmetic alone ", bounds.least_ns,
                             " ns; no upper bound is derived for stages on devices in any order"))};
  time.require(static_cast<double>(claims.iteration_ns) <= kSerialSlack * static_cast<double>(bounds.most_ns),
               [&] { return say("claimed ", claims.iteration_ns, " ns, without any overlap it takes ", bounds.most_ns, " ns"); });
  return {limit.finding(say("the smallest device has ", least_bytes, " usable bytes")),
          time.finding(say(claims.iteration_ns, " ns, between ", bounds.least_ns, " and ", bounds.most_ns, " ns"))};
}

}  // namespace espalier::check
