// SPDX-License-Identifier: Apache-2.0
#include "galvatron/profiled_cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/invariant.h"

namespace espalier::galvatron {
namespace {

constexpr double kMiB = 1 << 20, kStatesPerParameter = 4, kBackward = 2, kSlack = 0.003;
constexpr double kFrameworkMb = 1024;
constexpr std::int64_t kReserveAboveMb = 20 * 1024;

double real(std::int64_t n) { return static_cast<double>(n); }

std::int64_t stage_devices(const ProfiledModel& model, const ProfiledPipeline& pipeline) { return model.devices / pipeline.pp; }

/// Returns the samples of a micro-batch on a rank whose layer is spread over `group`.
double samples(const ProfiledModel& model, const ProfiledPipeline& pipeline, std::int64_t group) {
  return real(model.batch) / real(pipeline.chunks) * real(group) / real(stage_devices(model, pipeline));
}

std::int64_t weight_ranks(const ProfiledStrategy& s) { return s.ulysses ? std::int64_t{s.group} * s.dp : s.dp; }
double tensor_parallel(const ProfiledStrategy& s) { return s.ulysses ? 1.0 : s.group; }

double element_bytes(const ProfiledModel& model) { return model.mixed_precision ? 2 : 4; }

/// Returns M, the size of the message that a layer passes on.
double message_mb(const ProfiledModel& model, const ProfiledLayerType& type, double samples) {
  return samples * real(type.sequence) * real(type.hidden) * element_bytes(model) / kMiB;
}

double value_of(const std::map<std::int32_t, double>& by_degree, std::int32_t degree) {
  const auto found = by_degree.find(degree);
  ESPALIER_CHECK(found != by_degree.end());
  return found->second;
}

// ---- communication ------------------------------------------------------------------------------------------------

/// Returns the ms per MB of an all-reduce's bus bandwidth. Profiles measure a group in both rank orders only where
/// these differ.
double all_reduce_ms_per_mb(const ProfiledModel& model, std::int64_t ranks, bool consecutive) {
  if (ranks == 1) return 0;
  const auto& table = model.all_reduce.gb_per_s;
  auto found = table.find({static_cast<std::int32_t>(ranks), consecutive});
  if (found == table.end()) found = table.find({static_cast<std::int32_t>(ranks), !consecutive});
  ESPALIER_CHECK(found != table.end());
  return 1.0 / found->second;
}

/// Fits a line by least squares; through the origin for a single point.
LinearTime fitted(const std::vector<std::pair<double, double>>& points) {
  if (points.size() == 1) return {points.front().second / points.front().first, 0};
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& point : points) {
    x += point.first;
    y += point.second;
  }
  const double n = static_cast<double>(points.size());
  x /= n;
  y /= n;
  for (const auto& point : points) {
    xx += (point.first - x) * (point.first - x);
    xy += (point.first - x) * (point.second - y);
  }
  if (xx == 0) return {y / x, 0};
  return {xy / xx, y - xy / xx * x};
}

enum class Collective : std::uint8_t { all_gather, all_reduce, all_to_all };

/// Returns the measured time of that size, or the line through the measured ones. Without a measurement of the group,
/// it uses its all-reduce bandwidth.
double collective_ms(const ProfiledModel& model, Collective kind, std::int32_t group, double mb) {
  if (group == 1) return 0;
  const auto& table = kind == Collective::all_to_all ? model.collectives.all_to_all_ms : model.collectives.all_reduce_ms;
  const double share = kind == Collective::all_gather ? 0.5 : 1.0;
  std::vector<std::pair<double, double>> points;
  for (const auto& [key, ms] : table) {
    if (key.first != group) continue;
    if (real(key.second) == mb) return share * ms;
    if (key.second > 0) points.emplace_back(real(key.second), ms);
  }
  if (!points.empty()) return share * std::max(0.0, fitted(points).at(mb));
  const double moved = (group - 1.0) / group * mb * all_reduce_ms_per_mb(model, group, true);
  return kind == Collective::all_reduce ? 2 * moved : kind == Collective::all_gather ? moved : moved / group;
}

double group_ms(const ProfiledModel& model, const ProfiledStrategy& s, double mb) {
  double ms = 0;
  if (s.ulysses)
    ms = 4 * collective_ms(model, Collective::all_to_all, s.group, mb);
  else if (model.sequence_parallel)
    ms = 6 * collective_ms(model, Collective::all_gather, s.group, mb);
  else
    ms = 4 * collective_ms(model, Collective::all_reduce, s.group, mb);
  return s.checkpoint ? 1.5 * ms : ms;
}

/// Returns overlap(G, w): both are slowed by κ while they run together.
double overlapped_ms(double reduce_ms, double work_ms, double slowdown) {
  const double together = std::min(reduce_ms, work_ms);
  return together * slowdown + (reduce_ms - together) + (work_ms - together);
}

/// Returns the time of communication under work, where only the work is slowed.
double hidden_ms(double comm_ms, double work_ms, double slowdown) {
  return slowdown * work_ms > comm_ms ? work_ms + comm_ms * (1 - 1 / slowdown) : comm_ms;
}

// ---- profiles to a model ------------------------------------------------------------------------------------------

Error lacks(const std::string& file, const std::string& found, const std::string& expected) {
  return {ErrorKind::bad_input, file, found, expected, "profile the job's own model and sequence length"};
}

/// Fits the forward time: ms of whole batches over samples, which the profilers call mode batch. A single batch is
/// proportional.
Result<LinearTime> forward_time(const ComputationProfile& profile, bool other, std::int32_t type, std::int64_t sequence) {
  std::vector<std::pair<double, double>> points;
  for (const ForwardTime& t : profile.times) {
    if (t.other == other && t.layer_type == type && t.part == LayerPart::whole && t.sequence == sequence)
      points.emplace_back(real(t.batch), t.ms_per_sample * real(t.batch));
  }
  if (points.empty() && other) return LinearTime{};
  const std::string key = "layertype_" + std::to_string(type) + "_bsz…_seq" + std::to_string(sequence);
  if (points.empty()) return lacks("computation profile", "no " + key, "forward times of the job's layers");
  const LinearTime time = fitted(points);
  if (time.at(1) <= 0)
    return lacks("computation profile", key + " that drops to 0 at one sample", "times that grow with the batch");
  return time;
}

/// Returns the rows of one sequence length, for embedding and head on one kind of stage.
Result<OtherMemory> other_of(const std::map<BySequence, OtherMemory>& rows, const std::string& name, std::int64_t sequence) {
  const auto found = rows.find(sequence);
  if (found == rows.end())
    return lacks("memory profile", "no " + name + " of sequence " + std::to_string(sequence), "embedding and head of the job");
  return found->second;
}

Status read_types(const ProfileFiles& files, const MemoryProfile::Set& memory, const Model& model, const Training& training,
                  ProfiledModel& out) {
  std::map<std::int32_t, std::int32_t> type_of_kind;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerKind& kind = model.layer(i);
    if (kind.role != LayerRole::block) continue;
    const auto [found, added] = type_of_kind.try_emplace(model.layers[i], static_cast<std::int32_t>(type_of_kind.size()));
    out.layers.push_back(found->second);
    if (!added) continue;
    const std::int64_t sequence = tokens_per_sample(kind, training.sequence);
    const auto row = memory.layers.find({found->second, sequence});
    if (row == memory.layers.end())
      return lacks(
          "memory profile",
          "no layertype_" + std::to_string(found->second) + " of sequence " + std::to_string(sequence) + " (" + kind.name + ")",
          "one for every kind of layer of the job's model");
    auto forward = forward_time(files.computation, false, found->second, sequence);
    if (!forward) return forward.error();
    out.types.push_back({row->second, *forward, sequence, kind.hidden});
    for (const Operator& op : kind.operators)
      if (op.heads > 0) out.heads = std::gcd(out.heads, std::int64_t{op.heads});
  }
  if (out.layers.empty()) return lacks("model", "no blocks", "a transformer");
  return {};
}

