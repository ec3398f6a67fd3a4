// SPDX-License-Identifier: Apache-2.0
// Structure of a plan by itself, without model or cluster: bounds that keep hostile files cheap, then consistency.
//   schedule   kind and virtual stages agree; m · micro_batch · dp = global batch; at most 2^21 chunk passes
//   strategy   degrees positive; ZeRO stage 0 … 3; shard 1 exactly without ZeRO and a divisor of the data ranks
//   devices    tp · cp · dp of them a stage, each device in one place, listed as the strategies' order assigns them (device-order)
//   layers     chunks in pipeline order cover 0 … L−1 without gap or overlap
#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "espalier/plan.h"
#include "plan/rules.h"

namespace espalier {
namespace {

using base::cat;

constexpr std::int64_t kMaxDevices = std::int64_t{1} << 22;
constexpr std::int32_t kMaxLayers = 1 << 16;

Error fault(std::string where, std::string found, std::string expected,
            std::string hint = "plan again, or estimate the configuration that is meant") {
  return {ErrorKind::bad_input, std::move(where), std::move(found), std::move(expected), std::move(hint)};
}

Status check_schedule(const Schedule& s) {
  const std::string where = "$.schedule";
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
  // The rules of the space that speak of the schedule alone.
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
  if (std::int64_t{s.tp} * s.cp * s.dp > kMaxDevices) {
    return fault(where, cat("tp ", s.tp, " · cp ", s.cp, " · dp ", s.dp), cat("at most ", kMaxDevices, " devices"));
  }
  if (std::int64_t{s.tp} * s.cp * s.dp % (std::int64_t{s.ep} * s.etp) != 0) {
    return fault(where, cat("ep ", s.ep, " · etp ", s.etp, " with tp ", s.tp, ", cp ", s.cp, ", dp ", s.dp),
                 "ep · etp divides tp · cp · dp");
  }
  const bool full = s.recompute.kind == RecomputeKind::full;
  if (full ? s.recompute.layers < 1 : s.recompute.layers != 0) {
    return fault(where, cat("recompute ", to_string(s.recompute.kind), " of ", s.recompute.layers, " layers"),
                 "at least 1 layer with full recomputation, 0 otherwise");
  }
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
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const std::string where = cat("$.stages[", i, "]");
    const std::size_t before = ids.size();
    if (Status e = add_devices(plan.stages[i], where + ".devices", ids)) return e;
    const auto count = static_cast<std::int64_t>(ids.size() - before);
    for (const Chunk& chunk : plan.stages[i].chunks) {
      for (const LayerRange& range : chunk.ranges) {
        const Strategy& s = range.strategy;
        const std::int64_t needed = std::int64_t{s.tp} * s.cp * s.dp;
        if (count != needed)
          return fault(where, cat(count, " devices"), cat("tp ", s.tp, " · cp ", s.cp, " · dp ", s.dp, " = ", needed));
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) return fault("$.stages", cat("device ", *twice, " twice"), "each device once");
  return {};
}

/// Device of the n-th rank of a stage under a strategy's order (uniform.cpp).
std::int64_t device_of_rank(const Strategy& s, const Schedule& schedule, std::int64_t stage, std::int64_t n) {
  const std::int64_t inner = std::int64_t{s.tp} * s.cp;
  if (s.order == RankOrder::tp_cp_pp_dp) return n % inner + inner * (stage + schedule.stages * (n / inner));
  return n + inner * s.dp * stage;
}

/// Which devices form a tensor, context or data group follows from their places in the stage. What is priced is the assignment of `order`.
Status check_device_order(const Plan& plan) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    std::vector<std::int64_t> ids;
    if (Status e = add_devices(plan.stages[i], cat("$.stages[", i, "].devices"), ids)) return e;
    for (const Chunk& chunk : plan.stages[i].chunks) {
      for (const LayerRange& range : chunk.ranges) {
        for (std::size_t n = 0; n < ids.size(); ++n) {
          const std::int64_t expected =
              device_of_rank(range.strategy, plan.schedule, static_cast<std::int64_t>(i), static_cast<std::int64_t>(n));
          if (ids[n] == expected) continue;
          return fault(cat("$.stages[", i, "].devices"), cat("device-order: device ", ids[n], " in place ", n),
                       cat("device ", expected, ", where the order ", to_string(range.strategy.order), " puts rank ", n),
                       "devices are listed as the plan's order assigns them; other routes are not priced");
        }
      }
    }
  }
  return {};
}

/// Where a range stands in the `layers` of its stage.
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

Status check_layers(const Plan& plan) {
  std::int32_t next = 0;
  for (std::int32_t c = 0; c < plan.schedule.stages * plan.schedule.virtual_stages; ++c) {
    const ChunkPlace place = place_of_chunk(plan.schedule, c);
    const Stage& stage = plan.stages[static_cast<std::size_t>(place.stage)];
    for (const LayerRange& range : stage.chunks[static_cast<std::size_t>(place.local_chunk)].ranges) {
      if (range.first != next || range.last < range.first || range.last >= kMaxLayers) {
        return fault(cat("$.stages[", place.stage, "].layers[", position_of(stage, range), "]"),
                     cat("layers ", range.first, " … ", range.last),
                     cat("a range that starts at ", next, " (pipeline chunk ", c, "), below ", kMaxLayers));
      }
      next = range.last + 1;
    }
  }
  return {};
}

/// Layers of another dp take another micro-batch; all take the same samples.
Status check_samples(const Plan& plan, const Strategy& s, const std::string& where) {
  const std::int64_t samples = plan.samples_per_microbatch();
  if (samples % s.dp == 0) return {};
  return fault(where, cat("dp ", s.dp),
               cat("a divisor of the ", samples, " samples of a micro-batch (micro_batch · dp of the first layers)"));
}

Status check_training(const Plan& plan) {
  const Training& t = plan.training;
  if (t.global_batch < 1 || t.sequence.main < 0 || t.sequence.encoder < 0 || t.sequence.decoder < 0) {
    return fault("$.training", cat("global batch ", t.global_batch), "a positive batch and sequence");
  }
  const Schedule& s = plan.schedule;
  const std::int64_t step = std::int64_t{s.micro_batch} * plan.strategy().dp;
  if (t.global_batch % step != 0 || t.global_batch / step != s.microbatches) {
    return fault("$.schedule", cat(s.microbatches, " micro-batches · ", s.micro_batch, " · dp ", plan.strategy().dp),
                 cat("the global batch ", t.global_batch));
  }
  return {};
}

Status check_source(const std::string& where, const std::string& hash, const std::string& source) {
  if (source.empty() || hash == base::content_hash(source)) return {};
  return fault(where, cat("hash ", hash), cat("the hash of the embedded source, ", base::content_hash(source)),
               "the embedded input was edited; plan again from the changed input");
}

}  // namespace

