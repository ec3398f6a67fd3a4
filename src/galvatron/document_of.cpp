// SPDX-License-Identifier: Apache-2.0
// Converts a plan to a strategy file.
#include <algorithm>
#include <optional>

#include "galvatron/plan_conversion.h"

namespace espalier::galvatron {
namespace {

Error not_in_document(std::string where, std::string found, std::string expected, std::string hint = "") {
  return {ErrorKind::bad_input, std::move(where), std::move(found), std::move(expected),
          hint.empty() ? "Galvatron's strategy file cannot express this; plan without it" : std::move(hint)};
}

std::string stage_at(std::size_t i) { return "$.pipelines[0].stages[" + std::to_string(i) + "]"; }

Status check_schedule(const Schedule& s) {
  const std::string where = "$.pipelines[0].schedule";
  if (s.virtual_stages != 1) return not_in_document(where, std::to_string(s.virtual_stages) + " virtual stages", "1");
  if (s.kind != ScheduleKind::gpipe && s.kind != ScheduleKind::one_f_one_b)
    return not_in_document(where, "schedule " + std::string(to_string(s.kind)), "gpipe or 1f1b");
  return {};
}

Status check_strategy(const Strategy& s, const std::string& where) {
  if (s.ep != 1 || s.etp != 1)
    return not_in_document(where, "ep " + std::to_string(s.ep) + ", etp " + std::to_string(s.etp), "1: experts are not spread");
  if (s.zero == ZeroStage::optimizer) return not_in_document(where, "ZeRO-1", "no sharding (ddp), ZeRO-2 or ZeRO-3");
  if (s.shards_optimizer() && s.shard != s.data_ranks())
    return not_in_document(where, "shards over " + std::to_string(s.shard) + " of " + std::to_string(s.data_ranks()) + " ranks",
                           "over all ranks that hold the same weights");
  if (s.cp > 1 && s.cp_kind != ContextParallelKind::ring)
    return not_in_document(where, "context parallelism by all-to-all", "ring");
  if (s.order != RankOrder::tp_cp_dp_pp)
    return not_in_document(where, "rank order " + std::string(to_string(s.order)),
                           std::string(to_string(RankOrder::tp_cp_dp_pp)));
  if (s.recompute.kind == RecomputeKind::selective)
    return not_in_document(where, "selective recomputation", "whole blocks (full) or none");
  if (!s.partition.empty())
    return not_in_document(where, "an operator partition", "tensor, sequence, context and data parallelism");
  return {};
}

/// Checks that stage i holds devices i·size … (i + 1)·size − 1.
Status check_devices(const Pipeline& pipeline) {
  std::int64_t next = 0;
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const Stage& stage = pipeline.stages[i];
    for (const DeviceRange& r : stage.devices) {
      if (r.first != next || r.stride != 1)
        return not_in_document(stage_at(i) + ".devices",
                               "first " + std::to_string(r.first) + ", stride " + std::to_string(r.stride),
                               "the devices in order, stage by stage: first " + std::to_string(next) + ", stride 1");
      next += r.count;
    }
  }
  return {};
}

/// Holds a layer of the plan as the file has it.
struct FileLayer {
  Strategy strategy;
  bool recomputed = false;
  std::string where;
};

/// Returns the layers in order. With full recomputation, the first `recompute.layers` blocks of a range are
/// recomputed.
Result<std::vector<FileLayer>> placed_layers(const Pipeline& pipeline, std::vector<std::int32_t>& per_stage) {
  std::vector<FileLayer> layers;
  const std::int32_t last = pipeline.stages.back().chunks.front().last();
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const std::vector<LayerRange>& ranges = pipeline.stages[i].chunks.front().ranges;
    std::int32_t blocks_of_stage = 0;
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      const LayerRange& range = ranges[k];
      const std::string where = stage_at(i) + ".layers[" + std::to_string(k) + "].strategy";
      if (Status status = check_strategy(range.strategy, where); !status.ok()) return status.error();
      std::int32_t again = range.strategy.recompute.layers;
      for (std::int32_t l = range.first; l <= range.last; ++l) {
        const bool block = l > 0 && l < last;
        layers.push_back({range.strategy, block && again-- > 0, where});
        blocks_of_stage += block ? 1 : 0;
      }
    }
    if (blocks_of_stage == 0) return not_in_document(stage_at(i) + ".layers", "no block", "at least one per stage");
    per_stage.push_back(blocks_of_stage);
  }
  return layers;
}