Status check_bandwidths(const ProfiledModel& model) {
  for (std::int64_t ranks = 2; ranks <= model.devices; ranks *= 2) {
    const auto group = static_cast<std::int32_t>(ranks);
    const auto& table = model.all_reduce.gb_per_s;
    if (!table.count({group, true}) && !table.count({group, false}))
      return lacks("all-reduce profile", "no allreduce_size_" + std::to_string(ranks) + "_consec_1",
                   "every power of two up to the number of devices");
  }
  return {};
}

}  // namespace

Result<ProfiledModel> profiled_model(const ProfileFiles& files, const Model& model, const Training& training,
                                     std::int64_t devices) {
  ProfiledModel out;
  out.devices = devices;
  out.batch = training.global_batch;
  if (devices < 1 || (devices & (devices - 1)) != 0 || devices > (1 << 20))
    return Error{ErrorKind::bad_input, "cluster", std::to_string(devices) + " devices", "a power of two",
                 "Galvatron's search halves the cluster"};
  out.mixed_precision = training.precision != Precision::fp32 && training.precision != Precision::tf32;
  out.sequence_parallel = !files.memory.sequence_parallel.layers.empty();
  const MemoryProfile::Set& memory = out.sequence_parallel ? files.memory.sequence_parallel : files.memory.plain;
  if (Status status = read_types(files, memory, model, training, out); !status.ok()) return status.error();
  const std::int64_t sequence = out.types.front().sequence;
  auto whole = other_of(memory.one_stage, "other_memory_pp_off", sequence);
  if (!whole) return whole.error();
  out.one_stage = *whole;
  if (!files.p2p.gb_per_s.empty()) {
    auto first = other_of(memory.first_stage, "other_memory_pp_on_first", sequence);
    auto last = other_of(memory.last_stage, "other_memory_pp_on_last", sequence);
    if (!first) return first.error();
    if (!last) return last.error();
    out.first_stage = *first;
    out.last_stage = *last;
  }
  auto other = forward_time(files.computation, true, 0, sequence);
  if (!other) return other.error();
  out.other_forward = *other;
  out.all_reduce = files.all_reduce;
  out.p2p = files.p2p;
  out.collectives = files.collectives;
  out.overlap_slowdown = files.overlap_slowdown;
  if (Status status = check_bandwidths(out); !status.ok()) return status.error();
  return out;
}

