// SPDX-License-Identifier: Apache-2.0
// Provides plans on groups of unlike devices, of one pipeline and of several, whose claims are simulated:
//
//   chain          four fast devices and eight slow ones: three stages that differ in degrees, recomputation and
//                  numbers of layers
//   tied           embedding and head of one table on two kinds of device, a stage of tensor parallelism between them
//   experts        a mixture of experts: experts spread in both stages, whole nodes of another size
//   slow           one device at half its speed in a group of equal ones
//   several        a pipeline on each kind, with different cuts, degrees and sizes of micro-batches
//   tied-several   three pipelines of a tied model: two stages, one stage, one stage
#pragma once

#include <string>
#include <vector>

#include "cases.h"
#include "espalier/cluster.h"

namespace espalier::mutation {

/// Describes a stage: consecutive devices from `first` on, tp·dp of them, and its number of layers.
struct StageSpec {
  std::int64_t first = 0;
  std::int32_t tp = 1, dp = 1, zero = 0;
  std::int32_t layers = 1;
  RecomputeKind recompute = RecomputeKind::none;
  std::int32_t ep = 1;
};

inline Stage stage_of(const StageSpec& spec, const Model& model, std::int32_t& next, bool alone) {
  Strategy s = real_strategy(spec.dp, spec.tp, spec.zero);
  s.ep = spec.ep;
  const std::int32_t last = next + spec.layers - 1;
  if (spec.recompute != RecomputeKind::none) s.recompute.kind = spec.recompute;
  if (spec.recompute == RecomputeKind::full)
    for (std::int32_t i = next; i <= last; ++i)
      s.recompute.layers += model.layer(static_cast<std::size_t>(i)).role == LayerRole::block ? 1 : 0;
  s.overlap.grad_reduce = s.data_ranks() > 1;
  s.overlap.p2p = !alone;
  Stage stage;
  stage.devices = {{spec.first, std::int64_t{spec.tp} * spec.dp, 1}};
  stage.chunks.resize(1);
  stage.chunks.front().ranges = {{next, last, s}};
  next = last + 1;
  return stage;
}

/// Makes a pipeline with micro-batches of `each` samples in all replicas together.
inline Pipeline pipeline_on(const Model& model, std::int32_t id, std::int32_t samples, std::int32_t each,
                            const std::vector<StageSpec>& stages) {
  Pipeline out;
  out.id = id;
  out.samples = samples;
  out.schedule = {ScheduleKind::one_f_one_b, static_cast<std::int32_t>(stages.size()), 1, samples / each,
                  each / stages.front().dp};
  std::int32_t next = 0;
  for (const StageSpec& spec : stages) out.stages.push_back(stage_of(spec, model, next, stages.size() == 1));
  return out;
}

inline Job mixed_job(const Model& model, const std::string& cluster, std::int64_t batch) {
  Job job;
  job.model = model;
  auto loaded = load_cluster(cluster, "mixed");
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message());
  job.cluster = loaded.value();
  job.training.sequence.main = 512;
  job.training.global_batch = batch;
  return job;
}

inline Case mixed_case(const Job& job, std::vector<Pipeline> pipelines) {
  Plan plan;
  plan.training = job.training;
  plan.engine = job.engine;
  plan.pipelines = std::move(pipelines);
  Case c = truthful_case(job, plan);
  EXPECT_TRUE(c.check().ok()) << plan.label() << "\n" << broken(c.check());
  return c;
}

/// Returns a decoder of `blocks` blocks of width 1024.
inline Model mixed_model(std::int64_t blocks, bool tied, bool experts = false) {
  DecoderShape shape;
  shape.layers = blocks;
  shape.hidden = 1024;
  shape.ffn = 2816;
  shape.heads = 16;
  shape.kv_heads = 8;
  shape.vocabulary = 8192;
  shape.max_positions = 2048;
  shape.gated = true;
  shape.tied = tied;
  if (experts) {
    shape.experts = 8;
    shape.top_k = 2;
  }
  return make_decoder(shape, "mixed").value();
}

inline const char* const kTwoKinds =
    "{groups: [{name: new, nodes: 1, devices_per_node: 4, device: h100-sxm-80gb}, {name: old, nodes: 2, devices_per_node: 4, "
    "device: a100-sxm-40gb}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}";
inline const char* const kTwoSites =
    "{groups: [{name: new, nodes: 1, devices_per_node: 4, device: h100-sxm-80gb, site: east}, {name: old, nodes: 1, "
    "devices_per_node: 8, device: a100-sxm-40gb, site: west}], links: [{from: east, to: west, bandwidth: 40Gb/s, latency: 1ms, "
    "both: true}]}";
inline const char* const kSlowDevice =
    "{groups: [{name: all, nodes: 2, devices_per_node: 4, device: a100-sxm-40gb, speed: {\"rank:5\": 0.5}}]}";

inline const std::vector<Case>& mixed_cases() {
  static const std::vector<Case> cases = [] {
    using R = RecomputeKind;
    const Model plain = mixed_model(10, false), tied = mixed_model(10, true), experts = mixed_model(6, false, true);
    const Job chain = mixed_job(plain, kTwoKinds, 32), sites = mixed_job(tied, kTwoSites, 32);
    const Job moe = mixed_job(experts, kTwoSites, 32), slow = mixed_job(plain, kSlowDevice, 32);
    std::vector<Case> all;
    all.push_back(mixed_case(
        chain, {pipeline_on(plain, 0, 32, 4, {{0, 2, 2, 1, 6}, {4, 4, 1, 0, 3, R::selective}, {8, 1, 4, 1, 3, R::full}})}));
    all.push_back(mixed_case(sites, {pipeline_on(tied, 0, 32, 4, {{0, 1, 2, 0, 5}, {4, 2, 1, 0, 4}, {6, 1, 2, 0, 3}})}));
    all.push_back(mixed_case(moe, {pipeline_on(experts, 0, 32, 8, {{0, 1, 4, 1, 5, R::none, 4}, {4, 1, 8, 0, 3, R::none, 2}})}));
    all.push_back(mixed_case(slow, {pipeline_on(plain, 0, 32, 4, {{0, 2, 2, 1, 8}, {4, 2, 1, 0, 4}})}));
    all.push_back(mixed_case(chain, {pipeline_on(plain, 0, 20, 4, {{0, 1, 2, 1, 5}, {2, 2, 1, 0, 7}}),
                                     pipeline_on(plain, 1, 12, 4, {{4, 2, 2, 1, 8, R::selective}, {8, 4, 1, 0, 4}})}));
    all.push_back(mixed_case(
        sites, {pipeline_on(tied, 0, 16, 2, {{0, 1, 2, 0, 5}, {2, 1, 2, 0, 7}}), pipeline_on(tied, 3, 12, 4, {{4, 1, 4, 2, 12}}),
                pipeline_on(tied, 1, 4, 1, {{8, 4, 1, 0, 12, R::full}})}));
    return all;
  }();
  return cases;
}

}  // namespace espalier::mutation