Status validate(const Plan& plan) {
  if (Status e = check_schedule(plan.schedule)) return e;
  if (plan.stages.size() != static_cast<std::size_t>(plan.schedule.stages)) {
    return fault("$.stages", cat(plan.stages.size(), " stages"), cat("as many as the schedule has: ", plan.schedule.stages));
  }
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const std::string where = cat("$.stages[", i, "]");
    if (stage.chunks.size() != static_cast<std::size_t>(plan.schedule.virtual_stages)) {
      return fault(where + ".layers", cat(stage.chunks.size(), " ranges"),
                   cat("one for each virtual stage: ", plan.schedule.virtual_stages));
    }
    if (!(stage.share > 0 && stage.share <= 1))
      return fault(where + ".share", "a share outside (0, 1]", "a fraction of the samples");
    for (const Chunk& chunk : stage.chunks) {
      if (chunk.ranges.empty()) return fault(where + ".layers", "a chunk without layers", "at least one range");
      for (const LayerRange& range : chunk.ranges) {
        const std::string at = cat(where, ".layers[", position_of(stage, range), "].strategy");
        if (Status e = check_strategy(range.strategy, at)) return e;
        if (Status e = check_samples(plan, range.strategy, at)) return e;
      }
    }
  }
  if (Status e = check_training(plan)) return e;
  if (Status e = check_layers(plan)) return e;
  if (Status e = check_devices(plan)) return e;
  if (Status e = check_device_order(plan)) return e;
  if (Status e = check_source("$.model", plan.model_hash, plan.model_source)) return e;
  return check_source("$.cluster", plan.cluster_hash, plan.cluster_source);
}

}  // namespace espalier