std::string to_string(const ProfiledStrategy& s, std::int32_t pp) {
  return std::to_string(pp) + "-" + std::to_string(s.group) + (s.ulysses ? "s" : "") + "-" + std::to_string(s.dp) +
         (s.type == DataParallelType::zero3 ? "f" : "") + (s.checkpoint ? "-c" : "");
}

double states_ratio(const ProfiledModel& model, DataParallelType type, std::int64_t ranks, std::int64_t chunks) {
  if (type == DataParallelType::ddp) return 1;
  const double r = 1 / real(ranks) + kSlack;
  const auto mix = [r](double sharded) { return sharded * r + (1 - sharded); };
  if (chunks > 1 && model.reduce_every_microbatch) {
    if (type == DataParallelType::zero3) return model.mixed_precision ? mix(7.0 / 8) : mix(3.0 / 4);
    return model.mixed_precision ? mix(6.0 / 8) : mix(2.0 / 4);
  }
  const double factor = chunks > 1 && (model.mixed_precision || type == DataParallelType::zero3) ? 5.0 / 4 : 1;
  if (type == DataParallelType::zero3) return factor * r;
  return factor * (model.mixed_precision ? mix(7.0 / 8) : mix(3.0 / 4));
}

double layer_memory_mb(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& s,
                       const ProfiledPipeline& pipeline, std::int32_t stage) {
  const double states = kStatesPerParameter * type.memory.parameter_mb / tensor_parallel(s) *
                        states_ratio(model, s.type, weight_ranks(s), pipeline.chunks);
  const double in_flight = pipeline.pp - stage;
  double sample = s.checkpoint ? type.memory.checkpoint_mb : value_of(type.memory.activation_mb, s.group);
  if (s.checkpoint && model.sequence_parallel) sample /= s.group;
  return states + sample * samples(model, pipeline, s.group) * in_flight;
}

std::vector<double> other_memory_mb(const ProfiledModel& model, const VocabularyStrategy& s, const ProfiledPipeline& pipeline) {
  const std::int32_t tp = s.ulysses ? 1 : s.group;
  const double ratio = states_ratio(model, s.type, stage_devices(model, pipeline) / tp, pipeline.chunks);
  const double batch = samples(model, pipeline, s.group);
  const auto end = [&](const OtherMemory& memory, double in_flight) {
    return value_of(memory.states_mb, tp) * ratio + value_of(memory.activation_mb, s.group) * batch * in_flight;
  };
  std::vector<double> stages(static_cast<std::size_t>(pipeline.pp), kFrameworkMb);
  if (pipeline.pp == 1) {
    stages.front() += end(model.one_stage, 1);
  } else {
    stages.front() += end(model.first_stage, pipeline.pp);
    stages.back() += end(model.last_stage, 1);
  }
  return stages;
}

double buffer_mb(const ProfiledModel& model, std::int32_t group, const ProfiledPipeline& pipeline) {
  if (group == 0) return 0;
  double most = 0;
  for (const ProfiledLayerType& type : model.types)
    most = std::max(most, message_mb(model, type, samples(model, pipeline, group)));
  return most;
}

std::int64_t usable_mb(std::int64_t budget_mb) {
  // Galvatron counts whole megabytes: 36 GiB leave 29491 MB.
  return budget_mb > kReserveAboveMb ? budget_mb * 4 / 5 : budget_mb;
}

