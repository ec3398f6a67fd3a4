// SPDX-License-Identifier: Apache-2.0
#include "cost/redistribution.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/invariant.h"
#include "cost/collective.h"
#include "cost/rounding.h"
#include "plan/operator_partition.h"

namespace espalier::cost {
namespace {

/// Limits the devices that are probed for the reach of an exchange. Layouts are grids, so a few devices spread over
/// the stage show it.
constexpr std::int64_t kProbes = 16;

/// Holds the position of a device's tile: its part of the samples and its part of the sequence.
struct ActivationTilePosition {
  std::int64_t samples = 0, sequence = 0;
  auto operator<=>(const ActivationTilePosition&) const = default;
};

std::int64_t devices_of(const ActivationLayout& l) { return std::int64_t{l.dp} * l.cp * l.replicas * l.sequence_parts; }

ActivationTilePosition tile_of(const ActivationLayout& l, std::int64_t device) {
  const std::int64_t tp = std::int64_t{l.replicas} * l.sequence_parts;
  const std::int64_t t = device % tp, rest = device / tp;
  const std::int64_t d = l.dp_inner ? rest % l.dp : rest / l.cp, c = l.dp_inner ? rest / l.dp : rest % l.cp;
  return {d, l.sequence_parts > 1 ? c * l.sequence_parts + t : c};
}

std::int64_t sequence_parts(const ActivationLayout& l) { return std::int64_t{l.cp} * l.sequence_parts; }

/// Returns the common part of slice i of n and slice j of k of the same line, as a fraction of the line.
double common(std::int64_t i, std::int64_t n, std::int64_t j, std::int64_t k) {
  const std::int64_t low = std::max(i * k, j * n), high = std::min((i + 1) * k, (j + 1) * n);
  return high > low ? static_cast<double>(high - low) / (static_cast<double>(n) * static_cast<double>(k)) : 0.0;
}

double common(const ActivationLayout& from, const ActivationTilePosition& held, const ActivationLayout& to,
              const ActivationTilePosition& needed) {
  return common(held.samples, from.dp, needed.samples, to.dp) *
         common(held.sequence, sequence_parts(from), needed.sequence, sequence_parts(to));
}

/// Returns whether the block of `block` devices around `device` holds all that the device needs.
bool block_suffices(const ActivationLayout& from, const ActivationLayout& to, std::int64_t device, std::int64_t block,
                    double needed) {
  const ActivationTilePosition want = tile_of(to, device);
  std::set<ActivationTilePosition> seen;
  double found = 0;
  const std::int64_t first = device / block * block;
  for (std::int64_t x = first; x < first + block; ++x) {
    const ActivationTilePosition held = tile_of(from, x);
    const double part = common(from, held, to, want);
    if (part <= 0 || !seen.insert(held).second) continue;
    found += part;
    if (found >= needed * (1 - 1e-9)) return true;
  }
  return false;
}

}  // namespace

ActivationLayout layout_of(const Strategy& s) {
  ActivationLayout l;
  l.dp = s.dp;
  l.cp = s.cp;
  (s.sp == SequenceParallel::none ? l.replicas : l.sequence_parts) = s.tp;
  l.dp_inner = s.order == RankOrder::tp_dp_cp_pp && s.cp > 1 && s.dp > 1;
  l.boundary = s.partition.boundary();
  return l;
}

FetchedFraction redistribution(const ActivationLayout& from, const ActivationLayout& to) {
  const std::int64_t devices = devices_of(from);
  ESPALIER_CHECK(devices == devices_of(to));
  FetchedFraction move;
  if (from == to) return move;
  const double needed = 1.0 / (static_cast<double>(to.dp) * static_cast<double>(sequence_parts(to)));
  for (std::int64_t x = 0; x < devices; ++x)
    move.fetched = std::max(move.fetched, needed - common(from, tile_of(from, x), to, tile_of(to, x)));
  if (move.fetched < needed * 1e-9) return FetchedFraction{};
  const std::int64_t probes = std::min(devices, kProbes);
  for (move.block = 2; move.block < devices; ++move.block) {
    if (devices % move.block != 0) continue;
    bool all = true;
    for (std::int64_t i = 0; i < probes && all; ++i)
      all = block_suffices(from, to, i * (devices - 1) / std::max<std::int64_t>(1, probes - 1), move.block, needed);
    if (all) break;
  }
  return move;
}

Traffic redistribution_traffic(const FetchedFraction& move, double bytes) {
  ESPALIER_CHECK(bytes >= 0);
  Traffic traffic;
  if (move.fetched <= 0) return traffic;
  const auto g = static_cast<double>(move.block);
  return {CollectiveKind::resharding, GroupKind::stage, bytes * move.fetched * g / (g - 1), 1};
}

double redistribution_s(const Fabric& fabric, const FetchedFraction& move, double bytes) {
  const Traffic traffic = redistribution_traffic(move, bytes);
  if (traffic.times == 0) return 0;
  return all_to_all_s(fabric.tensor_levels, run_group(fabric.placing(), move.block), traffic.bytes);
}

RangeMove range_move(const Workload& w, const Fabric& fabric, const Strategy& before, const Strategy& after,
                     const LayerKind& kind, const LayerCost& sender, const LayerCost& receiver, std::int64_t samples) {
  RangeMove out;
  const ActivationLayout from = layout_of(before), to = layout_of(after);
  if (from == to) return out;
  double whole = static_cast<double>(sender.boundary_bytes) * from.dp * from.cp * from.sequence_parts;
  if (!before.partition.empty())  // a partitioned block holds tiles of its own
    whole = static_cast<double>(samples) * w.element_bytes * static_cast<double>(boundary_elements(kind, w.training.sequence));
  const auto way = [&](const LayerCost& partitioned, const FetchedFraction& move) {
    RangeMove::Way out_way;
    out_way.gather_ns = partitioned.boundary_gather_ns;
    if (out_way.gather_ns > 0)
      out_way.gather = {CollectiveKind::resharding, GroupKind::operators, partitioned.boundary_gather_bytes, 1};
    out_way.traffic = redistribution_traffic(move, whole);
    out_way.move_ns = round_ns(redistribution_s(fabric, move, whole));
    return out_way;
  };
  out.forward = way(sender, redistribution(from, to));
  out.backward = way(receiver, redistribution(to, from));
  return out;
}

}  // namespace espalier::cost
