// SPDX-License-Identifier: Apache-2.0
// The one search: a table of phases over one problem, one evaluator, one incumbent and one certificate.
//
//   uniform             one strategy for all layers (search.h): branch and bound, or every configuration
//   layer-wise          every layer its own strategy, every stage its own layers (layerwise.h); starts from the uniform
//                       answer
//   operators           uniform strategies whose operators may be partitioned one by one (partition_choices.h)
//   operators by layer  layer-wise plans with such partitions
//   each group          uniform plans on one of several node groups (single_group.h)
//   device groups       stages on groups of unlike devices (device_groups.h): where the job lets plans lie on any
//                       devices. On a cluster of several
//                       node groups the phases above have no plans
//   whole cluster       uniform plans on all devices of several node groups, or of parts of them (whole_cluster.h)
//   unlike pipelines    pipelines next to each other, one on each of several node groups (multi_pipeline.h)
//   unequal replicas    one stage, its data-parallel replicas on several node groups with unequal samples and states
//                       (uneven_replicas.h)
//
// Devices of unequal speed are node groups of their own to the last three and to each group (speed_classes.h); each
// group and unlike pipelines search the groups of the file as well.
//
// A phase runs when the space of the job has its plans, the job did not leave it out by name, and no phase before it
// was interrupted. It starts from what the phases before it found and simulates nothing that they simulated. The
// certificate is that of the phases together:
// the least of their bounds, complete when each phase of the space is. What a phase did is reported under its name,
// also for the terminal (-v) and for result.json.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "search/device_groups.h"
#include "search/layerwise.h"
#include "search/multi_pipeline.h"
#include "search/partition_choices.h"
#include "search/search.h"
#include "search/uneven_replicas.h"
#include "search/whole_cluster.h"

namespace espalier::search {

/// What one phase did.
struct PhaseReport {
  std::string name;
  bool left_out = false;  ///< by name
  bool begun = false;
  bool complete = false;            ///< false: limit, interruption, or never begun
  std::int64_t bounded = 0;         ///< nodes whose bound was computed; groups whose programs were solved
  std::int64_t lowered = 0;         ///< programs timed
  std::int64_t simulated = 0;       ///< plans that no phase before simulated
  std::int64_t best_ns = 0;         ///< of the plans of this phase; 0: none fits, or none beats the incumbent
  std::int64_t lower_bound_ns = 0;  ///< no plan of this phase takes less; 0: not known
  double seconds = 0;               ///< wall clock
};

struct PhaseOptions {
  Options how;
  SpaceKind space = SpaceKind::uniform;
  bool by_layer = true;      ///< the engine lets layers or stages of one plan differ; else no layer-wise plan is in the
                             ///< space
  bool operators = true;     ///< it partitions operators; else no plan with partitions is in the space
  bool any_devices = false;  ///< stages may lie on groups of unlike devices
  bool unlike_stages =
      true;  ///< the engine runs stages and pipelines that are unlike; else unlike devices are searched one group at a
             ///< time
  bool uneven_replicas = true;  ///< replicas that take unequal shares have a price: not under the network of shared
                                ///< links
  bool exhaustive = false;      ///< the uniform phase simulates every configuration
  /// Of and for the uniform phase: what a search before a change of the cluster proved (Options::carried), and whether
  /// to hand on as much.
  const Carried* carried = nullptr;
  bool keep_record = false;
  std::set<std::string> left_out;  ///< phases that do not run, by name
  /// Of the phase "device groups": plans of one pipeline on devices of the cluster that it begins with, and is never
  /// slower than.
  std::vector<Pipeline> starts = {};
};

/// A plan without names: ranges of layers with their strategies for each pipeline chunk. One range a chunk, all of one
/// strategy, is a uniform plan.
struct PlanCandidate {
  Schedule schedule;
  std::vector<std::vector<LayerRange>> chunks;  ///< empty: `strategy` for all layers, split by the engine
  Strategy strategy;                            ///< of a uniform plan
  std::vector<Pipeline> pipelines = {};         ///< of a plan on unlike devices: all of it
  std::int64_t iteration_ns = 0;
};

/// All that was searched.
struct SearchResult {
  Outcome uniform;
  std::optional<LayerwiseOutcome> layered;
  PartitionChoices choices;                 ///< of the operators phase
  std::optional<Outcome> partitioned;       ///< uniform strategies, with and without partitions
  std::optional<LayerwiseOutcome> both;     ///< layer-wise plans, with and without partitions
  std::optional<SingleGroupOutcome> alone;  ///< uniform plans on one of several node groups
  std::optional<SingleGroupOutcome>
      of_classes;  ///< the same on each class of devices of one speed (speed_classes.h); `alone` has the best
  std::optional<GroupedOutcome> grouped;       ///< stages on groups of unlike devices
  std::optional<PhaseOutcome> across;          ///< uniform plans across node groups
  std::optional<MultiPipelineOutcome> beside;  ///< pipelines next to each other, one on each of several groups
  std::optional<PhaseOutcome> replicas;        ///< one stage, its replicas on several groups
  std::vector<PhaseReport> phases;             ///< of the space, in order

  /// Of uniform strategies, in the space that the job asks for.
  [[nodiscard]] const Outcome& flat() const { return partitioned ? *partitioned : uniform; }
  /// The layer-wise search of that space; null: none.
  [[nodiscard]] const LayerwiseOutcome* last() const { return both ? &*both : layered ? &*layered : nullptr; }
  /// Returns the outcomes of the phases whose plans lie on node groups, in the order in which they ran.
  [[nodiscard]] std::vector<const PhaseOutcome*> on_groups() const;
  /// The fastest of all; of equally fast ones the first found. A layer-wise plan counts only where it is visibly faster
  /// than every uniform one (kWorthwhile). Nothing fits: none.
  [[nodiscard]] std::optional<PlanCandidate> best() const;
  [[nodiscard]] std::int64_t best_ns() const;
  /// The best plan without operator partitions; 0: none fits.
  [[nodiscard]] std::int64_t best_without_partitions_ns() const;
  /// No plan of the space takes less; 0: not known.
  [[nodiscard]] std::int64_t lower_bound_ns() const;
  /// Whether the answer has several pipelines.
  [[nodiscard]] bool several_pipelines() const;
  /// Whether replicas of the answer lie on several groups and take unequal shares.
  [[nodiscard]] bool uneven_replicas() const;
  [[nodiscard]] bool complete() const;
  [[nodiscard]] bool interrupted() const;
  [[nodiscard]] bool left_out() const;

 private:
  [[nodiscard]] const LayeredCandidate* faster_layered() const;
  [[nodiscard]] std::int64_t best_equal_ns() const;
  [[nodiscard]] const GroupedCandidate* faster_grouped() const;
  [[nodiscard]] bool all_begun() const;
};

/// A layer-wise plan has to gain so much to be worth its layers: what rounds to 0.0 % keeps the uniform plan.
inline constexpr double kWorthwhile = 0.0005;

/// The names of all phases, in order.
std::vector<std::string> phase_names();

SearchResult search(const Problem& problem, Evaluator& evaluator, const PhaseOptions& options);

}  // namespace espalier::search
