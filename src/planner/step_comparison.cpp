// SPDX-License-Identifier: Apache-2.0
#include "espalier/step_comparison.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "cost/chunk_steps.h"
#include "cost/cluster_costs.h"
#include "planner/described.h"
#include "sim/attribution.h"
#include "sim/timeline.h"

namespace espalier {
namespace {

using namespace planner;
using cost::ChunkPhase;
using Kind = InstructionKind;

/// Identifies an operator by kind of layer, operator and part.
using OperatorKey = std::tuple<std::string, std::string, std::string>;
struct OperatorTimes {
  std::int64_t times = 0, predicted_ns = 0, measured_ns = 0;
};
using OperatorTable = std::map<OperatorKey, OperatorTimes>;

const RankClass* class_of(const Program& program, std::int64_t device) {
  for (const RankClass& rank : program.ranks)
    for (const DeviceRange& range : rank.devices)
      if (device >= range.first && device < range.first + range.count) return &rank;
  return nullptr;
}

StepPart part_of(const MeasuredOperator& o) {
  if (o.repeated) return StepPart::recomputation;
  if (o.pass == OperatorPass::forward) return StepPart::forward;
  return o.pass == OperatorPass::input_gradient ? StepPart::input_gradient : StepPart::weight_gradient;
}

/// Adds the prices of the operators of every pass, on all devices.
void add_predicted(const cost::CostContext& context, const Model& model, const Plan& plan, const Program& program,
                   OperatorTable& table) {
  const cost::PlanChunks chunks = cost::chunks_of(plan, model);
  cost::StepBook book(context, chunks);
  std::map<std::pair<std::int32_t, ChunkPhase>, std::int64_t> passes;
  for (const RankClass& rank : program.ranks)
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
      if (x.stream != Stream::compute || x.kind == Kind::optimizer || x.bucket > 0) continue;
      passes[{program.chunk_of(x).value, cost::phase_of(x.kind)}] += rank.represents();
    }
  for (const auto& [pass, count] : passes)
    for (const cost::ChunkSpan& span : book.chunk(pass.first, pass.second).spans) {
      if (span.track != cost::StepTrack::compute || span.layer < 0 || span.name == "waiting") continue;
      const LayerKind& kind = model.layer(static_cast<std::size_t>(span.layer));
      table[{kind.name, span.name, std::string(to_string(span.part))}].predicted_ns += count * (span.end_ns - span.start_ns);
    }
}

Status add_measured(const Model& model, const MeasuredStep& measured, OperatorTable& table) {
  for (const MeasuredRank& rank : measured.ranks)
    for (const MeasuredOperator& o : rank.operators) {
      const auto layer = static_cast<std::size_t>(o.layer), number = static_cast<std::size_t>(o.number);
      if (layer >= model.layers.size() || number >= model.layer(layer).operators.size())
        return Error{ErrorKind::bad_input, "timeline", cat("operator ", o.number, " of layer ", o.layer),
                     "operators of the plan's model", "the file was written by another version of Espalier"};
      const LayerKind& kind = model.layer(layer);
      OperatorTimes& row = table[{kind.name, kind.operators[number].name, std::string(to_string(part_of(o)))}];
      row.times += o.times;
      row.measured_ns += o.total_ns;
    }
  return {};
}

std::vector<OperatorComparison> rows_of(const OperatorTable& table) {
  std::vector<OperatorComparison> rows;
  for (const auto& [key, t] : table)
    if (t.predicted_ns != 0 || t.measured_ns != 0)
      rows.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), t.times, t.predicted_ns, t.measured_ns});
  std::stable_sort(rows.begin(), rows.end(), [](const OperatorComparison& a, const OperatorComparison& b) {
    return std::abs(a.measured_ns - a.predicted_ns) > std::abs(b.measured_ns - b.predicted_ns);
  });
  return rows;
}

/// Holds the measurements of one class, by absolute index of its instructions.
struct MeasuredList {
  std::vector<std::int64_t> starts, ends;
  std::vector<sim::MeasuredParts> parts;
};

MeasuredList list_of(const Program& program, const RankClass& rank, const MeasuredRank& measured) {
  const std::size_t count = program.instructions.size();
  MeasuredList out{std::vector<std::int64_t>(count), std::vector<std::int64_t>(count), std::vector<sim::MeasuredParts>(count)};
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const MeasuredInstruction& m = measured.instructions[static_cast<std::size_t>(i - rank.begin)];
    const auto at = static_cast<std::size_t>(i);
    out.starts[at] = m.start_ns - measured.start_ns;
    out.ends[at] = m.end_ns - measured.start_ns;
    out.parts[at] = {m.operators_ns, m.collectives_ns, m.waited_ns};
  }
  return out;
}

