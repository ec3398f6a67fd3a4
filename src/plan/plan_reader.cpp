// SPDX-License-Identifier: Apache-2.0
// Reads plan.json strictly: every key must be known, and every value has its type and range. Versions 1 and 2 are
// supported (plan_json.cpp writes them).
//
// Version 1 is read as one pipeline that takes the whole global batch. Equal shares are read as none, and so are
// types that are those of the engine. So a plan has one form in memory, however its document writes it.
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "espalier/plan.h"
#include "plan/plan_json.h"
#include "plan/read_values.h"
#include "plan/training_parts.h"

namespace espalier {
namespace {

using namespace plan_detail;

struct InputFields {
  std::string name, hash, summary, source;
};
InputFields read_input(Reader& r, std::string_view key) {
  InputFields fields;
  Reader input = r.child(key, true);
  fields.name = input.required_string("name");
  fields.hash = input.required_string("hash");
  fields.summary = input.required_string("summary");
  if (const Node* source = input.find("source"); source != nullptr && source->kind != NodeKind::null) {
    fields.source = base::to_json(*source);
  }
  input.finish();
  return fields;
}

void read_calibration_input(Reader& root, Plan& plan) {
  if (!root.has("calibration")) return;
  Reader calibration = root.child("calibration", true);
  plan.calibration_name = calibration.required_string("name");
  plan.calibration_hash = calibration.required_string("hash");
  const Node* source = calibration.find("source");
  if (source == nullptr || source->kind != NodeKind::mapping)
    calibration.fail("source", source == nullptr ? "nothing" : std::string(to_string(source->kind)), "the calibration itself");
  else
    plan.calibration_source = base::to_json(*source);
  calibration.finish();
}

Sequence read_sequence(Reader& r) {
  Sequence sequence;
  const Node* node = r.find("sequence_length");
  if (node != nullptr && node->kind == NodeKind::mapping) {
    Reader both = r.child("sequence_length", true);
    sequence.main = both.optional_int("main", 0, kMaxTokens, 0);
    sequence.encoder = both.required_int("encoder", 0, kMaxTokens);
    sequence.decoder = both.required_int("decoder", 0, kMaxTokens);
    sequence.images = both.optional_int("images", 1, kMaxTokens, 1);
    both.finish();
  } else {
    sequence.main = r.required_int("sequence_length", 0, kMaxTokens);
  }
  return sequence;
}

Optimizer read_optimizer(Reader& t) {
  const std::string word = t.required_string("optimizer");
  for (const Optimizer v : {Optimizer::adam, Optimizer::sgd})
    if (to_string(v) == word) return v;
  if (t.sink().ok()) t.fail("optimizer", cat("\"", word, "\""), "adam or sgd");
  return Optimizer::adam;
}

Training read_training(Reader& r) {
  Reader t = r.child("training", true);
  Training training;
  training.sequence = read_sequence(t);
  training.global_batch = t.required_int("global_batch", 1, kMaxTokens);
  training.precision = read_enum(t, "precision", kAllPrecisions);
  training.optimizer = read_optimizer(t);
  training.moe_imbalance = t.required_real("moe_imbalance", 1.0, 1e6);
  training.tokens = t.required_real("tokens", 0.0, 1e18);
  read_trained_parts(t, training);
  t.finish();
  return training;
}

/// Reads `schedule` and `stages` of a pipeline or of a document of version 1.
void read_stages(Reader& r, Pipeline& pipeline, PlanSchema schema) {
  pipeline.schedule = read_schedule(r, false);
  r.each("stages", true,
         [&](Reader& stage) { pipeline.stages.push_back(read_stage(stage, pipeline.schedule.virtual_stages, schema)); });
  pipeline.schedule.stages = static_cast<std::int32_t>(pipeline.stages.size());
}

void read_pipelines(Reader& root, Plan& plan) {
  plan.pipelines.clear();
  root.each("pipelines", true, [&plan](Reader& r) {
    Pipeline pipeline;
    pipeline.id = read_int32(r, "id", 0, kMaxInt32);
    pipeline.samples = r.required_int("samples", 1, kMaxTokens);
    read_stages(r, pipeline, PlanSchema::two);
    r.finish();
    plan.pipelines.push_back(std::move(pipeline));
  });
}

void read_precision(Reader& root, Plan& plan) {
  if (!root.has("precision")) return;
  Reader r = root.child("precision", true);
  StatePrecision precision;
  precision.parameters = read_enum(r, "parameters", kAllPrecisions);
  precision.gradients = read_enum(r, "gradients", kAllPrecisions);
  precision.moments = read_enum(r, "moments", kAllPrecisions);
  precision.saved = read_enum(r, "saved", kAllPrecisions);
  r.finish();
  if (r.sink().ok() && precision != state_precision(plan.engine, plan.training)) plan.precision = precision;
}

PlanSchema read_schema(Reader& root) {
  const std::string schema = root.required_string("schema");
  if (schema == schema_name(PlanSchema::one)) return PlanSchema::one;
  if (!root.sink().ok() || schema == schema_name(PlanSchema::two)) return PlanSchema::two;
  const bool other = schema.starts_with("espalier.plan/");
  root.fail("schema", cat("\"", schema, "\""),
            cat("\"", schema_name(PlanSchema::two), "\" or \"", schema_name(PlanSchema::one), "\""),
            other ? "it was written by another version of espalier; use that version, or plan again from the job"
                  : "is this a plan.json?");
  return PlanSchema::two;
}

Plan read_plan(Reader& root, PlanSchema& schema) {
  Plan plan;
  schema = read_schema(root);
  plan.engine = root.required_string("engine");
  InputFields model = read_input(root, "model");
  plan.model_name = std::move(model.name);
  plan.model_hash = std::move(model.hash);
  plan.model_summary = std::move(model.summary);
  plan.model_source = std::move(model.source);
  InputFields cluster = read_input(root, "cluster");
  plan.cluster_name = std::move(cluster.name);
  plan.cluster_hash = std::move(cluster.hash);
  plan.cluster_summary = std::move(cluster.summary);
  plan.cluster_source = std::move(cluster.source);
  read_calibration_input(root, plan);
  plan.training = read_training(root);
  if (schema == PlanSchema::one) {
    Pipeline pipeline;
    read_stages(root, pipeline, schema);
    pipeline.samples = plan.training.global_batch;
    plan.pipelines = {std::move(pipeline)};
  } else {
    read_precision(root, plan);
    read_pipelines(root, plan);
  }
  root.finish();
  return plan;
}

/// Adapts a place to the version: validate() names places of version 2, while places of version 1 have no pipeline.
std::string place_in(std::string where, PlanSchema schema) {
  const std::string pipeline = "$.pipelines[0]";
  if (schema == PlanSchema::one && where.starts_with(pipeline)) where.replace(0, pipeline.size(), "$");
  return where;
}

}  // namespace

Result<Plan> plan_from_json(std::string_view text, const std::string& where) {
  Result<base::Document> document = base::read_json(text, where);
  if (!document.ok()) return document.error();
  base::ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  PlanSchema schema = PlanSchema::two;
  Plan plan = read_plan(root, schema);
  if (!sink.ok()) return sink.first().error();
  if (Status status = validate(plan); !status.ok()) {
    Error error = status.error();
    error.where = cat(where, ": ", place_in(error.where, schema));
    return error;
  }
  return plan;
}

}  // namespace espalier
