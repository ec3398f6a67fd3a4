// SPDX-License-Identifier: Apache-2.0
#include "check/payload.h"

#include <algorithm>
#include <cmath>

#include "check/messages.h"
#include "check/verdict.h"

namespace espalier::check {
namespace {

bool inside(std::int32_t begin, std::int32_t end, std::size_t size) {
  return begin >= 0 && begin <= end && static_cast<std::size_t>(end) <= size;
}

/// Returns the strategy that an entry names; null if there is none.
const Strategy* strategy_at(const Program& program, std::int32_t index) {
  if (index < 0 || static_cast<std::size_t>(index) >= program.strategies.size()) return nullptr;
  return &program.strategies[static_cast<std::size_t>(index)];
}

bool same_range(const View& view, const Program& program, const WorkRange& found, const LayerRange& planned) {
  const Strategy* strategy = strategy_at(program, found.strategy);
  return strategy != nullptr && *strategy == planned.strategy && found.first == planned.first && found.last == planned.last &&
         found.samples * planned.strategy.dp == view.samples && found.recomputed_blocks == planned.strategy.recompute.layers;
}

Finding check_layers(const View& view, const Program& program) {
  Verdict verdict("program-layers");
  for (const Work& work : program.works) {
    if (work.phase == InstructionKind::optimizer) continue;
    if (!verdict.require(inside(work.ranges_begin, work.ranges_end, program.ranges.size()),
                         [&] { return say("a pass of chunk ", work.chunk.value, " has ranges out of bounds"); }))
      continue;
    const std::vector<LayerRange>& planned = view.chunks[work.chunk.index()].ranges;
    const bool as_many = static_cast<std::size_t>(work.ranges_end - work.ranges_begin) == planned.size();
    verdict.require(
        as_many && std::equal(planned.begin(), planned.end(), program.ranges.begin() + work.ranges_begin,
                              [&](const LayerRange& p, const WorkRange& f) { return same_range(view, program, f, p); }),
        [&] {
          return say("a pass of chunk ", work.chunk.value, " works on layers, strategies or samples that differ from the plan's");
        });
  }
  return verdict.finding(say("as in the plan, for ", view.chunks.size(), " chunks"));
}

void require_transfers(const View& view, const Program& program, Verdict& verdict) {
  const std::vector<std::int64_t> derived = boundary_bytes_per_chunk(view);
  for (const Transfer& t : program.transfers) {
    const std::int64_t expected = derived[t.chunk.index()];
    verdict.require(t.bytes == expected, [&] {
      return say(t.gradient ? "the gradient leaving chunk " : "the activation entering chunk ", t.chunk.value, " moves ", t.bytes,
                 " bytes, derived ", expected);
    });
  }
}

void require_parts(const Program& program, Verdict& verdict) {
  for (const Collective& c : program.collectives) {
    if (!verdict.require(inside(c.parts_begin, c.parts_end, program.parts.size()),
                         [&] { return say("a collective of chunk ", c.chunk.value, " has messages out of bounds"); }))
      continue;
    for (std::int32_t i = c.parts_begin; i < c.parts_end; ++i) {
      const CollectivePart& part = program.parts[static_cast<std::size_t>(i)];
      const bool sound = part.bytes > 0 && std::isfinite(part.bytes) && part.share > 0 && part.share <= 1 &&
                         part.element_bytes > 0 && strategy_at(program, part.strategy) != nullptr;
      verdict.require(
          sound, [&] { return say("a message of a collective of chunk ", c.chunk.value, " has no bytes, share or strategy"); });
    }
  }
}

/// Returns whether the program has bytes. They are written when costs are known; a program that was only lowered has
/// none.
bool has_bytes(const Program& program) {
  return !program.parts.empty() ||
         std::any_of(program.transfers.begin(), program.transfers.end(), [](const Transfer& t) { return t.bytes != 0; });
}

}  // namespace

std::vector<Finding> check_payload(const View& view, const Program& program) {
  std::vector<Finding> findings = {check_layers(view, program)};
  if (!has_bytes(program)) return findings;
  Verdict messages("program-messages");
  require_transfers(view, program, messages);
  require_parts(program, messages);
  findings.push_back(
      messages.finding(say(program.transfers.size(), " transfers, ", program.parts.size(), " messages of collectives")));
  return findings;
}

}  // namespace espalier::check
