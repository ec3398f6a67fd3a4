// SPDX-License-Identifier: Apache-2.0
// Observations of a running plan, and what to do about them. Nothing is executed: the answer
// names the action and its cost.
//
//   auto seen = adapt::load_observation(text, "obs.json");
//   auto answer = adapt::replan(*job, plan, *seen, {});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/adapt.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::adapt {

/// Holds one observed step.
struct StepSeen {
  double iteration_s = 0;
  std::optional<double> tokens;  ///< tokens of the step; absent: those of the plan
};
/// Holds the observed times of one rank.
struct RankSeen {
  std::int64_t rank = 0;                 ///< device of the cluster
  double forward_s = 0, backward_s = 0;  ///< per micro-batch
};
/// Holds the observed rate of one link.
struct LinkSeen {
  std::string link;  ///< "a-b", or "node:3" for its network connection
  double gbps = 0;
};

/// Holds a document of schema espalier.observation/1.
struct Observation {
  double time_s = 0;
  std::string plan;  ///< content hash of the running plan; empty: not stated
  std::vector<StepSeen> steps;
  std::vector<RankSeen> ranks;
  std::vector<LinkSeen> links;
  std::vector<std::string> lost;  ///< "node:3"
};
/// Reads an observation; `where` names the text in messages.
Result<Observation> load_observation(std::string_view text, const std::string& where);
/// Returns the text that load_observation() reads.
std::string to_json(const Observation& seen);

/// Holds the state of the cluster that an observation implies (docs/adapt.md, "What is slow").
struct Diagnosis {
  Disturbance what;
  /// Holds a step at the plan's own number of tokens: the mean over steps of duration · (tokens of the plan / tokens
  /// of the step). None: no steps were observed.
  std::optional<double> step_s;
  double tokens_ratio = 1;  ///< mean tokens of a step over those of the plan
  std::vector<std::string> notes;
};
/// Compares an observation with the plan and the cluster. A rank is slow if it takes at least `least` × the median of
/// the ranks that run the same stage. A link is degraded if it reaches at most 1/`least` of the rate stated for the
/// cluster. Steps with longer or shorter samples affect all ranks of a stage equally, so no rank counts as slow.
Result<Diagnosis> diagnose(const Job& job, const Plan& plan, const Observation& seen, double least = 1.05);

/// Holds a diagnosis and the possible actions.
struct Replan {
  Diagnosis diagnosis;
  std::optional<WhatIf> ladder;  ///< none: nothing is wrong, and the plan stays
};
/// Returns the diagnosis of an observation and the ladder of actions.
Result<Replan> replan(const Job& job, const Plan& plan, const Observation& seen, const ChangeOptions& options);

/// Returns JSON of schema espalier.change/1: the recommended action, and the ladder.
std::string to_json(const Replan& answer, const Plan& plan);
/// Returns text for a terminal.
std::string to_text(const Replan& answer);

}  // namespace espalier::adapt
