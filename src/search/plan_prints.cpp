// SPDX-License-Identifier: Apache-2.0
#include "search/plan_prints.h"

namespace espalier::search {
namespace {

/// Computes FNV-1a over 64-bit words. Each word is mixed once more, because the words are small numbers.
class Print {
 public:
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001b3ULL;
    value_ ^= value_ >> 29;
  }
  template <class Enum>
  void add_enum(Enum e) {
    add(static_cast<std::uint64_t>(e));
  }
  void add_count(std::int64_t n) { add(static_cast<std::uint64_t>(n)); }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

/// Returns the print of everything except recomputation, which each layer adds.
std::uint64_t print_of(const Strategy& s) {
  Print p;
  for (const std::int32_t degree : {s.tp, s.cp, s.ep, s.etp, s.dp, number_of(s.zero), s.shard}) p.add_count(degree);
  p.add_enum(s.sp);
  p.add_enum(s.cp_kind);
  p.add_enum(s.order);
  for (const bool on : {s.overlap.grad_reduce, s.overlap.param_gather, s.overlap.p2p, s.overlap.tp}) p.add(on ? 1 : 0);
  p.add_enum(s.offload);
  for (const char c : s.partition.text()) p.add(static_cast<unsigned char>(c));
  return p.value();
}

void add_schedule(Print& p, const Schedule& s) {
  p.add_enum(s.kind);
  for (const std::int32_t n : {s.stages, s.virtual_stages, s.microbatches}) p.add_count(n);
}

void add_range(Print& p, const Model& model, std::int32_t first, std::int32_t last, std::uint64_t strategy,
               const Recompute& recompute) {
  std::int32_t again = recompute.layers;
  for (std::int32_t l = first; l <= last; ++l) {
    RecomputeKind kind = RecomputeKind::none;
    if (model.layer(static_cast<std::size_t>(l)).role == LayerRole::block) {
      kind = recompute.kind;
      if (kind == RecomputeKind::full && again-- <= 0) kind = RecomputeKind::none;
    }
    p.add(strategy);
    p.add_enum(kind);
    if (kind == RecomputeKind::selective) p.add(recompute.modules.bits());
  }
}

constexpr std::uint64_t kNextChunk = 0xc4;

}  // namespace

std::uint64_t print_of(const Model& model, const LayeredConfiguration& c) {
  Print p;
  add_schedule(p, c.schedule);
  for (const auto& ranges : c.chunks) {
    p.add(kNextChunk);
    for (const LayerRange& r : ranges) add_range(p, model, r.first, r.last, print_of(r.strategy), r.strategy.recompute);
  }
  return p.value();
}

std::uint64_t print_of(const Model& model, const Configuration& c, const cost::SplitTable& split) {
  Print p;
  add_schedule(p, c.schedule);
  const std::uint64_t strategy = print_of(c.strategy);
  for (std::int32_t chunk = 0; chunk < split.chunks(); ++chunk) {
    p.add(kNextChunk);
    add_range(p, model, split.first(chunk), split.last(chunk), strategy, c.strategy.recompute);
  }
  return p.value();
}

}  // namespace espalier::search
