// SPDX-License-Identifier: Apache-2.0
#include "calibrate/overlap_slowdown.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace espalier::calibrate {
namespace {

constexpr double kLeastBeside = 0.05;  ///< share of the compute that is overlapped with a collective

/// Returns the rank class of a device, from the lists that are not folded.
const RankClass* rank_of(const Program& program, std::int64_t device) {
  const auto found =
      std::find_if(program.ranks.begin(), program.ranks.end(), [device](const RankClass& r) { return r.device() == device; });
  return found == program.ranks.end() ? nullptr : &*found;
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// Returns the part of [a.start, a.end) in which b runs.
std::int64_t together_ns(const MeasuredInstruction& a, const MeasuredInstruction& b) {
  return std::max<std::int64_t>(0, std::min(a.end_ns, b.end_ns) - std::max(a.start_ns, b.start_ns));
}

/// Adds the sums of a rank. Its collectives run one after the other, so that the overlap of a computation is the sum
/// over them.
void add_rank(const Program& program, const RankClass& rank, const MeasuredRank& measured, OverlapSums& sums) {
  std::vector<const MeasuredInstruction*> collectives;
  for (std::size_t k = 0; k < measured.instructions.size(); ++k)
    if (program.instructions[static_cast<std::size_t>(rank.begin) + k].stream == Stream::data)
      collectives.push_back(&measured.instructions[k]);
  for (const MeasuredInstruction* c : collectives) sums.collectives += seconds(c->end_ns - c->start_ns);
  for (std::size_t k = 0; k < measured.instructions.size(); ++k) {
    const Instruction& what = program.instructions[static_cast<std::size_t>(rank.begin) + k];
    if (what.stream != Stream::compute || what.kind == InstructionKind::optimizer) continue;
    const MeasuredInstruction& here = measured.instructions[k];
    sums.compute += seconds(here.operators_ns);
    if (here.end_ns <= here.start_ns) continue;
    const double in_operators = static_cast<double>(here.operators_ns) / static_cast<double>(here.end_ns - here.start_ns);
    for (const MeasuredInstruction* c : collectives) sums.both += in_operators * seconds(together_ns(here, *c));
  }
}

double factor(double both, double lost) {
  const double left = both - lost;
  return left * kStrongestSlowdown <= both ? kStrongestSlowdown : std::clamp(both / left, 1.0, kStrongestSlowdown);
}

OverlapSums added(const std::vector<OverlapSums>& all) {
  OverlapSums out;
  for (const OverlapSums& one : all) {
    out.compute += one.compute;
    out.collectives += one.collectives;
    out.both += one.both;
  }
  return out;
}

}  // namespace

Result<OverlapSums> overlap_sums(const StepOfRanks& measured) {
  const Program& program = *measured.program;
  OverlapSums sums;
  for (const MeasuredRank& rank : measured.step->ranks) {
    const RankClass* known = rank_of(program, rank.device);
    if (known == nullptr || known->end - known->begin != static_cast<std::int32_t>(rank.instructions.size()))
      return Error{ErrorKind::bad_input, "timeline",
                   cat("device ", rank.device, " with ", rank.instructions.size(), " instructions"),
                   known == nullptr ? "devices of the plan" : cat("the ", known->end - known->begin, " of its list"), ""};
    add_rank(program, *known, rank, sums);
  }
  return sums;
}

std::optional<job::MeasuredOverlap> overlap_slowdown(const std::vector<OverlapSums>& beside,
                                                     const std::vector<OverlapSums>& after) {
  if (beside.empty() || beside.size() != after.size()) return std::nullopt;
  const OverlapSums with = added(beside), without = added(after);
  if (with.both <= 0 || with.both < kLeastBeside * with.compute) return std::nullopt;
  return job::MeasuredOverlap{factor(with.both, with.compute - without.compute),
                              factor(with.both, with.collectives - without.collectives)};
}

Result<std::optional<job::MeasuredOverlap>> measured_overlap(const Job& job, const std::vector<OverlapRun>& runs) {
  std::vector<OverlapSums> beside, after;
  for (const OverlapRun& run : runs) {
    const auto step = read_measured_step(run.timeline.text, run.timeline.name);
    if (!step) return step.error();
    if (step->plan != content_hash(run.plan))
      return Error{ErrorKind::bad_input, "timeline", cat("a step of plan ", step->plan), cat("one of ", content_hash(run.plan)),
                   ""};
    const Program program = lower(run.plan, job.model, false);
    const auto sums = overlap_sums({&program, &*step});
    if (!sums) return sums.error();
    (run.plan.strategy().overlap.grad_reduce ? beside : after).push_back(*sums);
  }
  return overlap_slowdown(beside, after);
}

}  // namespace espalier::calibrate
