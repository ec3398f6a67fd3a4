// SPDX-License-Identifier: Apache-2.0
// Validates the structure of a plan by itself, without model or cluster: bounds that keep hostile files
// cheap, then consistency.
//   schedule   kind and virtual stages agree; m · micro_batch · dp = samples of the pipeline; at most 2^21 chunk passes
//   samples    those of all pipelines are the global batch; shares name every replica and every rank of a shard group
//   strategy   degrees positive; ZeRO stage 0 … 3; shard 1 exactly without ZeRO and a divisor of the data ranks
//   devices    tp · cp · dp of them per stage, each device in one place of one pipeline, in any order
//   layers     chunks in pipeline order cover 0 … L−1 without gap or overlap, the same L in every pipeline
#include <algorithm>
#include <set>

#include "base/document.h"
#include "base/format.h"
#include "espalier/plan.h"
#include "plan/rules.h"

namespace espalier {
namespace {

constexpr std::int64_t kMaxDevices = std::int64_t{1} << 22;
constexpr std::int32_t kMaxLayers = 1 << 16;
constexpr std::int64_t kMaxShare = std::int64_t{1} << 40;

Error fault(std::string where, std::string found, std::string expected,
            std::string hint = "plan again, or estimate the intended configuration") {
  return {ErrorKind::bad_input, std::move(where), std::move(found), std::move(expected), std::move(hint)};
}

Status check_schedule(const Schedule& s, const std::string& where) {
  if (s.stages < 1 || s.virtual_stages < 1 || s.microbatches < 1 || s.micro_batch < 1) {
    return fault(
        where,
        cat(s.stages, " stages, ", s.virtual_stages, " virtual stages, ", s.microbatches, " micro-batches of ", s.micro_batch),
        "positive numbers");
  }
  if (s.stages > kMaxLayers || s.virtual_stages > kMaxLayers ||
      std::int64_t{s.stages} * s.virtual_stages > kMaxChunkPasses / s.microbatches) {
    return fault(where, cat(s.stages, " stages · ", s.virtual_stages, " virtual stages · ", s.microbatches, " micro-batches"),
                 cat("at most ", kMaxChunkPasses, " chunk passes"));
  }
  // These are the rules of the space that read only the schedule.
  Strategy any;
  for (const std::string_view name : {"schedule-pipeline", "virtual-stages"}) {
    const Rule* rule = find_rule(name);
    if (!rule->holds({}, any, s)) return fault(where, rule->text({}, any, s), std::string(rule->sentence));
  }
  if (s.kind == ScheduleKind::interleaved && s.microbatches % s.stages != 0) {
    return fault(where, cat(s.microbatches, " micro-batches on ", s.stages, " stages"), "interleaved: a multiple of the stages");
  }
  return {};
}

Status check_strategy(const Strategy& s, const std::string& where) {
  const Schedule schedule;
  if (!find_rule("degrees-positive")->holds({}, s, schedule)) {
    return fault(where, find_rule("degrees-positive")->text({}, s, schedule), "degrees between 1 and 2^20");
  }
  for (const std::string_view name : {"zero-range", "zero-shard", "divide-shard"}) {
    const Rule* rule = find_rule(name);
    if (!rule->holds({}, s, schedule)) return fault(where, rule->text({}, s, schedule), std::string(rule->sentence));
  }
  if (s.devices() > kMaxDevices) {
    return fault(where, cat("tp ", s.tp, " · cp ", s.cp, " · dp ", s.dp), cat("at most ", kMaxDevices, " devices"));
  }
  if (s.devices() % (std::int64_t{s.ep} * s.etp) != 0) {
    return fault(where, cat("ep ", s.ep, " · etp ", s.etp, " with tp ", s.tp, ", cp ", s.cp, ", dp ", s.dp),
                 "ep · etp divides tp · cp · dp");
  }
  const bool full = s.recompute.kind == RecomputeKind::full;
  if (full ? s.recompute.layers < 1 : s.recompute.layers != 0) {
    return fault(where, cat("recompute ", to_string(s.recompute.kind), " of ", s.recompute.layers, " layers"),
                 "at least 1 layer with full recomputation, 0 otherwise");
  }
  if (s.recompute.modules.any() && s.recompute.kind != RecomputeKind::selective)
    return fault(where, cat("modules ", to_string(s.recompute.modules), " with recompute ", to_string(s.recompute.kind)),
                 "modules only with selective recomputation");
  return {};
}

/// Appends the ids of a stage; `room` bounds the devices of the whole plan.
Status add_devices(const Stage& stage, const std::string& where, std::vector<std::int64_t>& ids) {
  for (const DeviceRange& r : stage.devices) {
    const auto room = kMaxDevices - static_cast<std::int64_t>(ids.size());
    if (r.first < 0 || r.count < 1 || r.stride < 1 || (r.count == 1 && r.stride != 1) || r.count > room ||
        r.first > kMaxDevices || r.stride > kMaxDevices || r.first + (r.count - 1) * r.stride >= kMaxDevices) {
      return fault(where, cat("first ", r.first, ", count ", r.count, ", stride ", r.stride),
                   cat("device ids from 0, fewer than ", kMaxDevices, " in all; stride 1 for a single device"));
    }
    for (std::int64_t i = 0; i < r.count; ++i) ids.push_back(r.first + i * r.stride);
  }
  return {};
}

Status check_devices(const Plan& plan) {
  std::vector<std::int64_t> ids;
  std::size_t p = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    const std::string at = cat("$.pipelines[", p++, "]");
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
      const std::string where = cat(at, ".stages[", i, "]");
      const std::size_t before = ids.size();
      if (Status status = add_devices(pipeline.stages[i], where + ".devices", ids); !status.ok()) return status;
      const auto count = static_cast<std::int64_t>(ids.size() - before);
      for (const Chunk& chunk : pipeline.stages[i].chunks) {
        for (const LayerRange& range : chunk.ranges) {
          const Strategy& s = range.strategy;
          const std::int64_t needed = s.devices();
          if (count != needed)
            return fault(where, cat(count, " devices"), cat("tp ", s.tp, " · cp ", s.cp, " · dp ", s.dp, " = ", needed));
        }
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) return fault("$.pipelines", cat("device ", *twice, " twice"), "each device once");
  return {};
}

/// Returns the position of a range in the `layers` of its stage.
std::size_t position_of(const Stage& stage, const LayerRange& wanted) {
  std::size_t position = 0;
  for (const Chunk& chunk : stage.chunks) {
    for (const LayerRange& range : chunk.ranges) {
      if (&range == &wanted) return position;
      ++position;
    }
  }
  return position;
}

Status check_layers(const Pipeline& pipeline, const std::string& where, std::int32_t& layers) {
  const Schedule& schedule = pipeline.schedule;
  std::int32_t next = 0;
  for (std::int32_t c = 0; c < schedule.chunks(); ++c) {
    const ChunkPlace place = place_of_chunk(schedule, c);
    const Stage& stage = pipeline.stages[static_cast<std::size_t>(place.stage)];
    for (const LayerRange& range : stage.chunks[static_cast<std::size_t>(place.local_chunk)].ranges) {
      if (range.first != next || range.last < range.first || range.last >= kMaxLayers) {
        return fault(cat(where, ".stages[", place.stage, "].layers[", position_of(stage, range), "]"),
                     cat("layers ", range.first, " … ", range.last),
                     cat("a range that starts at ", next, " (pipeline chunk ", c, "), below ", kMaxLayers));
      }
      next = range.last + 1;
    }
  }
  if (layers >= 0 && next != layers)
    return fault(where, cat(next, " layers"), cat(layers, ", like the pipeline before it: every pipeline holds the whole model"));
  layers = next;
  return {};
}

/// Checks the samples of a layer: with another dp it takes another micro-batch, but all layers take the same samples.
Status check_samples(const Pipeline& pipeline, const Strategy& s, const std::string& where) {
  const std::int64_t samples = pipeline.samples_per_microbatch();
  if (samples % s.dp == 0) return {};
  return fault(where, cat("dp ", s.dp),
               cat("a divisor of the ", samples, " samples of a micro-batch (micro_batch · dp of the first layers)"));
}

/// Checks that there is one share for each member and that they sum to `all`; a share of 0 means none. With `all` < 0
/// only their proportion counts.
Status check_shares(const std::vector<std::int64_t>& shares, std::int64_t count, std::int64_t all, const std::string& where,
                    const std::string& of) {
  if (shares.empty()) return {};
  std::int64_t sum = 0;
  for (const std::int64_t share : shares) {
    if (share < 0 || share > kMaxShare) return fault(where, cat(share), cat("from 0 to ", kMaxShare));
    sum += share;
  }
  if (static_cast<std::int64_t>(shares.size()) != count) return fault(where, cat(shares.size(), " shares"), cat(count, ", ", of));
  if (all >= 0 ? sum != all : sum < 1)
    return fault(where, cat(sum, " in all"), all >= 0 ? cat(all, " in all") : "more than none");
  return {};
}

/// Checks replicas and shard groups of a stage, which must be the same for all its layers.
Status check_shares(const Pipeline& pipeline, const Stage& stage, const std::string& where) {
  for (const Chunk& chunk : stage.chunks) {
    for (const LayerRange& range : chunk.ranges) {
      const Strategy& s = range.strategy;
      if (Status status = check_shares(stage.samples_per_replica, s.dp, pipeline.samples_per_microbatch(),
                                       where + ".samples_per_replica", "the dp of every layer of the stage");
          !status.ok())
        return status;
      if (Status status =
              check_shares(stage.state_shares, s.shard, -1, where + ".state_shares", "the shard of every layer of the stage");
          !status.ok())
        return status;
    }
  }
  return {};
}

Status check_stages(const Pipeline& pipeline, const std::string& within) {
  if (pipeline.stages.size() != static_cast<std::size_t>(pipeline.schedule.stages)) {
    return fault(within + ".stages", cat(pipeline.stages.size(), " stages"),
                 cat("as many as in the schedule: ", pipeline.schedule.stages));
  }
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const Stage& stage = pipeline.stages[i];
    const std::string where = cat(within, ".stages[", i, "]");
    if (stage.chunks.size() != static_cast<std::size_t>(pipeline.schedule.virtual_stages)) {
      return fault(where + ".layers", cat(stage.chunks.size(), " ranges"),
                   cat("one per virtual stage: ", pipeline.schedule.virtual_stages));
    }
    for (const Chunk& chunk : stage.chunks) {
      if (chunk.ranges.empty()) return fault(where + ".layers", "a chunk without layers", "at least one range");
      for (const LayerRange& range : chunk.ranges) {
        const std::string at = cat(where, ".layers[", position_of(stage, range), "].strategy");
        if (Status status = check_strategy(range.strategy, at); !status.ok()) return status;
        if (Status status = check_samples(pipeline, range.strategy, at); !status.ok()) return status;
      }
    }
    if (Status status = check_shares(pipeline, stage, where); !status.ok()) return status;
  }
  return {};
}

Status check_batch(const Pipeline& pipeline, const std::string& where) {
  const Schedule& s = pipeline.schedule;
  const std::int64_t step = pipeline.samples_per_microbatch();
  if (pipeline.samples % step != 0 || pipeline.samples / step != s.microbatches) {
    return fault(where + ".schedule", cat(s.microbatches, " micro-batches · ", s.micro_batch, " · dp ", pipeline.strategy().dp),
                 cat("the samples of the pipeline, ", pipeline.samples));
  }
  return {};
}

Status check_pipelines(const Plan& plan) {
  if (plan.pipelines.empty()) return fault("$.pipelines", "none", "at least one pipeline");
  std::int32_t layers = -1;
  std::set<std::int32_t> ids;
  std::size_t p = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    const std::string where = cat("$.pipelines[", p++, "]");
    if (!ids.insert(pipeline.id).second || pipeline.id < 0)
      return fault(where + ".id", cat(pipeline.id), "a unique id of at least 0");
    if (Status status = check_schedule(pipeline.schedule, where + ".schedule"); !status.ok()) return status;
    if (Status status = check_stages(pipeline, where); !status.ok()) return status;
    if (Status status = check_batch(pipeline, where); !status.ok()) return status;
    if (Status status = check_layers(pipeline, where, layers); !status.ok()) return status;
  }
  return {};
}

