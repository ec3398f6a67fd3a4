// SPDX-License-Identifier: Apache-2.0
// Runs the search as a table of phases over one problem, one evaluator, one incumbent and one certificate.
//
// - uniform: one strategy for all layers (search.h). It uses branch and bound, or simulates every configuration.
// - layer-wise: every layer has its own strategy, every stage its own layers (layerwise.h). It starts from the
//   uniform answer.
// - operators: uniform strategies whose operators may be partitioned one by one (partition_choices.h).
// - operators by layer: layer-wise plans with such partitions.
// - each group: uniform plans on one of several node groups (single_group.h).
// - device groups: stages on groups of heterogeneous devices (device_groups.h), where the job lets plans lie on any
//   devices. On a cluster of several node groups the phases above have no plans.
// - whole cluster: uniform plans on all devices of several node groups, or of parts of them (whole_cluster.h).
// - unlike pipelines: concurrent pipelines, one on each of several node groups (multi_pipeline.h).
// - unequal replicas: one stage with its data-parallel replicas on several node groups, with unequal samples and
//   states (uneven_replicas.h).
//
// The last three phases and "each group" treat devices of unequal speed as node groups of their own
// (speed_classes.h). The phases "each group" and "unlike pipelines" search the groups of the cluster file as well.
//
// A phase runs when three conditions hold. The space of the job has its plans, the job did not leave it out by name,
// and no earlier phase was interrupted. It starts from the results of the earlier phases and simulates nothing that
// they simulated. The certificate covers the phases together: it is the least of their bounds, and complete when each
// phase of the space is complete. The work of a phase is reported under its name, on the terminal (-v) and in
// result.json.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "espalier/search_phases.h"
#include "search/device_groups.h"
#include "search/layerwise.h"
#include "search/multi_pipeline.h"
#include "search/partition_choices.h"
#include "search/search.h"
#include "search/uneven_replicas.h"
#include "search/whole_cluster.h"

namespace espalier::search {

struct PhaseOptions {
  Options how;
  SpaceKind space = SpaceKind::uniform;
  /// The engine lets layers or stages of one plan differ; otherwise the space has no layer-wise plan.
  bool by_layer = true;
  bool operators = true;     ///< the engine partitions operators; otherwise no plan has partitions
  bool any_devices = false;  ///< stages may lie on groups of heterogeneous devices
  /// The engine can run stages and pipelines that differ; otherwise heterogeneous devices are searched one group at a
  /// time.
  bool unlike_stages = true;
  /// Replicas with unequal shares have a price; this does not hold under the network of shared links.
  bool uneven_replicas = true;
  bool exhaustive = false;  ///< the uniform phase simulates every configuration
  /// Applies to the uniform phase: `carried` holds the facts that a search before a change of the cluster proved
  /// (Options::carried). `keep_record` makes this search return such a record.
  const Carried* carried = nullptr;
  bool keep_record = false;
  std::set<std::string> left_out;  ///< phases that do not run, by name
  /// Provides plans of one pipeline on devices of the cluster for the phase "device groups". The phase begins with
  /// them and is never slower than they are.
  std::vector<Pipeline> starts = {};
  bool on_part = false;  ///< a search of a part of the cluster (cluster_parts.h), which repeats no phase on parts
};

/// Describes a plan without names by the ranges of layers with their strategies for each pipeline chunk. A plan with
/// one range per chunk, all of one strategy, is uniform.
struct PlanCandidate {
  Schedule schedule;
  std::vector<std::vector<LayerRange>> chunks;  ///< empty: `strategy` for all layers, split by the engine
  Strategy strategy;                            ///< strategy of a uniform plan
  std::vector<Pipeline> pipelines = {};         ///< all pipelines of a plan on heterogeneous devices
  std::int64_t iteration_ns = 0;
};

/// Holds the results of all phases.
struct SearchResult {
  Outcome uniform;
  std::optional<LayerwiseOutcome> layered;
  PartitionChoices choices;                 ///< partitions offered in the operators phase
  std::optional<Outcome> partitioned;       ///< uniform strategies, with and without partitions
  std::optional<LayerwiseOutcome> both;     ///< layer-wise plans, with and without partitions
  std::optional<SingleGroupOutcome> alone;  ///< uniform plans on one of several node groups
  /// Holds the uniform plans on each class of devices of one speed (speed_classes.h); `alone` holds the best of both.
  std::optional<SingleGroupOutcome> of_classes;
  std::optional<GroupedOutcome> grouped;               ///< stages on groups of heterogeneous devices
  std::optional<PhaseOutcome> across;                  ///< uniform plans across node groups
  std::optional<MultiPipelineOutcome> multi_pipeline;  ///< concurrent pipelines, one on each of several groups
  std::optional<PhaseOutcome> replicas;                ///< one stage, its replicas on several groups
  std::vector<PhaseSummary> phases;                    ///< phases of the space, in order

  /// Returns the outcome for uniform strategies, in the space that the job asks for.
  [[nodiscard]] const Outcome& flat() const { return partitioned ? *partitioned : uniform; }
  /// Returns the layer-wise search of that space; null if there is none.
  [[nodiscard]] const LayerwiseOutcome* last() const { return both ? &*both : layered ? &*layered : nullptr; }
  /// Returns the outcomes of the phases whose plans lie on node groups, in the order in which they ran.
  [[nodiscard]] std::vector<const PhaseOutcome*> on_groups() const;
  /// Returns the fastest plan of all phases; among equally fast plans, the first found. A layer-wise plan counts only
  /// where it is visibly faster than every uniform one (kWorthwhile). Returns nullopt if nothing fits.
  [[nodiscard]] std::optional<PlanCandidate> best() const;
  [[nodiscard]] std::int64_t best_ns() const;
  /// Returns the best time without operator partitions; 0 if no plan fits.
  [[nodiscard]] std::int64_t best_without_partitions_ns() const;
  /// Returns a time that no plan of the space beats; 0: unknown.
  [[nodiscard]] std::int64_t lower_bound_ns() const;
  [[nodiscard]] bool complete() const;
  [[nodiscard]] bool interrupted() const;
  [[nodiscard]] bool left_out() const;

 private:
  [[nodiscard]] const LayeredCandidate* faster_layered() const;
  [[nodiscard]] std::int64_t best_equal_ns() const;
  [[nodiscard]] const GroupedCandidate* faster_grouped() const;
  [[nodiscard]] bool all_begun() const;
};

/// Sets the least relative gain that justifies a layer-wise plan. Where the gain rounds to 0.0 %, the uniform plan is
/// kept.
inline constexpr double kWorthwhile = 0.0005;

/// Returns the names of all phases, in order.
std::vector<std::string> phase_names();

SearchResult search(const Problem& problem, Evaluator& evaluator, const PhaseOptions& options);

}  // namespace espalier::search
