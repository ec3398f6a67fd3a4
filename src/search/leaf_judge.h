// SPDX-License-Identifier: Apache-2.0
// Configurations, simulated side by side: memory first, then the pipeline alone where it is known (pipeline_floor.h),
// then the whole program.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "search/frame.h"

namespace espalier::search {

struct LeafVerdict {
  bool judged = false;       ///< false: its bound exceeded the incumbent
  bool floor_beats = false;  ///< not timed: its pipeline alone takes too long (Pruning::pipeline_floor)
  bool fits = false;
  std::int64_t iteration_ns = 0, peak_bytes = 0;
  std::vector<std::int64_t> latest_pass_ends;  ///< of its pipeline, by stage (pipeline_floor.h)
};

class LeafJudge {
 public:
  /// `work`: one workspace a worker.
  LeafJudge(SearchFrame& frame, Evaluator& evaluator, std::vector<Workspace>& work)
      : frame_(frame), evaluator_(evaluator), work_(work) {}
  /// Of one configuration, whatever its bounds.
  LeafVerdict verdict(const Configuration& c, int worker);
  /// Simulates leaves [begin, end): first side by side those with pipelines that were not met yet, one of each, then
  /// the others; after either the incumbent is updated in order.
  void judge(const std::vector<Leaf>& leaves, std::size_t begin, std::size_t end);

 private:
  struct ByText {
    bool operator()(const Configuration& a, const Configuration& b) const { return canonical_less(a, b); }
  };
  LeafVerdict verdict(const Leaf& leaf, int worker);
  void judge_all(const std::vector<const Leaf*>& leaves);
  void take(const Leaf& leaf, const LeafVerdict& v);
  void note_pipeline(const Configuration& c, const std::vector<std::int64_t>& latest_ends);
  /// Fills the costs of a configuration into w, and says what it holds.
  LeafVerdict memory_of(const Configuration& c, Workspace& w, int worker);
  std::int64_t time_of(const Configuration& c, Workspace& w, int worker);
  [[nodiscard]] bool floor_beats(const Configuration& c, Workspace& w, int worker);

  SearchFrame& frame_;
  Evaluator& evaluator_;
  std::vector<Workspace>& work_;
  std::map<Configuration, std::int64_t, ByText> fastest_;  ///< simulated one of each schedule choice, in groups that
                                                           ///< are judged
  /// Of pipelines of which some configuration was simulated: by stage, when its last pass ends at the latest.
  std::map<Configuration, std::vector<std::int64_t>, ByText> timed_pipelines_;
};

}  // namespace espalier::search
