// SPDX-License-Identifier: Apache-2.0
// A job as it is searched: node groups sorted, the margin of the memory model kept free, and the options of the search.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "espalier/job.h"
#include "espalier/planner.h"
#include "planner/alternatives.h"
#include "planner/described.h"
#include "planner/group_baselines.h"
#include "planner/sorted_groups.h"
#include "planner/watch.h"
#include "search/phases.h"

namespace espalier::planner {

/// Holds everything that a search reads. It is not moved: the problem and the options point into it.
struct Question {
  Question(const Job& asked, const PlannerOptions& how, Watch& stop);
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  const Job& job;  ///< as asked: results describe it
  const PlannerOptions& options;
  Watch& watch;
  const bool equal;  ///< one group of equal devices: baselines are presets, and searches can be remembered
  const SortedGroups order;
  const Job sorted;  ///< `job` with its node groups in the order of the search
  const Job room;    ///< `sorted` with less memory: the margin for the error of the memory model stays free
  const EngineModel* engine = nullptr;
  search::Problem problem;  ///< the search problem that `room` poses
  search::PhaseOptions phases;
  std::optional<search::Carried> carried;  ///< from an earlier search, see PlannerOptions::memory

  [[nodiscard]] search::Options& how() { return phases.how; }
  [[nodiscard]] const search::Options& how() const { return phases.how; }
  /// Returns the memory of earlier searches; null: none, or the cluster is heterogeneous.
  [[nodiscard]] PlannerMemory* memory() const { return equal ? options.memory : nullptr; }
};

/// Returns an error for a job, pins, a rule or a phase that cannot be searched. All arguments outlive the question.
Result<std::unique_ptr<Question>> question_of(const Job& job, const PlannerOptions& options, Watch& watch);

/// Holds the plans that the answer is compared with: presets of equal devices, or plans of a heterogeneous cluster.
struct Baselines {
  std::vector<JudgedBaseline> presets;
  std::vector<ClusterBaseline> whole;
};

/// Judges the baselines and lets the search of the question start from them.
Baselines baselines_of(Question& question);

/// Runs the search of a question. Devices are numbered as in the cluster file.
search::SearchResult search_for(Question& question, search::Evaluator& evaluator);

}  // namespace espalier::planner
