// SPDX-License-Identifier: Apache-2.0
// Writes plan.json, schema espalier.plan/2, with stable key order. It writes version 1 if that version can
// express the plan.
//
//   devices     "0-7" first-last, "0-56:8" first-last:stride, "5" one device
//   layers      the ranges of a stage, one line each, chunk after chunk. If a chunk has several ranges,
//               `chunk` gives the virtual stage to which a range belongs.
//   source      model and cluster inputs embedded as JSON values; null if the plan holds none.
//   precision   the types in which states are kept, whether the plan or its engine sets them.
//
// `schedule.stages` is not written: it is the length of `stages`. (A result's alternatives, which have no stages,
// write it.) Version 1 has `schedule` and `stages` of its one pipeline at the top, and a `share` of 1.0 in each stage.
#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "espalier/plan.h"
#include "plan/listed_devices.h"
#include "plan/operator_partition.h"
#include "plan/plan_json.h"
#include "plan/training_parts.h"

namespace espalier {
namespace {

void write_input(JsonWriter& w, std::string_view key, const std::string& name, const std::string& hash,
                 const std::string& summary, const std::string& source) {
  w.key(key).begin_object();
  w.key("name").value(name).key("hash").value(hash).key("summary").value(summary).key("source");
  if (source.empty()) {
    w.null();
  } else {
    w.raw(source);
  }
  w.end_object();
}

void write_training(JsonWriter& w, const Training& t) {
  w.key("training").begin_object().key("sequence_length");
  if (t.sequence.encoder == 0 && t.sequence.decoder == 0) {
    w.value(t.sequence.main);
  } else {
    w.compact_next().begin_object();
    if (t.sequence.main != 0) w.key("main").value(t.sequence.main);
    w.key("encoder").value(t.sequence.encoder).key("decoder").value(t.sequence.decoder);
    if (t.sequence.images != 1) w.key("images").value(t.sequence.images);
    w.end_object();
  }
  w.key("global_batch").value(t.global_batch).key("precision").value(to_string(t.precision));
  w.key("optimizer").value(to_string(t.optimizer)).key("moe_imbalance").value(t.moe_imbalance).key("tokens").value(t.tokens);
  write_trained_parts(w, t);
  w.end_object();
}

/// Writes the operators in the order of the block. A partition that cannot be read stays a text, so that
/// nothing is lost.
void write_partition(JsonWriter& w, const BlockPartition& partition) {
  const auto& parsed = partition.operators();
  if (!parsed) {
    w.value(partition.text());
    return;
  }
  w.begin_object();
  for (const OperatorPartition& p : *parsed) w.key(p.name).value(partition::to_string(p.sequence));
  w.end_object();
}

void write_numbers(JsonWriter& w, std::string_view key, const std::vector<std::int64_t>& values) {
  if (values.empty()) return;
  w.key(key).compact_next().begin_array();
  for (const std::int64_t v : values) w.value(v);
  w.end_array();
}

void write_layers(JsonWriter& w, const Stage& stage, PlanSchema schema) {
  w.key("layers").begin_array();
  const bool several = stage.chunks.size() > 1 && std::any_of(stage.chunks.begin(), stage.chunks.end(),
                                                              [](const Chunk& chunk) { return chunk.ranges.size() > 1; });
  for (std::size_t k = 0; k < stage.chunks.size(); ++k) {
    for (const LayerRange& range : stage.chunks[k].ranges) {
      w.compact_next().begin_object();
      if (several) w.key("chunk").value(static_cast<std::int64_t>(k));
      w.key("first").value(range.first).key("last").value(range.last).key("strategy");
      write_strategy(w, range.strategy, schema);
      w.end_object();
    }
  }
  w.end_array();
}

void write_stages(JsonWriter& w, const Pipeline& pipeline, PlanSchema schema) {
  w.key("stages").begin_array();
  for (const Stage& stage : pipeline.stages) {
    w.begin_object().key("devices").compact_next().begin_array();
    for (const DeviceRange& r : stage.devices) w.value(text_of(r));
    w.end_array();
    write_numbers(w, "samples_per_replica", stage.samples_per_replica);
    write_numbers(w, "state_shares", stage.state_shares);
    write_layers(w, stage, schema);
    if (schema == PlanSchema::one) w.key("share").value(1.0);
    w.end_object();
  }
  w.end_array();
}

void write_schedule_of(JsonWriter& w, const Schedule& s) {
  w.key("schedule").begin_object();
  w.key("kind").value(to_string(s.kind)).key("virtual_stages").value(s.virtual_stages);
  w.key("microbatches").value(s.microbatches).key("micro_batch").value(s.micro_batch).end_object();
}

void write_pipelines(JsonWriter& w, const Plan& plan) {
  w.key("pipelines").begin_array();
  for (const Pipeline& pipeline : plan.pipelines) {
    w.begin_object().key("id").value(pipeline.id);
    write_schedule_of(w, pipeline.schedule);
    w.key("samples").value(pipeline.samples);
    write_stages(w, pipeline, PlanSchema::two);
    w.end_object();
  }
  w.end_array();
}

void write_precision(JsonWriter& w, const StatePrecision& p) {
  w.key("precision").begin_object();
  w.key("parameters").value(to_string(p.parameters)).key("gradients").value(to_string(p.gradients));
  w.key("moments").value(to_string(p.moments)).key("saved").value(to_string(p.saved)).end_object();
}

}  // namespace

void write_strategy(JsonWriter& w, const Strategy& s, PlanSchema schema) {
  const bool two = schema == PlanSchema::two;
  w.begin_object();
  w.key("tp").value(s.tp).key("sp").value(to_string(s.sp)).key("cp").value(s.cp).key("cp_kind").value(to_string(s.cp_kind));
  w.key("ep")
      .value(s.ep)
      .key("etp")
      .value(s.etp)
      .key("dp")
      .value(s.dp)
      .key("zero")
      .value(number_of(s.zero))
      .key("shard")
      .value(s.shard);
  w.key("order").value(to_string(s.order));
  w.key("recompute").begin_object().key("kind").value(to_string(s.recompute.kind)).key("layers").value(s.recompute.layers);
  if (two) {
    w.key("modules").begin_array();
    s.recompute.modules.each([&](RecomputeModule module) { w.value(to_string(module)); });
    w.end_array();
  }
  w.end_object().key("overlap").begin_object();
  w.key("grad_reduce").value(s.overlap.grad_reduce).key("param_gather").value(s.overlap.param_gather);
  w.key("p2p").value(s.overlap.p2p).key("tp").value(s.overlap.tp);
  if (two) w.key("ep").value(s.overlap.ep);
  w.end_object();
  if (s.offload != Offload::none) w.key("offload").value(to_string(s.offload));
  w.key("partition");
  if (s.partition.empty()) {
    w.null();
  } else {
    write_partition(w, s.partition);
  }
  w.end_object();
}

void write_schedule(JsonWriter& w, const Schedule& s) {
  w.begin_object().key("kind").value(to_string(s.kind)).key("stages").value(s.stages);
  w.key("virtual_stages").value(s.virtual_stages).key("microbatches").value(s.microbatches);
  w.key("micro_batch").value(s.micro_batch).end_object();
}

std::string to_json(const Plan& plan, PlanSchema schema) {
  ESPALIER_CHECK(unwritable(plan, schema).ok());
  JsonWriter w;
  w.begin_object();
  w.key("schema").value(schema_name(schema));
  w.key("engine").value(plan.engine);
  write_input(w, "model", plan.model_name, plan.model_hash, plan.model_summary, plan.model_source);
  write_input(w, "cluster", plan.cluster_name, plan.cluster_hash, plan.cluster_summary, plan.cluster_source);
  if (!plan.calibration_source.empty()) {
    w.key("calibration").begin_object();
    w.key("name").value(plan.calibration_name).key("hash").value(plan.calibration_hash);
    w.key("source").raw(plan.calibration_source).end_object();
  }
  write_training(w, plan.training);
  if (schema == PlanSchema::one) {
    const Pipeline& pipeline = plan.only_pipeline();
    write_schedule_of(w, pipeline.schedule);
    write_stages(w, pipeline, schema);
  } else {
    write_precision(w, plan.precision.value_or(state_precision(plan.engine, plan.training)));
    write_pipelines(w, plan);
  }
  w.end_object();
  return w.text() + "\n";
}

}  // namespace espalier
