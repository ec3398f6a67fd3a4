// SPDX-License-Identifier: Apache-2.0
#include "runs/mixed_fields.h"

#include <algorithm>
#include <charconv>

#include "base/document.h"
#include "base/format.h"

namespace espalier {

bool RunMixture::measured_durations() const {
  const auto measured = [](const RunReplica& r) { return r.forward_s && r.backward_s; };
  return !stages.empty() && std::all_of(stages.begin(), stages.end(), [&](const RunStage& s) {
    return !s.replicas.empty() && std::all_of(s.replicas.begin(), s.replicas.end(), measured);
  });
}

}  // namespace espalier

namespace espalier::runs {
namespace {

RunNetwork network_of(const RecordFields& f) {
  RunNetwork network;
  network.inter_gbps = f.real("inter_gbps");
  if (!network.inter_gbps) network.inter_gbps = f.real("gbps");
  network.intra_gbps = f.real("intra_gbps");
  network.delay_ms = f.real("delay_ms");
  network.matrix = f.word("matrix");
  network.matrix_case = f.count("case");
  return network;
}

RunStage stage_of(const RecordFields& f) {
  RunStage stage;
  stage.layer_range = f.counts("layer_list_range");
  if (const base::Node* layers = f.find("layers"); layers && layers->kind != base::NodeKind::sequence)
    stage.layers = f.count("layers");
  for (const RecordFields& replica : f.children("replicas"))
    stage.replicas.push_back({replica.real("fwd_s"), replica.real("bwd_s"), replica.count("tp")});
  return stage;
}

bool is_number(const base::Node& node) { return node.kind == base::NodeKind::integer || node.kind == base::NodeKind::real; }

/// Returns the seconds of the update and of the gradient clipping before it. Collectives next to them were measured
/// including the time that ranks wait in them. That time is already in the forward and backward passes of other
/// ranks.
double update_seconds(const base::Node* operations) {
  constexpr double kLongest = 1e6;
  double sum = 0;
  if (operations == nullptr || operations->kind != base::NodeKind::mapping) return sum;
  for (const auto& [name, value] : operations->members) {
    const std::string word = base::lower(name);
    const bool counts = word == "optimizer" || word.find("clip") != std::string::npos;
    if (counts && is_number(value) && value.real >= 0 && value.real < kLongest) sum += value.real;
  }
  return sum;
}

/// Reads `extra`, which belongs to others: values of an unexpected type are skipped (remarks.h, read_extra).
void read_mixed_extra(const base::Node* extra, RunMixture& m) {
  if (extra == nullptr || extra->kind != base::NodeKind::mapping) return;
  const auto text = [&](const char* key) {
    const base::Node* node = extra->find(key);
    return node != nullptr && node->kind == base::NodeKind::string ? node->text : std::string();
  };
  m.placement = text("placement");
  m.exchange = text("dp_mode");
  const base::Node* seed = extra->find("seed");
  if (seed != nullptr && (seed->kind == base::NodeKind::string || seed->kind == base::NodeKind::integer)) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(seed->text.data(), seed->text.data() + seed->text.size(), value);
    if (code == std::errc{} && end == seed->text.data() + seed->text.size() && value >= 0) m.seed = value;
  }
  const base::Node* passes = extra->find("microbatches_per_replica");
  if (passes != nullptr && passes->kind == base::NodeKind::integer && passes->integer > 0) m.microbatches = passes->integer;
  m.update_s = update_seconds(extra->find("mean_other_ops_s"));
}

/// Reads replicas that state a tensor degree. Where all state the same, it is the record's own; else the run is not
/// uniform. Measured durations need none.
void read_own_degrees(RunRecord& record) {
  for (const RunStage& stage : record.mixture.stages)
    for (const RunReplica& replica : stage.replicas) {
      if (!replica.tp) continue;
      if (!record.tp) record.tp = replica.tp;
      if (record.tp != replica.tp && !record.mixture.measured_durations() && record.irregular.empty()) record.irregular = "tp";
    }
}

}  // namespace

void read_mixed(const RecordFields& f, RunRecord& record) {
  RunMixture& m = record.mixture;
  for (const RecordFields& group : f.children("device_groups"))
    m.groups.push_back(
        {group.word("kind"), group.word("where"), group.count("nodes"), group.count("per_node"), group.count("count")});
  m.network = network_of(f.child("network"));
  m.network.given = f.find("network") != nullptr;
  for (const RecordFields& stage : f.children("stages")) m.stages.push_back(stage_of(stage));
  read_mixed_extra(f.find("extra"), m);
  read_own_degrees(record);
}

}  // namespace espalier::runs
