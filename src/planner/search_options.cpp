// SPDX-License-Identifier: Apache-2.0
#include "planner/search_options.h"

#include <algorithm>

#include "base/parallel.h"
#include "plan/engine.h"
#include "plan/layer_freedom.h"
#include "planner/legality.h"

namespace espalier::planner {

Result<search::PhaseOptions> search_options(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                            Watch& watch) {
  search::PhaseOptions phases;
  phases.space = job.search.kind;
  phases.by_layer = has_freedom(engine.layers);
  phases.operators = engine.runs.operator_partitions;
  phases.any_devices = any_devices(job);
  phases.unlike_stages = is_unrestricted(engine.layers);
  phases.uneven_replicas = job.network == NetworkKind::closed;
  phases.exhaustive = options.exhaustive;
  phases.left_out.insert(options.left_out_phases.begin(), options.left_out_phases.end());
  const std::vector<std::string> known = search::phase_names();
  for (const std::string& name : phases.left_out)
    if (std::find(known.begin() + 1, known.end(), name) == known.end()) return unknown_phase(name, known);
  search::Options& how = phases.how;
  how.threads = options.threads > 0 ? options.threads : base::hardware_threads();
  how.node_limit = options.node_limit.value_or(0);
  how.interrupted = [&watch] { return watch.stopped(); };
  if (options.progress || options.observer) how.progress = [&watch](const search::Progress& standing) { watch.stands(standing); };
  how.keep_within = options.simple_within;
  for (const std::string& rule : options.disabled_rules)
    if (!how.pruning.disable(rule)) return unknown_pruning_rule(rule);
  return phases;
}

}  // namespace espalier::planner
