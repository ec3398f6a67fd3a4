// SPDX-License-Identifier: Apache-2.0
#include "check/claims.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/arithmetic.h"
#include "check/messages.h"
#include "check/program_tables.h"
#include "check/saved_activations.h"
#include "check/static_memory.h"
#include "check/time_bound.h"
#include "check/verdict.h"

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

/// Claimed and derived values, equal within `slack(n)`.
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

Finding check_peak(const Program& program, bool replayable, const Claims& claims, const std::vector<std::int64_t>& fixed,
                   const std::vector<std::int64_t>& saved) {
  Verdict verdict("peak-memory");
  std::vector<std::int64_t> activations(fixed.size(), 0);
  if (replayable) {
    for (const RankProgram& rank : program.ranks) {
      std::int64_t& most = activations[static_cast<std::size_t>(rank.stage)];
      most = std::max(most, most_saved_bytes(program, rank, saved));
    }
  }
  const double slack = 1.0 - 1e-6;  // of the saved activations, as above
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    const double least = static_cast<double>(fixed[i]) + slack * static_cast<double>(activations[i]);
    verdict.require(static_cast<double>(claims.peak_bytes_per_stage[i]) >= least, [&] {
      return say("stage ", i, ": claimed peak ", claims.peak_bytes_per_stage[i], " bytes, static ", fixed[i], " + in flight ",
                 activations[i]);
    });
  }
  return verdict.finding("every peak holds static memory and the activations in flight");
}

std::int64_t usable_bytes(const View& view) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const NodeGroup& group : view.cluster->groups) {
    least = std::min(least, group.device.memory.count() - group.device.context_reserve.count());
  }
  return view.cluster->memory_limit ? std::min(least, view.cluster->memory_limit->count()) : least;
}

Finding check_limit(const View& view, const Claims& claims) {
  Verdict verdict("memory-limit");
  const std::int64_t usable = usable_bytes(view);
  verdict.require(claims.memory_limit_bytes <= usable,
                  [&] { return say("claimed limit ", claims.memory_limit_bytes, " bytes, the device leaves ", usable); });
  for (std::size_t i = 0; i < claims.peak_bytes_per_stage.size(); ++i) {
    verdict.require(claims.peak_bytes_per_stage[i] <= std::min(usable, claims.memory_limit_bytes), [&] {
      return say("stage ", i, " peaks at ", claims.peak_bytes_per_stage[i], " bytes, the limit is ",
                 std::min(usable, claims.memory_limit_bytes));
    });
  }
  return verdict.finding(say("all peaks within ", claims.memory_limit_bytes, " bytes"));
}

Finding check_time(const View& view, const Claims& claims) {
  Verdict verdict("time-lower-bound");
  const std::int64_t bound = time_lower_bound_ns(view);
  verdict.require(claims.iteration_ns >= bound && claims.iteration_ns > 0,
                  [&] { return say("claimed ", claims.iteration_ns, " ns, the arithmetic alone takes ", bound, " ns"); });
  return verdict.finding(say(claims.iteration_ns, " ns, at least ", bound, " ns needed"));
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
  findings.push_back(check_peak(program, replayable, claims, fixed, saved));
  findings.push_back(check_limit(view, claims));
  findings.push_back(check_time(view, claims));
  return findings;
}

}  // namespace espalier::check
