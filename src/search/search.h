// SPDX-License-Identifier: Apache-2.0
// Searches the uniform space under the simulated time and certifies the answer.
//
// Two searches exist.
// - `branch_and_bound` sorts the choices of the layer group by bound and expands them in batches of fixed size. It
//   sorts their surviving configurations by bound and simulates them in groups of fixed size. The incumbent changes
//   only between groups. Hence the answer and every counter are the same for any number of threads. The search ends
//   when every remaining bound exceeds the incumbent: then no configuration of the space is faster. Among equally
//   fast configurations the answer is the first by canonical text.
// - `exhaustive` simulates every legal configuration. It is the reference of the tests.
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
  const PartitionChoices* partitions = nullptr;  ///< operator partitions that strategies may also use
  /// Bounds steps of at least the global batch instead of returning plans (RuleFacts::at_least).
  bool at_least = false;
};

/// Returns the recomputation that a block may have under the job's search section. Full recomputation is that of one
/// block.
std::vector<Recompute> layer_recomputes(const Problem& problem);

/// Reports the progress of a search.
struct Progress {
  std::string_view phase;     ///< "uniform", "layer-wise", "operators", …
  std::int64_t done = 0;      ///< number of units finished
  std::int64_t total = 0;     ///< 0: unknown
  std::string_view unit;      ///< name of the unit counted
  std::int64_t best_ns = 0;   ///< incumbent; 0: none yet
  std::int64_t bound_ns = 0;  ///< lower bound of everything left in the phase; 0: unknown
};
/// Called often, from any thread; may be empty.
using ProgressCallback = std::function<void(const Progress&)>;

struct Options {
  int threads = 1;
  std::int64_t node_limit = 0;  ///< limit on simulated configurations; 0: no limit
  /// Number of leaves simulated before the incumbent is read again. It affects which leaves are simulated, but not
  /// the answer; it is the same for any number of threads.
  std::size_t side_by_side = 16;
  PruningState pruning;
  /// Ranks configurations by this preference instead of by time. The outcome then has no lower bound, and counts only
  /// the part of the space that could still be preferred to the seeds.
  std::optional<Preference> preference;
  double keep_within = 0;  ///< if positive, Outcome::known holds bounds up to (1 + keep_within) times the answer
  /// Bounds from a search of the same problem. With a preference or slowest_ns, these must lie within the bounds that
  /// it kept.
  const KnownBounds* known = nullptr;
  std::int64_t slowest_ns = INT64_MAX;  ///< slower configurations are ignored
  /// Record of a search of the same problem before its cluster changed. It must not be combined with a preference
  /// or known bounds.
  const Carried* carried = nullptr;
  bool keep_record = false;  ///< a finished search fills Outcome::record
  /// Configurations that are tried first if they belong to the space (the baselines). They give a good early incumbent.
  std::vector<Configuration> seeds;
  std::function<bool()> interrupted;  ///< polled often, from any thread; once true, it stays true
  ProgressCallback progress;
};

struct Candidate {
  Configuration configuration;
  std::int64_t iteration_ns = 0;
  std::int64_t peak_bytes = 0;
};

struct Outcome {
  std::optional<Candidate> best;
  std::vector<Candidate> simulated;  ///< plans that fit, by (time, canonical text); at most 4096 are kept
  double space_size = 0;
  std::map<std::string, std::map<std::int64_t, double>> by_dimension;
  std::int64_t bounded = 0, simulations = 0;
  /// Programs timed, seeds and probes included. Equal timings, and those of an earlier search, count once.
  std::int64_t lowered = 0;
  PruningState pruning;
  bool complete = true;  ///< false after a limit or an interruption
  bool interrupted = false;
  std::int64_t lower_bound_ns = 0;  ///< equals best when complete
  KnownBounds known;                ///< filled with Options::keep_within
  /// Is filled with Options::keep_record, if the search finished with every rule enabled and found a plan.
  std::optional<SearchRecord> record;
};

Outcome branch_and_bound(const Problem& problem, Evaluator& evaluator, const Options& options);
Outcome exhaustive(const Problem& problem, Evaluator& evaluator, const Options& options);

}  // namespace espalier::search
