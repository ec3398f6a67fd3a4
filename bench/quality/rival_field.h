// SPDX-License-Identifier: Apache-2.0
// Builds rival plans of a job on several node groups, checks whether they are legal and in which space they are, and
// times them. It uses nothing of the search, only rules (src/plan), prices and the simulator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost/cluster_costs.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "plan/engine_fwd.h"
#include "plan/engine_rules.h"
#include "plan/rules.h"
#include "plan/split.h"
#include "planner/memory_margin.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "search/search.h"

namespace espalier::bench {

/// Describes one pipeline: a uniform one on the devices of a region in this order, or the given stages.
struct Part {
  bool uniform = true;
  std::vector<std::int64_t> region;
  Strategy strategy;
  Schedule schedule;
  std::int64_t samples = 0;
  std::vector<Stage> stages;
};
using Rival = std::vector<Part>;

/// Returns the devices as the fewest ranges, in order.
inline std::vector<DeviceRange> ranges_of(const std::vector<std::int64_t>& devices) {
  std::vector<DeviceRange> out;
  for (std::size_t i = 0; i < devices.size();) {
    DeviceRange range{devices[i], 1, 1};
    const std::int64_t step = i + 1 < devices.size() ? devices[i + 1] - devices[i] : 1;
    if (step > 0) range.stride = step;
    while (i + static_cast<std::size_t>(range.count) < devices.size() && step > 0 &&
           devices[i + static_cast<std::size_t>(range.count)] == range.first + range.count * step)
      ++range.count;
    if (range.count == 1) range.stride = 1;
    // Two devices with a gap become two ranges if more devices follow, which may be consecutive.
    if (range.count == 2 && step > 1 && i + 2 < devices.size()) range = {devices[i], 1, 1};
    out.push_back(range);
    i += static_cast<std::size_t>(range.count);
  }
  return out;
}

inline std::vector<std::int64_t> devices_in(const std::vector<DeviceRange>& ranges) {
  std::vector<std::int64_t> out;
  for (const DeviceRange& r : ranges)
    for (std::int64_t n = 0; n < r.count; ++n) out.push_back(r.first + n * r.stride);
  return out;
}

inline std::vector<std::int64_t> run_of(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Returns true if the stages hold the same layers on the same devices, in whatever notation.
inline bool same_stages(const std::vector<Stage>& a, const std::vector<Stage>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Stage& x, const Stage& y) {
    return x.chunks == y.chunks && x.samples_per_replica == y.samples_per_replica && x.state_shares == y.state_shares &&
           devices_in(x.devices) == devices_in(y.devices);
  });
}

struct Judged {
  std::int64_t ns = 0;
  bool fits = false;
};