ProfiledSeconds layer_seconds(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& s,
                              const ProfiledPipeline& pipeline) {
  const double batch = samples(model, pipeline, s.group), mb = message_mb(model, type, batch);
  const double forward = std::max(0.0, type.forward.at(batch / s.group));
  const double backward = (kBackward + (s.checkpoint ? 1 : 0)) * forward;
  const std::int64_t ranks = weight_ranks(s);
  double gradients = 2 * real(ranks - 1) / real(ranks) * type.memory.parameter_mb / tensor_parallel(s);
  if (model.mixed_precision) gradients /= 2;
  const double reduce = gradients * all_reduce_ms_per_mb(model, ranks, s.ulysses || s.group == 1);
  double steady = forward + backward + group_ms(model, s, mb), sync = 0;
  if (s.dp > 1) {
    const double beside = s.group == 1 || s.dp > 2 ? backward : backward / 2;
    sync = overlapped_ms(reduce, beside, model.overlap_slowdown) - beside;
  }
  if (s.type == DataParallelType::zero3) steady += reduce / 2;
  if (pipeline.pp > 1)
    steady += pipeline.pp * 2 * mb / value_of(model.p2p.gb_per_s, pipeline.pp) / static_cast<double>(model.layers.size());
  return {steady / 1000, sync / 1000};
}

std::vector<ProfiledSeconds> other_seconds(const ProfiledModel& model, const VocabularyStrategy& s,
                                           const ProfiledPipeline& pipeline) {
  const std::int32_t tp = s.ulysses ? 1 : s.group, ends = pipeline.pp > 1 ? 2 : 1;
  const std::int64_t ranks = stage_devices(model, pipeline) / tp;
  const double forward = std::max(0.0, model.other_forward.at(samples(model, pipeline, 1))) / ends;
  const double per_mb = all_reduce_ms_per_mb(model, ranks, tp == 1) * real(ranks - 1) / real(ranks);
  const double mb = message_mb(model, model.types.front(), samples(model, pipeline, s.group));
  const double gather = s.ulysses ? 0 : collective_ms(model, Collective::all_gather, s.group, mb) * (ends == 1 ? 2 : 1);
  const double kappa = model.overlap_slowdown;
  const auto end = [&](const OtherMemory& memory) {
    const double half = value_of(memory.states_mb, tp) / kStatesPerParameter * per_mb / 2;
    const double weights = s.type == DataParallelType::zero3 ? half : 0;
    const double before = hidden_ms(weights, forward, kappa) + gather, work = kBackward * forward;
    const double plain = hidden_ms(weights, work, kappa), reduced = hidden_ms(weights + half, work, kappa);
    return ProfiledSeconds{(before + plain) / 1000, (reduced - plain) / 1000};
  };
  std::vector<ProfiledSeconds> stages(static_cast<std::size_t>(pipeline.pp));
  if (pipeline.pp == 1) {
    stages.front() = end(model.one_stage);
  } else {
    stages.front() = end(model.first_stage);
    stages.back() = end(model.last_stage);
  }
  return stages;
}

namespace {

/// Returns the bias between strategies of one group and dp, which orders equal costs.
double bias(const ProfiledStrategy& from, const ProfiledStrategy& to) {
  const bool f0 = from.type == DataParallelType::zero3, f1 = to.type == DataParallelType::zero3;
  const bool same_sharding = from.type == to.type, same_checkpoint = from.checkpoint == to.checkpoint;
  if (from.ulysses != to.ulysses) return same_sharding && same_checkpoint && to.ulysses ? 1e-10 : 0;
  if (same_sharding && same_checkpoint) return 0;
  if (same_checkpoint) return f1 ? 1e-9 : 0;
  if (same_sharding) return to.checkpoint ? 2e-9 : 0;
  if (f1 && to.checkpoint) return 3e-9;
  return f0 && to.checkpoint ? 1e-9 : 0;
}

}  // namespace

double transition_seconds(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& from,
                          const ProfiledStrategy& to, const ProfiledPipeline& pipeline) {
  if (from.group == to.group) return bias(from, to);
  const std::int32_t group = std::max(from.group, to.group);
  const double bytes = message_mb(model, type, samples(model, pipeline, group)) * kMiB;
  return (group - 1.0) / group * bytes * all_reduce_ms_per_mb(model, group, true) * 1e-7;
}

double main_pipeline_seconds(const std::vector<ProfiledSeconds>& stages, std::int64_t chunks) {
  const double m = real(chunks), p = static_cast<double>(stages.size()), q = std::min(p - 1, m - 1);
  double sum = 0, late = 0;
  for (const ProfiledSeconds& stage : stages) {
    sum += stage.steady;
    late = std::max(late, stage.steady + stage.sync - sum);
  }
  const double first = stages.front().steady, rest = sum - first;
  const double filled =
      std::max(q * first / 3, rest / 3) + std::max(2 * q * first / 3, 2 * rest / 3) + first * std::max(0.0, m + 1 - p);
  return std::max(sum + stages.back().steady * (m - 1), filled) + late;
}

}  // namespace espalier::galvatron
