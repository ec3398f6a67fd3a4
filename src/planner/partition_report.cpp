// SPDX-License-Identifier: Apache-2.0
#include "planner/partition_report.h"

#include <algorithm>

#include "base/format.h"
#include "cost/partitioned_block.h"
#include "cost/rounding.h"
#include "plan/engine.h"

namespace espalier::planner {
namespace {

void add_block(const cost::CostContext& context, const LayerRange& range, const LayerKind& kind, std::int64_t samples,
               std::vector<OperatorReport>& out) {
  const auto block = cost::priced_block(context, kind, samples, range.strategy.tp, range.strategy.partition);
  if (!block) return;
  for (int n = 1; n < block->graph.nodes(); ++n) {
    const cost::PartitionCost& c = block->cost.operators[static_cast<std::size_t>(n) - 1];
    const auto& node = block->graph.operators[static_cast<std::size_t>(n)];
    OperatorReport r;
    r.first_layer = range.first;
    r.devices = range.strategy.tp;
    r.name = node.shape.name;
    const std::string& text = range.strategy.partition.text();
    const std::size_t at = text.find(r.name + " ") + r.name.size() + 1;
    r.sequence = text.substr(at, text.find(';', at) - at);
    cost::PhaseSeconds all = c.forward;
    all += c.backward_input;
    all += c.backward_weight;
    r.compute_ns = cost::round_ns(all.compute);
    r.collective_ns = cost::round_ns(all.collective);
    r.ring_hidden_ns = cost::round_ns(all.ring_hidden);
    r.ring_exposed_ns = cost::round_ns(all.ring_exposed);
    r.gradient_sync_ns = cost::round_ns(c.gradient_sync);
    for (std::size_t e = 0; e < block->graph.edges.size(); ++e)
      if (block->graph.edges[e].to == n)
        r.redistribution_ns += block->cost.redistributions[e].forward_ns + block->cost.redistributions[e].backward_ns;
    out.push_back(std::move(r));
  }
}

}  // namespace

std::vector<OperatorReport> operator_reports(const Job& job, const EngineModel& engine, const Plan& plan) {
  std::vector<OperatorReport> out;
  std::vector<std::string> seen;
  const cost::CostContext context(job.model, job.cluster, job.training, engine);
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const Chunk& chunk : stage.chunks)
        for (const LayerRange& range : chunk.ranges) {
          const std::string& text = range.strategy.partition.text();
          if (text.empty() || std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
          for (std::int32_t i = range.first; i <= range.last; ++i) {
            const LayerKind& kind = job.model.layer(static_cast<std::size_t>(i));
            if (kind.role != LayerRole::block) continue;
            seen.push_back(text);
            add_block(context, range, kind, pipeline.samples_per_microbatch() / range.strategy.dp, out);
            break;
          }
        }
  return out;
}

std::vector<std::string> partition_sentences(const PlannerResult& result) {
  if (result.operators.empty()) return {};
  std::int64_t hidden = 0, exposed = 0, collective = 0, moved = 0, compute = 0, sync = 0;
  std::string rings;
  for (const OperatorReport& r : result.operators) {
    hidden += r.ring_hidden_ns;
    exposed += r.ring_exposed_ns;
    collective += r.collective_ns;
    moved += r.redistribution_ns;
    compute += r.compute_ns;
    sync += r.gradient_sync_ns;
    if (r.sequence.find('P') != std::string::npos) rings += cat(rings.empty() ? "" : ", ", r.name);
  }
  std::string what = cat("Operators are partitioned one by one over ", std::to_string(result.operators.front().devices),
                         " devices: a block computes for ", base::seconds(compute), " per micro-batch, ",
                         base::seconds(collective), " of all-reduces and ", base::seconds(moved), " of redistribution remain");
  if (!rings.empty())
    what += cat("; ", rings, " pass tiles on rings, ", base::seconds(hidden), " of which are hidden, ", base::seconds(exposed),
                " exposed");
  if (sync > 0) what += cat("; ", base::seconds(sync), " per block reduce gradients inside the group once per step");
  std::vector<std::string> out = {what + "."};
  const std::int64_t without_ns = best_without_partitions_ns(result.search);
  if (covers_partitions(result.search) && without_ns > result.prediction.iteration_ns) {
    const double times = static_cast<double>(without_ns) / static_cast<double>(result.prediction.iteration_ns);
    out.push_back(
        cat(base::fixed(times, 3), "× faster than the best plan without operator partitions (", base::seconds(without_ns), ")."));
  }
  return out;
}

}  // namespace espalier::planner
