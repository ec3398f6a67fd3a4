// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_cost.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"

namespace espalier::reference {
namespace {

constexpr double kBytesPerElement = 4, kMb = 1024.0 * 1024.0;
constexpr double kContextMb = 1024;
constexpr double kSecondsPerMs = 0.0011;  ///< includes the authors' margin of 10 %
constexpr double kShardedBias = 1e-4;

double coefficient(const V1Profile& profile, std::int32_t pp, std::int32_t size, bool consecutive) {
  if (size == 1) return 0;
  const auto found = profile.all_reduce.find({pp, size, consecutive ? 1 : 0});
  ESPALIER_CHECK(found != profile.all_reduce.end());
  return found->second;
}
double tp_coefficient(const V1Profile& profile, const V1Strategy& s) {
  return coefficient(profile, s.pp, s.tp, !s.ordered() || s.tp_consecutive);
}
double dp_coefficient(const V1Profile& profile, const V1Strategy& s) {
  return coefficient(profile, s.pp, s.dp, !s.ordered() || !s.tp_consecutive);
}

double chunks_one_node(V1Family family, const V1Strategy& s, double local) {
  switch (family) {
    case V1Family::bert:
      if (s.pp == 1) return 1;
      if (s.tp > 1 && s.dp == 1) return local / 4;
      return local < 6 ? local / 2 : local / 8 + 2;
    case V1Family::vit: return local == 8 ? 1 : 2;
    case V1Family::t5:
      if (local == 2) return 1;
      return s.pp == 8 ? 3 : 2;
    case V1Family::swin:
      if (local <= 8) return 1;
      if (local < 32) return 2;
      return local <= 96 ? 3 : 4;
  }
  return 1;
}

double chunks_two_nodes(V1Family family, const V1Strategy& s, double local) {
  const bool text = family == V1Family::bert || family == V1Family::t5;
  const double divisor = text ? 4 : s.pp <= 8 ? 16 : 32;
  return std::max(1.0, std::ceil(std::floor(local / s.tp) / divisor));
}

/// Returns m as the memory of the first and last stage uses it: from whole samples, and at most the
/// number of samples.
double memory_chunks(const V1Profile& profile, const V1Strategy& s, std::int32_t batch) {
  const double most = batch / (s.tp * s.dp);
  return std::min(chunks(profile, s, batch / s.dp), most);
}

/// Returns the part of the backward pass that is overlapped with the reduction of gradients.
double overlapped_share(const V1LayerType& type, const V1Strategy& s) {
  if (s.tp == 1) return 1;
  if (s.tp == 2 && s.dp == 2) return 0.5;
  if (type.decoder) return 2.0 / 3.0;
  return s.dp >= 4 ? 1 : 0.5;
}

struct Overlap {
  double both = 0, rest = 0;  ///< ms of both at once, ms of the longer alone
  bool gradients_longer = false;
};
Overlap overlap(const V1Profile& profile, double message, double ms_per_mb, double compute) {
  const double slowed = ms_per_mb * profile.comm_slowdown;
  const double gradients = message * slowed, backward = compute * profile.compute_slowdown;
  if (gradients > backward) return {backward, (message - backward / slowed) * ms_per_mb, true};
  if (gradients < backward) return {gradients, compute - gradients / profile.compute_slowdown, false};
  return {backward, 0, false};
}

/// Holds milliseconds of one layer before gathers of shards, point-to-point and the margin.
struct LayerParts {
  double forward = 0, backward = 0, tensor_parallel = 0;
  double gradients_mb = 0;
};

LayerParts parts_of(const V1Profile& profile, const V1LayerType& type, const V1Strategy& s, double local) {
  LayerParts parts;
  parts.forward = type.forward_ms * local / s.tp;
  parts.backward = parts.forward * type.backward_factor;
  parts.gradients_mb = 2.0 * (s.dp - 1) / s.dp * (type.parameter_mb / s.tp);
  if (s.sharded && profile.two_nodes()) parts.gradients_mb *= 0.5;
  const double collectives = type.decoder ? 6 : 4;
  const double message = local * type.sequence * type.hidden * collectives * kBytesPerElement / kMb;
  parts.tensor_parallel = 2.0 * (s.tp - 1) / s.tp * message * tp_coefficient(profile, s);
  return parts;
}

double whole_ms(const V1Profile& profile, const V1LayerType& type, const V1Strategy& s, const LayerParts& parts, double extra) {
  if (s.dp == 1) return parts.forward + parts.backward + parts.tensor_parallel;
  const double share = overlapped_share(type, s);
  Overlap o = overlap(profile, parts.gradients_mb, dp_coefficient(profile, s), share * parts.backward);
  if (!profile.two_nodes() && s.pp > 1 && s.tp == 1 && !s.sharded && o.gradients_longer) o.rest /= s.pp;
  return parts.forward + o.both + o.rest + (1 - share) * parts.backward + parts.tensor_parallel + extra;
}

double pipelined_ms(const V1Profile& profile, const V1Strategy& s, const LayerParts& parts, double local, double whole) {
  if (s.pp == 1) return whole;
  const double m = chunks(profile, s, local);
  const double compute = parts.forward + parts.backward + (s.tp > 1 ? parts.tensor_parallel : 0);
  return compute * (s.pp + m - 1) / (s.pp * m) + (whole - compute);
}

/// Returns true if the activations of a layer under `from` must be gathered or moved before one under `to`.
bool redistributes(const V1Profile& profile, const V1Strategy& from, const V1Strategy& to) {
  if (to.tp > from.tp) return true;
  if (!from.ordered() || !to.ordered() || from.tp_consecutive == to.tp_consecutive) return false;
  if (to.tp == from.tp) return true;
  if (profile.two_nodes() && profile.layer_types.size() == 1) return true;
  return from.tp * from.dp == 8 && from.tp == 4 && to.tp == 2;
}

}  // namespace

double chunks(const V1Profile& profile, const V1Strategy& strategy, double local_batch) {
  return profile.two_nodes() ? chunks_two_nodes(profile.family, strategy, local_batch)
                             : chunks_one_node(profile.family, strategy, local_batch);
}

double layer_memory_mb(const V1Profile& profile, const V1LayerType& type, const V1Strategy& s, std::int32_t batch) {
  double states = 4 * (type.parameter_mb / s.tp);
  if (s.sharded) states *= 1.0 / s.dp + (profile.two_nodes() ? 0.003 : 0.025);
  return states + type.activation_mb.at(s.tp) * (static_cast<double>(batch) / s.dp);
}

std::vector<double> other_memory_mb(const V1Profile& profile, const V1Strategy& s, std::int32_t batch) {
  const double local = static_cast<double>(batch) / s.tp / s.dp;
  const auto stages = static_cast<std::size_t>(s.pp);
  if (!profile.two_nodes() || s.pp == 1) {
    const double all = profile.whole.states_mb + profile.whole.activation_mb * local + kContextMb;
    return std::vector<double>(stages, all);
  }
  const bool vision = profile.family == V1Family::vit || profile.family == V1Family::swin;
  const double reduction = profile.peak_reduction_mb * local * (1 - 1 / memory_chunks(profile, s, batch));
  std::vector<double> other(stages, kContextMb);
  other.front() += profile.first.states_mb;
  other.front() += vision ? profile.first.activation_mb * local - reduction : profile.first.activation_mb * (local / s.pp);
  other.back() += profile.last.states_mb;
  other.back() += profile.family == V1Family::swin ? profile.last.activation_mb * (local / s.pp)
                                                   : profile.last.activation_mb * local - reduction;
  return other;
}

double layer_seconds(const V1Profile& profile, const V1LayerType& type, const V1Strategy& s, std::int32_t batch,
                     std::int32_t layers) {
  const double local = static_cast<double>(batch) / s.dp;
  const double dummy = profile.dummy_layers(layers);
  const LayerParts parts = parts_of(profile, type, s, local);
  double ms = pipelined_ms(profile, s, parts, local, whole_ms(profile, type, s, parts, type.extra_ms / dummy));
  if (s.sharded) ms += (profile.two_nodes() ? 2.0 : 0.5) * parts.gradients_mb * dp_coefficient(profile, s);
  if (profile.two_nodes() && s.pp > 1)
    ms += 2 * local * type.sequence * type.hidden * kBytesPerElement / kMb * profile.p2p.at(s.pp) / dummy;
  return ms * kSecondsPerMs;
}

double transition_seconds(const V1Profile& profile, const V1Strategy& from, const V1Strategy& to, std::int32_t batch) {
  V1Strategy plain = from;
  plain.sharded = false;
  if (from.sharded && plain == to) return kShardedBias;
  if (!redistributes(profile, from, to)) return 0;
  return (to.tp - 1.0) / to.tp * (2.0 * batch / to.dp) * tp_coefficient(profile, to) * 0.001;
}

}  // namespace espalier::reference
