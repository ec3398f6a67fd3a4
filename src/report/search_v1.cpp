// SPDX-License-Identifier: Apache-2.0
#include "report/search_v1.h"

#include <algorithm>
#include <utility>

#include "report/beside_json.h"
#include "report/nanoseconds.h"
#include "report/search_json.h"

namespace espalier::report {
namespace {

/// Reads an integer that some documents hold as a real number.
std::int64_t read_whole(Reader& r, std::string_view key) {
  return static_cast<std::int64_t>(std::min(r.optional_real(key, 0, 1e300, 0), 0x1p53));
}

std::int64_t read_count(Reader& r, std::string_view key) { return r.optional_int(key, 0, kBig, 0); }

PhaseSummary* phase_of(SearchSummary& s, std::string_view name) {
  const auto found = std::find_if(s.phases.begin(), s.phases.end(), [&](const PhaseSummary& p) { return p.name == name; });
  return found == s.phases.end() ? nullptr : &*found;
}

/// Returns a phase that has started, or null.
PhaseSummary* begun_phase(SearchSummary& s, std::string_view name) {
  PhaseSummary* phase = phase_of(s, name);
  return phase != nullptr && !phase->counters.empty() ? phase : nullptr;
}

PhaseSummary read_phase_v1(Reader& r) {
  PhaseSummary p;
  p.name = r.required_string("name");
  p.left_out = r.optional_bool("left_out", false);
  p.complete = r.optional_bool("complete", false);
  p.lower_bound_ns = read_ns(r, "lower_bound_s");
  const std::int64_t bounded = read_count(r, "bounded"), lowered = read_count(r, "lowered"),
                     simulated = read_count(r, "simulated");
  // A phase that did not start has no counters.
  if (p.complete || p.lower_bound_ns > 0 || bounded + lowered + simulated > 0)
    p.counters = {{SearchCounter::bounded, bounded}, {SearchCounter::lowered, lowered}, {SearchCounter::simulated, simulated}};
  r.finish();
  return p;
}

/// Reads the block of layer-wise plans, which describes the last of their phases. Its `solved` and `simulated` are
/// also counters of phases.
void read_layerwise(Reader r, SearchSummary& s) {
  if (PhaseSummary* uniform = phase_of(s, kUniformPhase)) uniform->best_ns = read_ns(r, "uniform_s");
  PhaseSummary* last = begun_phase(s, kOperatorsByLayerPhase);
  if (last == nullptr) last = phase_of(s, kLayersPhase);
  if (last != nullptr) {
    last->counters[SearchCounter::strategies] = read_whole(r, "strategies");
    last->counters[SearchCounter::kept] = read_whole(r, "kept");
    last->counters[SearchCounter::choices] = read_count(r, "outer");
    Reader refinement = r.child("refinement", false);
    const std::int64_t tried = read_count(refinement, "tried"), left = read_count(refinement, "left");
    if (tried + left > 0) {
      last->counters[SearchCounter::refinement_tried] = tried;
      last->counters[SearchCounter::refinement_left] = left;
    }
    refinement.finish();
  }
  s.balance = read_balance(r);
  r.ignore({"uniform_s", "strategies", "kept", "outer", "solved", "simulated", "refinement"});
  r.finish();
}

/// Reads the block of operators. Its `without_s` is the best plan of the phases before them.
void read_partitions(Reader r, SearchSummary& s) {
  const std::int64_t without_ns = read_ns(r, "without_s"), bound_ns = read_ns(r, "lower_bound_s");
  const std::int64_t searches = read_count(r, "solved");
  const bool exact = r.optional_bool("certified", true);
  const std::int64_t groups = read_count(r, "groups"), offered = read_count(r, "offered");
  PhaseSummary* layers = begun_phase(s, kLayersPhase);
  if (PhaseSummary* before = layers != nullptr ? layers : phase_of(s, kUniformPhase);
      before != nullptr && without_ns != best_uniform_ns(s))
    before->best_ns = without_ns;
  if (PhaseSummary* operators = phase_of(s, kOperatorsPhase)) {
    operators->counters[SearchCounter::tensor_groups] = groups;
    operators->counters[SearchCounter::operator_searches] = searches;
    if (exact) operators->counters[SearchCounter::inexact_searches] = 0;
    operators->counters[SearchCounter::partitions] = offered;
    PhaseSummary* by_layer = begun_phase(s, kOperatorsByLayerPhase);
    (by_layer != nullptr ? by_layer : operators)->partition_bound_ns = bound_ns;
  }
  r.finish();
}

/// Reads the block of plans on node groups. Counters that phases of version 1 have as well are not read again.
void read_device_groups(Reader r, std::int64_t iteration_ns, SearchSummary& s) {
  const std::pair<std::string_view, SearchCounter> of_groups[] = {{"without_room", SearchCounter::out_of_memory},
                                                                  {"sizes", SearchCounter::batch_sizes},
                                                                  {"options", SearchCounter::options},
                                                                  {"dropped", SearchCounter::dropped},
                                                                  {"candidates", SearchCounter::candidates},
                                                                  {"refined", SearchCounter::refined}};
  if (PhaseSummary* groups = begun_phase(s, kDeviceGroupsPhase))
    for (const auto& [key, counter] : of_groups) groups->counters[counter] = read_count(r, key);
  if (PhaseSummary* alone = begun_phase(s, kEachGroupPhase))
    alone->counters[SearchCounter::configurations] = read_whole(r, "alone");
  if (PhaseSummary* pipelines = begun_phase(s, kPipelinesPhase)) {
    pipelines->counters[SearchCounter::pipelines] = read_count(r, "columns");
    if (r.optional_bool("several_pipelines", false)) pipelines->best_ns = iteration_ns;
  }
  if (PhaseSummary* replicas = begun_phase(s, kReplicasPhase); replicas != nullptr && r.optional_bool("unequal_replicas", false))
    replicas->best_ns = iteration_ns;
  r.ignore({"sizes", "options", "dropped", "states", "candidates", "simulated", "refined", "without_room", "alone",
            "alone_simulated", "columns", "combinations", "beside_simulated", "several_pipelines", "replica_plans",
            "replicas_simulated", "unequal_replicas"});
  r.finish();
}

}  // namespace

void read_search_v1(Reader& r, std::int64_t iteration_ns, SearchSummary& s) {
  r.each("phases", false, [&s](Reader& row) { s.phases.push_back(read_phase_v1(row)); });
  if (r.has("layerwise")) read_layerwise(r.child("layerwise", true), s);
  if (r.has("partitions")) read_partitions(r.child("partitions", true), s);
  if (r.has("device_groups")) read_device_groups(r.child("device_groups", true), iteration_ns, s);
}

}  // namespace espalier::report
