// SPDX-License-Identifier: Apache-2.0
// Simulates configurations concurrently: memory first, then the pipeline alone where it is known (pipeline_floor.h),
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
  /// Latest ends of the last passes of its pipeline, by stage (pipeline_floor.h).
  std::vector<std::int64_t> latest_pass_ends;
};

class LeafJudge {
 public:
  /// `work` holds one workspace per worker.
  LeafJudge(SearchFrame& frame, Evaluator& evaluator, std::vector<Workspace>& work)
      : frame_(frame), evaluator_(evaluator), work_(work) {}
  /// Simulates one configuration, whatever its bounds.
  LeafVerdict verdict(const Configuration& c, int worker);
  /// Simulates leaves [begin, end) concurrently. The first pass takes one leaf of each pipeline that was not seen
  /// yet, the second pass the others. After each pass the incumbent is updated in order.
  void judge(const std::vector<Leaf>& leaves, std::size_t begin, std::size_t end);

 private:
  struct ByText {
    bool operator()(const Configuration& a, const Configuration& b) const { return canonical_less(a, b); }
  };
  LeafVerdict verdict(const Leaf& leaf, int worker);
  void judge_all(const std::vector<const Leaf*>& leaves);
  void take(const Leaf& leaf, const LeafVerdict& v);
  void note_pipeline(const Configuration& c, const std::vector<std::int64_t>& latest_ends);
  /// Fills the costs of a configuration into w, and returns its memory.
  LeafVerdict memory_of(const Configuration& c, Workspace& w, int worker);
  std::int64_t time_of(const Configuration& c, Workspace& w, int worker);
  [[nodiscard]] bool floor_beats(const Configuration& c, Workspace& w, int worker);

  SearchFrame& frame_;
  Evaluator& evaluator_;
  std::vector<Workspace>& work_;
  /// Holds the fastest simulated configuration of each schedule choice, in groups that are judged.
  std::map<Configuration, std::int64_t, ByText> fastest_;
  /// Holds the pipelines of which some configuration was simulated: by stage, the latest possible end of its last
  /// pass.
  std::map<Configuration, std::vector<std::int64_t>, ByText> timed_pipelines_;
};

}  // namespace espalier::search
