// SPDX-License-Identifier: Apache-2.0
// What was seen of a running plan, and what to do about it. Nothing is executed: the answer says what would be done,
// and what it would cost.
//
//   auto seen = load_observation(text, "obs.json");
//   auto answer = replan(*job, plan, *seen, {});
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

namespace espalier {

struct StepSeen {
  double iteration_s = 0;
  double tokens = 0;  ///< that the step trained on; 0: those of the plan
};
struct RankSeen {
  std::int64_t rank = 0;                 ///< device of the cluster
  double forward_s = 0, backward_s = 0;  ///< of a micro-batch
};
struct LinkSeen {
  std::string link;  ///< "a-b", or "node:3": its way to the network
  double gbps = 0;
};

/// espalier.observation/1.
struct Observation {
  double time_s = 0;
  std::string plan;  ///< content hash of the plan that runs; empty: not said
  std::vector<StepSeen> steps;
  std::vector<RankSeen> ranks;
  std::vector<LinkSeen> links;
  std::vector<std::string> lost;  ///< "node:3"
};
Result<Observation> load_observation(std::string_view text, const std::string& where);
/// The text that load_observation() reads.
std::string to_json(const Observation& seen);

/// What the observation says of the cluster (docs/adapt.md, "What is slow").
struct Diagnosis {
  Disturbance what;
  /// A step of the plan's own number of tokens: mean over steps of iteration · (tokens of the plan / tokens of the
  /// step). None: no steps.
  std::optional<double> step_s;
  double tokens_ratio = 1;  ///< mean tokens of a step over those of the plan
  std::vector<std::string> notes;
};
/// A rank is slow by what it takes over the median of the ranks that run the same stage, from `least` on; a link narrow
/// by what it gives over what the cluster says, from 1/least on. Steps of longer or shorter samples change all ranks of
/// a stage alike and make none slow.
Result<Diagnosis> diagnose(const Job& job, const Plan& plan, const Observation& seen, double least = 1.05);

struct Replan {
  Diagnosis diagnosis;
  std::optional<WhatIf> ladder;  ///< none: nothing is wrong, the plan stays
};
Result<Replan> replan(const Job& job, const Plan& plan, const Observation& seen, const ChangeOptions& options);

/// espalier.change/1: the recommended action, and the ladder beside it.
std::string to_json(const Replan& answer, const Plan& plan);
std::string to_text(const Replan& answer);

}  // namespace espalier
