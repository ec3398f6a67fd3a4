// SPDX-License-Identifier: Apache-2.0
// Generates random legal configurations of small jobs that are the same on every machine and do not change. It has
// its own generator and reads nothing from the search, whose order of enumeration may change. Legality comes from
// violations() and from the engine's own answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/planner.h"

namespace espalier::golden {

/// Generates random numbers with SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// Returns 0 … n−1; the slight bias of the remainder does not matter here.
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n)); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }

 private:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

using Configuration = std::pair<Strategy, Schedule>;

/// Holds the values that a case requires by its number, so that every value occurs; the rest is random. A wish is
/// given up after many failed tries.
struct Wish {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int32_t zero = 0;
  SequenceParallel sp = SequenceParallel::none;
  RecomputeKind recompute = RecomputeKind::none;
};
inline Wish wish_of(std::int64_t number) {
  return {static_cast<ScheduleKind>(number % 5), static_cast<std::int32_t>(number / 5 % 4),
          static_cast<SequenceParallel>(number / 2 % 3), static_cast<RecomputeKind>(number / 3 % 3)};
}

inline std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = least; d <= most && d <= n; ++d)
    if (n % d == 0) out.push_back(d);
  return out.empty() ? std::vector<std::int64_t>{least} : out;
}

inline bool has_experts(const Model& model) {
  for (const LayerKind& kind : model.kinds)
    for (const Operator& op : kind.operators)
      if (op.experts > 0) return true;
  return false;
}

/// Assigns every prime of the devices to one of the degrees.
inline void spread(Random& random, std::int64_t devices, const std::vector<std::int32_t*>& degrees) {
  for (std::int64_t prime = 2; devices > 1;) {
    if (devices % prime != 0) {
      ++prime;
      continue;
    }
    devices /= prime;
    *random.of(degrees) *= static_cast<std::int32_t>(prime);
  }
}

inline void choose_state(Random& random, std::int32_t zero, Strategy& s) {
  s.zero = ZeroStage{s.data_ranks() > 1 ? zero : 0};
  s.shard = 1;
  if (!s.shards_optimizer()) return;
  const std::vector<std::int64_t> groups = divisors(s.data_ranks(), 2, s.data_ranks());
  s.shard = static_cast<std::int32_t>(random.one_in(3) ? random.of(groups) : s.data_ranks());
}

/// Chooses overlaps that have a meaning here.
inline void choose_overlap(Random& random, const Schedule& c, Strategy& s) {
  s.overlap.grad_reduce = random.one_in(2) && s.data_ranks() > 1;
  s.overlap.param_gather = random.one_in(2) && s.shards_optimizer();
  s.overlap.p2p = random.one_in(2) && c.stages > 1;
  s.overlap.tp = random.one_in(2) && s.sp == SequenceParallel::megatron;
}

inline Configuration any_configuration(Random& random, const Job& job, const Wish& wish) {
  Strategy s;
  Schedule c;
  spread(random, job.cluster.devices(), {&s.tp, &s.cp, &s.dp, &s.dp, &c.stages, &c.stages});
  c.kind = c.stages > 1 ? wish.schedule : ScheduleKind::one_f_one_b;
  if (c.kind == ScheduleKind::interleaved) c.virtual_stages = static_cast<std::int32_t>(2 + random.below(2));
  if (c.kind == ScheduleKind::zb_v) c.virtual_stages = 2;
  if (s.tp > 1) s.sp = wish.sp;
  if (s.cp > 1 && random.one_in(2)) s.cp_kind = ContextParallelKind::all_to_all;
  if (has_experts(job.model)) {
    s.ep = static_cast<std::int32_t>(random.of<std::int64_t>({1, 2, 4, 8}));
    s.etp = random.one_in(4) ? 1 : s.weight_tp();
  }
  choose_state(random, wish.zero, s);
  s.order = static_cast<RankOrder>(random.below(3));
  s.recompute.kind = wish.recompute;
  if (s.recompute.kind == RecomputeKind::full) s.recompute.layers = static_cast<std::int32_t>(1 + random.below(4));
  choose_overlap(random, c, s);
  const std::int64_t samples = std::max<std::int64_t>(1, job.training.global_batch / s.dp);
  c.micro_batch = static_cast<std::int32_t>(random.of(divisors(samples, 1, 4)));
  c.microbatches = static_cast<std::int32_t>(samples / c.micro_batch);
  return {s, c};
}

/// Limits the chunk passes, since a longer timeline is too long to be written here.
inline constexpr std::int64_t kMostPasses = 1024;

inline bool short_enough(const Schedule& c) { return std::int64_t{c.stages} * c.virtual_stages * c.microbatches <= kMostPasses; }

/// Returns a configuration without a broken rule, or null. `accepts` makes the final decision.
template <class Accepts>
std::optional<Configuration> legal_configuration(Random& random, const Job& job, const Wish& wish, const Accepts& accepts) {
  constexpr int kTries = 4000;
  for (int i = 0; i < kTries; ++i) {
    const Wish now = i < kTries / 2 ? wish : wish_of(random.below(60));
    const Configuration x = any_configuration(random, job, now);
    if (now.schedule != ScheduleKind::one_f_one_b && i < kTries / 4 && x.second.stages == 1) continue;
    if (!short_enough(x.second)) continue;
    if (violations(job.model, job.cluster, job.training, x.first, x.second).empty() && accepts(x)) return x;
  }
  return std::nullopt;
}

}  // namespace espalier::golden
