// SPDX-License-Identifier: Apache-2.0
#include "planner/timing_print.h"

#include <bit>

namespace espalier::planner {
namespace {

/// Runs two hash chains over the same words with different constants. Each step is a bijection of its chain and
/// spreads the word over all bits.
class HashChains {
 public:
  void add(std::uint64_t word) {
    low_ = mixed(low_ ^ word, 0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL) + 0x9e3779b97f4a7c15ULL;
    high_ = mixed(high_ + word, 0xff51afd7ed558ccdULL, 0xc4ceb9fe1a85ec53ULL) ^ 0xd6e8feb86659fd93ULL;
  }
  void add(std::int64_t n) { add(static_cast<std::uint64_t>(n)); }
  void add(double x) { add(std::bit_cast<std::uint64_t>(x)); }
  /// Adds component by component: a pass that is cut into buckets is rounded in this way.
  void add(const cost::PhaseTime& t) {
    add(t.compute_ns);
    add(t.exposed_ns);
    add(t.other_ns);
  }
  [[nodiscard]] TimingPrint print() const { return {low_, high_}; }

 private:
  static std::uint64_t mixed(std::uint64_t x, std::uint64_t a, std::uint64_t b) {
    x = (x ^ (x >> 30)) * a;
    x = (x ^ (x >> 27)) * b;
    return x ^ (x >> 31);
  }
  std::uint64_t low_ = 0x243f6a8885a308d3ULL, high_ = 0x13198a2e03707344ULL;
};

void add(HashChains& chains, const ProgramStructure& l) {
  const Schedule& s = l.schedule;
  for (const std::int64_t n : {std::int64_t{static_cast<std::uint8_t>(s.kind)}, std::int64_t{s.stages},
                               std::int64_t{s.virtual_stages}, std::int64_t{s.microbatches}})
    chains.add(n);
  std::int64_t flags = 0;
  for (const bool on : {l.reduce_gradients, l.overlap_reduce, l.gather_parameters, l.overlap_gather, l.overlap_p2p})
    flags = 2 * flags + (on ? 1 : 0);
  chains.add(flags);
  for (const std::uint8_t buckets : l.buckets) chains.add(std::int64_t{buckets});
  chains.add(static_cast<std::int64_t>(l.table_chunks.size()));
  for (const ChunkId chunk : l.table_chunks) chains.add(std::int64_t{chunk.value});
}

}  // namespace

TimingPrint print_of(const ProgramStructure& structure, const cost::Costs& costs) {
  HashChains chains;
  add(chains, structure);
  for (const cost::WorkCost& work : costs.works) chains.add(work.time);
  for (const Nanoseconds t : costs.collectives) chains.add(t.count());
  for (const Nanoseconds t : costs.transfers) chains.add(t.count());
  for (const cost::MutualSlowdown& slowdown : costs.slowdowns) {
    chains.add(slowdown.compute);
    chains.add(slowdown.communication);
  }
  return chains.print();
}

}  // namespace espalier::planner