/// Holds the state shared by the rivals of one job. It is used by one thread.
class Field {
 public:
  explicit Field(const Job& job)
      : job_(job),
        room_(planner::with_memory_room(job)),
        engine_(*planner::engine_of(job)),
        facts_(rule_facts(room_.model, room_.cluster, room_.training, engine_->split)),
        costs_(room_.model, room_.cluster, room_.training, *engine_),
        evaluator_(1, job.network),
        problem_(problem_of(room_, *engine_)) {
    const auto layers = static_cast<std::int32_t>(room_.model.layers.size());
    splits_.resize(static_cast<std::size_t>(layers) + 1);
    for (std::int32_t chunks = 1; chunks <= layers; ++chunks)
      splits_[static_cast<std::size_t>(chunks)] = split_layers(room_.model, room_.training.sequence, engine_->split, chunks);
    template_.engine = engine_->name;
    template_.training = room_.training;
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const Cluster& cluster() const { return room_.cluster; }
  [[nodiscard]] const Model& model() const { return room_.model; }
  [[nodiscard]] const RuleFacts& facts() const { return facts_; }
  [[nodiscard]] std::int64_t batch() const { return room_.training.global_batch; }
  [[nodiscard]] std::int32_t layers() const { return static_cast<std::int32_t>(room_.model.layers.size()); }
  [[nodiscard]] const std::vector<std::int32_t>& split(std::int32_t chunks) const {
    return splits_[static_cast<std::size_t>(chunks)];
  }
  [[nodiscard]] std::int32_t blocks(std::int32_t first, std::int32_t last) const;
  [[nodiscard]] std::int64_t group_size(std::size_t g) const {
    return cluster().groups[g].nodes * cluster().groups[g].devices_per_node;
  }
  /// Returns the operations per second of a device at the job's precision.
  [[nodiscard]] double pace(std::int64_t device) const {
    const DeviceKind& kind = cluster().groups[cluster().group_of(device)].device;
    return kind.peak_of(room_.training.precision).count() * cluster().speed_of(device);
  }

  /// Checks rules, engine and the job's search part, for a uniform plan with given numbers of samples and devices.
  [[nodiscard]] bool legal(const Strategy& s, const Schedule& schedule, std::int64_t devices, std::int64_t samples);
  /// Checks the same for a stage of a pipeline, which processes `samples` as one micro-batch.
  [[nodiscard]] bool legal_stage(const Stage& stage, const Part& part, std::int64_t samples);
  [[nodiscard]] bool legal(const Rival& rival);

  [[nodiscard]] Pipeline pipeline(const Part& part, std::int32_t id) const;
  [[nodiscard]] Plan plan(const Rival& rival) const;
  /// Returns the rival as a plan document of the job.
  [[nodiscard]] Plan document(const Rival& rival) const;
  /// Reads a plan's pipelines as parts and recognises uniform ones.
  [[nodiscard]] Rival read(const Plan& plan) const;

  /// Returns the time of a rival as judged; null if it breaks a rule of whole plans.
  std::optional<Judged> judge(const Rival& rival);
  /// Returns the time of one pipeline alone, as a plan with its samples as batch.
  std::optional<Judged> judge_alone(const Part& part);

  /// Returns true if the docs of the space name such plans. These are uniform plans on the whole cluster or on
  /// one group, chains of stages, one stage with unequal replicas, and concurrent uniform pipelines, one on each
  /// of several groups.
  [[nodiscard]] bool documented(const Rival& rival) const;

 private:
  static search::Problem problem_of(const Job& job, const EngineModel& engine) {
    return {&job.model, &job.cluster, job.training, &engine, job.search};
  }
  [[nodiscard]] std::vector<Stage> uniform_stages(const Part& part) const;
  /// Returns true if the chunks of the stages hold the layers in the order that their schedule numbers them.
  [[nodiscard]] bool in_order(const Part& part) const;
  [[nodiscard]] bool whole_group(const std::vector<std::int64_t>& region) const;
  [[nodiscard]] bool is_chain(const Part& part) const;
  [[nodiscard]] bool is_chain_stage(const Stage& stage) const;
  [[nodiscard]] bool are_replicas(const Part& part) const;
  [[nodiscard]] bool admitted(const Strategy& s, const Schedule& schedule) const;

  const Job& job_;
  const Job room_;
  const EngineModel* engine_;
  RuleFacts facts_;
  const cost::ClusterCosts costs_;
  planner::SimulatedEvaluator evaluator_;
  search::Problem problem_;
  std::vector<std::vector<std::int32_t>> splits_;
  Plan template_;
};

inline std::int32_t Field::blocks(std::int32_t first, std::int32_t last) const {
  std::int32_t out = 0;
  for (std::int32_t l = first; l <= last; ++l)
    out += room_.model.layer(static_cast<std::size_t>(l)).role == LayerRole::block ? 1 : 0;
  return out;
}

inline bool Field::admitted(const Strategy& s, const Schedule& schedule) const {
  const SearchSpace& space = room_.search;
  if (space.allowed.empty() && space.forbidden.empty() && space.limits.empty()) return true;
  for (int d = 0; d < kDimensions; ++d) {
    const auto dimension = static_cast<Dimension>(d);
    if (!space.admits(dimension, get(dimension, s, schedule))) return false;
  }
  return true;
}

inline bool Field::legal(const Strategy& s, const Schedule& schedule, std::int64_t devices, std::int64_t samples) {
  facts_.devices = devices;
  facts_.global_batch = samples;
  return is_legal(facts_, s, schedule) && engine_allows(*engine_, facts_, s, schedule) && admitted(s, schedule);
}

inline bool Field::legal_stage(const Stage& stage, const Part& part, std::int64_t samples) {
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges) {
      Strategy s = range.strategy;
      if (samples % s.dp != 0) return false;
      if (s.recompute.kind == RecomputeKind::full) {
        if (s.recompute.layers < 1 || s.recompute.layers > range.last - range.first + 1) return false;
        s.recompute.layers = 1;
      }
      Schedule schedule = part.schedule;
      std::int64_t alike = schedule.stages;
      if (schedule.kind == ScheduleKind::one_f_one_b) {
        schedule.stages = 1;
        s.overlap.p2p = false;
        alike = 1;
      }
      schedule.micro_batch = static_cast<std::int32_t>(samples / s.dp);
      if (!legal(s, schedule, s.devices() * alike, part.samples)) return false;
    }
  return true;
}