Error another_list(std::int64_t device, const std::string& found, const std::string& expected) {
  return {ErrorKind::bad_input, "timeline", cat("device ", device, ": ", found), expected,
          "measure again with this version: espalier run PLAN.json --timeline FILE"};
}

/// Checks that the computations of a rank follow each other inside its step.
Status one_after_the_other(const Program& program, const RankClass& rank, const MeasuredRank& measured) {
  if (measured.instructions.size() != static_cast<std::size_t>(rank.end - rank.begin))
    return another_list(rank.device(), cat(measured.instructions.size(), " instructions"),
                        cat(rank.end - rank.begin, " of its list"));
  std::int64_t now = measured.start_ns;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const MeasuredInstruction& m = measured.instructions[static_cast<std::size_t>(i - rank.begin)];
    const bool computes = program.instructions[static_cast<std::size_t>(i)].stream == Stream::compute;
    if (m.start_ns < (computes ? now : measured.start_ns) || m.end_ns > measured.end_ns)
      return another_list(measured.device, cat("instruction ", i - rank.begin, " from ", m.start_ns, " to ", m.end_ns, " ns"),
                          cat("between ", now, " and ", measured.end_ns, " ns"));
    if (computes) now = m.end_ns;
  }
  return {};
}

/// Returns the spans of the first device of every class, in the form of a simulation.
Timeline measured_timeline(const Plan& plan, const Timed& timed, const MeasuredStep& measured) {
  Simulation spans;
  spans.iteration_ns = measured.iteration_ns();
  spans.spans.resize(timed.program.instructions.size());
  for (const RankClass& rank : timed.program.ranks)
    for (const MeasuredRank& m : measured.ranks) {
      if (m.device != rank.device()) continue;
      for (std::int32_t i = rank.begin; i < rank.end; ++i) {
        const MeasuredInstruction& at = m.instructions[static_cast<std::size_t>(i - rank.begin)];
        spans.spans[static_cast<std::size_t>(i)] = {at.start_ns, at.end_ns};
      }
    }
  Timeline timeline = sim::timeline_of(plan, timed.program, timed.costs, spans);
  for (TimelineRank& rank : timeline.ranks) rank.memory.clear();  // memory was not measured
  return timeline;
}

Status compare_ranks(const Timed& timed, const MeasuredStep& measured, StepComparison& out) {
  std::set<std::int64_t> seen;
  for (const MeasuredRank& m : measured.ranks) {
    const RankClass* rank = class_of(timed.program, m.device);
    if (rank == nullptr || !seen.insert(m.device).second)
      return another_list(m.device, rank == nullptr ? "not in the plan" : "measured twice", "every device of the plan once");
    if (Status status = one_after_the_other(timed.program, *rank, m); !status.ok()) return status;
    const MeasuredList list = list_of(timed.program, *rank, m);
    const auto number = static_cast<std::size_t>(rank - timed.program.ranks.data());
    out.ranks.push_back(
        {m.device, rank->pipeline, rank->stage.value, timed.simulation.ranks[number].breakdown,
         sim::attribute_measured(timed.program, *rank, list.parts, m.end_ns - m.start_ns, list.starts, list.ends)});
    out.clock_error_ns = std::max(out.clock_error_ns, m.clock_error_ns);
  }
  std::int64_t devices = 0;
  for (const RankClass& rank : timed.program.ranks) devices += rank.represents();
  if (static_cast<std::int64_t>(seen.size()) != devices)
    return Error{ErrorKind::bad_input, "timeline", cat(seen.size(), " ranks"), cat("the ", devices, " of the plan"), ""};
  std::sort(out.ranks.begin(), out.ranks.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  return {};
}

}  // namespace

Result<StepComparison> compare_step(const Job& job, const Plan& plan, const MeasuredStep& measured) {
  if (measured.plan != content_hash(plan))
    return Error{ErrorKind::bad_input, "timeline", cat("a step of plan ", measured.plan),
                 cat("one of this plan, ", content_hash(plan)), "give the plan that was run"};
  Timed timed;
  if (auto result = simulated(job, plan, &timed); !result) return result.error();
  StepComparison out;
  out.predicted_ns = timed.simulation.iteration_ns;
  out.measured_ns = measured.iteration_ns();
  out.step = measured.step;
  out.steps = measured.steps;
  if (Status status = compare_ranks(timed, measured, out); !status.ok()) return status.error();
  out.predicted = sim::timeline_of(plan, timed.program, timed.costs, timed.simulation);
  out.measured = measured_timeline(plan, timed, measured);
  OperatorTable table;
  if (Status status = add_measured(job.model, measured, table); !status.ok()) return status.error();
  if (cost::on_unlike_devices(plan, job.cluster)) return out;
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  cost::CostContext context(job.model, job.cluster, job.training, **engine);
  context.fabric.place(plan);
  add_predicted(context, job.model, plan, timed.program, table);
  out.operators = rows_of(table);
  return out;
}

}  // namespace espalier
