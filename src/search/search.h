// SPDX-License-Identifier: Apache-2.0
// Certified search of the uniform space under the simulated time.
//
// branch_and_bound: choices of the layer group, sorted by bound, are expanded in batches of fixed size; their surviving
// configurations, sorted by bound, are simulated in groups of fixed size; the incumbent changes only between groups.
// Hence the answer and every counter are the same for any number of threads. It ends when every bound left exceeds the
// incumbent: then no configuration of the space is faster, and among equally fast ones the answer is the first by
// canonical text.
// exhaustive: simulates every legal configuration. The reference of the tests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/layer_cost.h"
#include "search/evaluator.h"
#include "search/known_bounds.h"
#include "search/preference.h"
#include "search/pruning.h"
#include "search/search_record.h"
#include "search/space.h"

namespace espalier::search {

struct Problem {
  const Model* model = nullptr;
  const Cluster* cluster = nullptr;
  Training training;
  const EngineModel* engine = nullptr;
  SearchSpace space;
  const PartitionChoices* partitions = nullptr;  ///< operator partitions that strategies may take besides
  bool at_least = false;                         ///< steps of the global batch or more samples: a bound over them, no
                                                 ///< plans
                                                 ///< (RuleFacts::at_least)
};

/// Where a search stands.
struct Progress {
  std::string_view phase;     ///< "uniform", "layer-wise", "operators", …
  std::int64_t done = 0;      ///< of what the phase counts
  std::int64_t total = 0;     ///< 0: not known
  std::string_view unit;      ///< what it counts
  std::int64_t best_ns = 0;   ///< incumbent; 0: none yet
  std::int64_t bound_ns = 0;  ///< nothing left in the phase is below it; 0: not known
};
/// Called often, from any thread; may be empty.
using ProgressCallback = std::function<void(const Progress&)>;

struct Options {
  int threads = 1;
  std::int64_t node_limit = 0;  ///< simulated configurations; 0 = no limit
  /// Leaves simulated before the incumbent is looked at again. It shapes what is simulated, not the answer: the same
  /// for any threads.
  std::size_t side_by_side = 16;
  PruningState pruning;
  /// What to minimise in place of time; the outcome then counts only the part of the space that could still be
  /// preferred to the seeds, and has no lower bound.
  std::optional<Preference> preference;
  double keep_within = 0;               ///< above 0: Outcome::known holds bounds up to (1 + keep_within) times the
                                        ///< answer
  const KnownBounds* known = nullptr;   ///< of a search of the same problem; with a preference or slowest_ns within
                                        ///< what it kept
  std::int64_t slowest_ns = INT64_MAX;  ///< slower configurations are no answers
  const Carried* carried =
      nullptr;  ///< of a search of the same problem before its cluster changed; not with a preference or known bounds
  bool keep_record = false;           ///< a finished search fills Outcome::record
  std::vector<Configuration> seeds;   ///< tried first if they belong to the space (the baselines): a good incumbent
                                      ///< early
  std::function<bool()> interrupted;  ///< polled all the time, from any thread; once true it stays so
  ProgressCallback progress;
};

struct Candidate {
  Configuration configuration;
  std::int64_t iteration_ns = 0;
  std::int64_t peak_bytes = 0;
};

struct Outcome {
  std::optional<Candidate> best;
  std::vector<Candidate> simulated;  ///< that fit, by (time, canonical text); at most 4096 kept
  double space_size = 0;
  std::map<std::string, std::map<std::int64_t, double>> by_dimension;
  std::int64_t bounded = 0, simulations = 0;
  std::int64_t lowered = 0;  ///< programs timed, seeds and probes included; equal timings, and what an earlier search
                             ///< timed, once
  PruningState pruning;
  bool complete = true;  ///< false: limit or interruption
  bool interrupted = false;
  std::int64_t lower_bound_ns = 0;     ///< = best when complete
  KnownBounds known;                   ///< with Options::keep_within
  std::optional<SearchRecord> record;  ///< with Options::keep_record, of a finished search with every rule, which found
                                       ///< something
};

Outcome branch_and_bound(const Problem& problem, Evaluator& evaluator, const Options& options);
Outcome exhaustive(const Problem& problem, Evaluator& evaluator, const Options& options);

}  // namespace espalier::search