inline bool Field::in_order(const Part& part) const {
  std::int32_t next = 0;
  for (std::int32_t c = 0; c < part.schedule.chunks(); ++c) {
    const ChunkPlace at = place_of_chunk(part.schedule, c);
    const Stage& stage = part.stages[static_cast<std::size_t>(at.stage)];
    if (stage.chunks.size() != static_cast<std::size_t>(part.schedule.virtual_stages)) return false;
    for (const LayerRange& range : stage.chunks[static_cast<std::size_t>(at.local_chunk)].ranges) {
      if (range.first != next || range.last < range.first) return false;
      next = range.last + 1;
    }
  }
  return next == layers();
}

inline bool Field::legal(const Rival& rival) {
  std::int64_t samples = 0, devices = 0;
  for (const Part& part : rival) {
    samples += part.samples;
    if (part.uniform) {
      devices += static_cast<std::int64_t>(part.region.size());
      if (!legal(part.strategy, part.schedule, static_cast<std::int64_t>(part.region.size()), part.samples)) return false;
      continue;
    }
    if (part.stages.size() != static_cast<std::size_t>(part.schedule.stages) || !in_order(part)) return false;
    const std::int64_t at_once =
        std::int64_t{part.schedule.micro_batch} * part.stages.front().chunks.front().ranges.front().strategy.dp;
    if (at_once * part.schedule.microbatches != part.samples) return false;
    for (const Stage& stage : part.stages) {
      devices += static_cast<std::int64_t>(devices_in(stage.devices).size());
      if (!legal_stage(stage, part, at_once)) return false;
    }
  }
  const bool all = job_.search.devices == DeviceChoice::all;
  return samples == batch() && (all ? devices == cluster().devices() : devices <= cluster().devices());
}

/// Returns the devices of each stage by the rank order, from a region of tp·cp·dp·pp devices.
inline std::vector<Stage> Field::uniform_stages(const Part& part) const {
  const Strategy& s = part.strategy;
  const std::int64_t inner = std::int64_t{s.tp} * s.cp, stages = part.schedule.stages;
  const std::vector<std::int32_t>& first = split(part.schedule.chunks());
  std::vector<Stage> out;
  for (std::int32_t i = 0; i < part.schedule.stages; ++i) {
    std::vector<std::int64_t> devices;
    for (std::int64_t d = 0; d < s.dp; ++d)
      for (std::int64_t k = 0; k < inner; ++k) {
        const std::int64_t place = s.order == RankOrder::tp_cp_pp_dp ? k + inner * (i + stages * d) : k + inner * (d + s.dp * i);
        devices.push_back(part.region[static_cast<std::size_t>(place)]);
      }
    Stage stage;
    stage.devices = ranges_of(devices);
    for (std::int32_t k = 0; k < part.schedule.virtual_stages; ++k) {
      const auto chunk = static_cast<std::size_t>(pipeline_chunk(part.schedule, i, k));
      const std::int32_t end = chunk + 1 < first.size() ? first[chunk + 1] : layers();
      stage.chunks.push_back({{{first[chunk], end - 1, s}}});
    }
    out.push_back(std::move(stage));
  }
  return out;
}

inline Pipeline Field::pipeline(const Part& part, std::int32_t id) const {
  Pipeline out;
  out.id = id;
  out.schedule = part.schedule;
  out.samples = part.samples;
  out.stages = part.uniform ? uniform_stages(part) : part.stages;
  return out;
}

inline Plan Field::plan(const Rival& rival) const {
  Plan out = template_;
  out.pipelines.clear();
  for (const Part& part : rival) out.pipelines.push_back(pipeline(part, static_cast<std::int32_t>(out.pipelines.size())));
  return out;
}

inline Plan Field::document(const Rival& rival) const {
  search::PlanCandidate candidate;
  candidate.pipelines = plan(rival).pipelines;
  return planner::document_of(job_, *engine_, candidate);
}

inline Rival Field::read(const Plan& plan) const {
  Rival out;
  for (const Pipeline& pipeline : plan.pipelines) {
    Part part;
    part.schedule = pipeline.schedule;
    part.samples = pipeline.samples;
    part.strategy = pipeline.strategy();
    for (const Stage& stage : pipeline.stages) {
      const auto devices = devices_in(stage.devices);
      part.region.insert(part.region.end(), devices.begin(), devices.end());
    }
    std::sort(part.region.begin(), part.region.end());
    const Strategy& s = part.strategy;
    const bool same_size = part.region.size() == static_cast<std::size_t>(s.devices() * part.schedule.stages);
    if (!same_size || !same_stages(uniform_stages(part), pipeline.stages)) {
      part.uniform = false;
      part.region.clear();
      part.stages = pipeline.stages;
    }
    out.push_back(std::move(part));
  }
  return out;
}

inline std::optional<Judged> Field::judge(const Rival& rival) {
  const Plan made = plan(rival);
  if (!unsupported(made).ok() || !plan_violations(room_.model, made).empty()) return std::nullopt;
  const auto found = evaluator_.evaluate(problem_, costs_, made);
  if (!found) return std::nullopt;
  return Judged{found->iteration_ns, found->fits};
}