Status check_training(const Plan& plan) {
  const Training& t = plan.training;
  if (t.global_batch < 1 || t.sequence.main < 0 || t.sequence.encoder < 0 || t.sequence.decoder < 0 || t.sequence.images < 1 ||
      t.sequence.encoder % std::max<std::int64_t>(1, t.sequence.images) != 0) {
    return fault("$.training", cat("global batch ", t.global_batch), "a positive batch and sequence");
  }
  std::int64_t samples = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    if (pipeline.samples < 1 || pipeline.samples > t.global_batch - samples)
      return fault("$.pipelines", cat("pipeline ", pipeline.id, " takes ", pipeline.samples, " samples"),
                   cat("samples of all pipelines that add up to the global batch, ", t.global_batch));
    samples += pipeline.samples;
  }
  if (samples == t.global_batch) return {};
  return fault("$.pipelines", cat(samples, " samples in all"), cat("the global batch, ", t.global_batch));
}

Status check_source(const std::string& where, const std::string& hash, const std::string& source) {
  if (source.empty() || hash == base::content_hash(source)) return {};
  return fault(where, cat("hash ", hash), cat("the hash of the embedded source, ", base::content_hash(source)),
               "the embedded input was edited; plan again from the changed input");
}

}  // namespace

Status validate(const Plan& plan) {
  if (Status status = check_pipelines(plan); !status.ok()) return status;
  if (Status status = check_training(plan); !status.ok()) return status;
  if (Status status = check_devices(plan); !status.ok()) return status;
  if (Status status = check_source("$.model", plan.model_hash, plan.model_source); !status.ok()) return status;
  return check_source("$.cluster", plan.cluster_hash, plan.cluster_source);
}

}  // namespace espalier