/// Returns one type for all layers that are sharded but not with ZeRO-3; ddp if there is none.
Result<DataParallelType> default_type(const std::vector<FileLayer>& layers) {
  std::optional<ZeroStage> zero;
  for (const FileLayer& layer : layers) {
    const Strategy& s = layer.strategy;
    if (s.data_ranks() == 1 || s.shards_parameters()) continue;
    if (zero && *zero != s.zero)
      return not_in_document(
          layer.where, "zero " + std::to_string(number_of(s.zero)) + " together with zero " + std::to_string(number_of(*zero)),
          "ZeRO-3 and one other type for the rest");
    zero = s.zero;
  }
  return zero == ZeroStage::gradients ? DataParallelType::zero2 : DataParallelType::ddp;
}

/// Checks that all tensor groups use sequence parallelism or none does, because one flag covers the whole run.
Status check_tensor_groups(const std::vector<FileLayer>& layers) {
  std::optional<SequenceParallel> all;
  for (const FileLayer& layer : layers) {
    const Strategy& s = layer.strategy;
    if (s.tp == 1 || s.sp == SequenceParallel::ulysses) continue;
    if (all && *all != s.sp)
      return not_in_document(layer.where,
                             "sp " + std::string(to_string(s.sp)) + " together with sp " + std::string(to_string(*all)),
                             "one for all tensor groups: Galvatron has one flag for the run");
    all = s.sp;
  }
  return {};
}

bool is_zero3(const Strategy& s) { return s.shards_parameters(); }

Status check_vocabulary(const FileLayer& embedding, const FileLayer& head) {
  const Strategy &a = embedding.strategy, &b = head.strategy;
  if (a.tp == b.tp && a.cp == b.cp && a.sp == b.sp && a.zero == b.zero) return {};
  return not_in_document(head.where, "a head with another layout than the embedding",
                         "the same tp, sp, cp and zero: vtp, vsp, vcp and embed_sdp apply to both");
}

DocumentLayer document_layer(const FileLayer& layer) {
  const Strategy& s = layer.strategy;
  return {s.tp, s.cp, true, s.sp == SequenceParallel::ulysses, is_zero3(s), layer.recomputed ? 1 : 0};
}

}  // namespace

Result<StrategyDocument> document_of(const Plan& plan) {
  if (Status status = validate(plan); !status.ok()) return status.error();
  if (Status status = unsupported(plan); !status.ok()) return status.error();
  if (const std::size_t pipelines = plan.pipelines.size(); pipelines != 1)
    return Error{ErrorKind::check_failed, "$.pipelines", std::to_string(pipelines) + " pipelines",
                 "one pipeline: a strategy file cannot express more", ""};
  const Pipeline& pipeline = plan.only_pipeline();
  const Schedule& schedule = pipeline.schedule;
  if (Status status = check_schedule(schedule); !status.ok()) return status.error();
  if (Status status = check_devices(pipeline); !status.ok()) return status.error();
  StrategyDocument d;
  const auto layers = placed_layers(pipeline, d.division);
  if (!layers) return layers.error();
  if (Status status = check_tensor_groups(*layers); !status.ok()) return status.error();
  if (Status status = check_vocabulary(layers->front(), layers->back()); !status.ok()) return status.error();
  const auto type = default_type(*layers);
  if (!type) return type.error();
  d.default_type = *type;
  d.pp = schedule.stages;
  d.global_batch = plan.training.global_batch;
  d.chunks = schedule.microbatches;
  d.one_f_one_b = schedule.kind == ScheduleKind::one_f_one_b;
  for (std::size_t i = 1; i + 1 < layers->size(); ++i) d.layers.push_back(document_layer((*layers)[i]));
  const DocumentLayer vocabulary = document_layer(layers->front());
  d.vocab_tp = vocabulary.tp;
  d.vocab_cp = vocabulary.cp;
  d.vocab_ulysses = vocabulary.ulysses;
  d.vocab_zero3 = vocabulary.zero3;
  return d;
}

}  // namespace espalier::galvatron