inline std::optional<Judged> Field::judge_alone(const Part& part) {
  Plan made = plan({part});
  made.training.global_batch = part.samples;
  if (!unsupported(made).ok() || !plan_violations(room_.model, made).empty()) return std::nullopt;
  const auto found = evaluator_.evaluate(problem_, costs_, made);
  if (!found) return std::nullopt;
  return Judged{found->iteration_ns, found->fits};
}

inline bool Field::whole_group(const std::vector<std::int64_t>& region) const {
  const std::size_t g = cluster().group_of(region.front());
  return region == run_of(cluster().first_device(g), group_size(g));
}

inline bool Field::is_chain_stage(const Stage& stage) const {
  if (stage.devices.size() != 1 || stage.devices.front().stride != 1 || uneven_replicas(stage)) return false;
  if (stage.chunks.size() != 1 || stage.chunks.front().ranges.size() != 1) return false;
  const DeviceRange& at = stage.devices.front();
  const std::size_t g = cluster().group_of(at.first);
  if (cluster().group_of(at.first + at.count - 1) != g) return false;
  const std::int64_t node = cluster().groups[g].devices_per_node, offset = at.first - cluster().first_device(g);
  const bool inside = at.count < node && (at.count & (at.count - 1)) == 0 && node % at.count == 0 && offset % at.count == 0 &&
                      offset / node == (offset + at.count - 1) / node;
  if (!inside && (at.count % node != 0 || offset % node != 0)) return false;
  const LayerRange& range = stage.chunks.front().ranges.front();
  const Strategy& s = range.strategy;
  const bool long_sequence = room_.training.sequence.main >= 16'384;
  if ((s.tp & (s.tp - 1)) != 0 || s.tp > node || (s.cp > 1 && !long_sequence) || (s.ep & (s.ep - 1)) != 0 || s.etp != 1)
    return false;
  if (s.sp == SequenceParallel::ulysses || s.order != RankOrder::tp_cp_dp_pp || s.offload != Offload::none || s.overlap.tp)
    return false;
  if (s.shards_optimizer() && s.shard != s.data_ranks()) return false;
  return s.recompute.kind != RecomputeKind::full || s.recompute.layers == blocks(range.first, range.last);
}

inline bool Field::is_chain(const Part& part) const {
  const bool named = room_.search.allowed.contains(Dimension::schedule);
  const bool zero_bubble = named && part.schedule.kind == ScheduleKind::zb_h1;
  if (part.schedule.kind != ScheduleKind::one_f_one_b && !zero_bubble) return false;
  if (batch() % (std::int64_t{part.schedule.micro_batch} * part.schedule.microbatches) != 0 && part.samples != batch())
    return false;
  const std::vector<Stage> stages = pipeline(part, 0).stages;
  return std::all_of(stages.begin(), stages.end(), [&](const Stage& s) { return is_chain_stage(s); });
}

inline bool Field::are_replicas(const Part& part) const {
  const std::vector<Stage> stages = pipeline(part, 0).stages;
  if (stages.size() != 1 || stages.front().chunks.size() != 1 || stages.front().chunks.front().ranges.size() != 1) return false;
  const Strategy& s = stages.front().chunks.front().ranges.front().strategy;
  const bool simple = s.cp == 1 && s.ep == 1 && s.etp == 1 && s.sp != SequenceParallel::ulysses &&
                      s.order == RankOrder::tp_cp_dp_pp && (s.tp & (s.tp - 1)) == 0 && (!s.shards_optimizer() || s.shard == s.dp);
  if (!simple || (s.recompute.kind == RecomputeKind::full && s.recompute.layers != blocks(0, layers() - 1))) return false;
  std::vector<std::int64_t> expected;
  const std::vector<std::int64_t> devices = devices_in(stages.front().devices);
  for (std::size_t g = 0; g < cluster().groups.size(); ++g) {
    const std::int64_t first = cluster().first_device(g);
    if (std::find(devices.begin(), devices.end(), first) == devices.end()) continue;
    if (cluster().groups[g].devices_per_node % s.tp != 0) return false;
    const auto own = run_of(first, group_size(g));
    expected.insert(expected.end(), own.begin(), own.end());
  }
  return devices == expected;
}

inline bool Field::documented(const Rival& rival) const {
  if (rival.size() > 1)
    return std::all_of(rival.begin(), rival.end(), [&](const Part& p) { return p.uniform && whole_group(p.region); });
  const Part& part = rival.front();
  if (part.uniform && (part.region == run_of(0, cluster().devices()) || whole_group(part.region))) return true;
  return is_chain(part) || are_replicas(part);
}

}  // namespace espalier::bench
