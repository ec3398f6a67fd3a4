// SPDX-License-Identifier: Apache-2.0
#include "planner/partition_report.h"

#include <algorithm>
#include <cmath>

#include "cost/partitioned_block.h"
#include "planner/brief_text.h"

namespace espalier {
namespace {

using text::cat;

std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }

void add_block(const cost::CostContext& context, const LayerRange& range, const LayerKind& kind, std::int64_t samples,
               std::vector<OperatorReport>& out) {
  const auto block = cost::priced_block(context, kind, samples, range.strategy.tp, range.strategy.partition);
  if (!block) return;
  for (int n = 1; n < block->graph.nodes(); ++n) {
    const cost::PartitionCost& c = block->cost.operators[static_cast<std::size_t>(n) - 1];
    const auto& node = block->graph.operators[static_cast<std::size_t>(n)];
    OperatorReport r;
    r.first_layer = range.first, r.devices = range.strategy.tp;
    r.name = node.shape.name;
    const std::string& text = range.strategy.partition;
    const std::size_t at = text.find(r.name + " ") + r.name.size() + 1;
    r.sequence = text.substr(at, text.find(';', at) - at);
    cost::PhaseSeconds all = c.forward;
    all += c.backward_input;
    all += c.backward_weight;
    r.compute_ns = ns(all.compute), r.collective_ns = ns(all.collective);
    r.ring_hidden_ns = ns(all.ring_hidden), r.ring_exposed_ns = ns(all.ring_exposed);
    r.gradient_sync_ns = ns(c.gradient_sync);
    for (std::size_t e = 0; e < block->graph.edges.size(); ++e)
      if (block->graph.edges[e].to == n)
        r.redistribution_ns += block->cost.redistributions[e].forward_ns + block->cost.redistributions[e].backward_ns;
    out.push_back(std::move(r));
  }
}

std::string share_of(int bits) { return bits == 0 ? "" : cat("1/", std::to_string(1 << bits)); }

}  // namespace

std::vector<OperatorReport> operator_reports(const Job& job, const EngineModel& engine, const Plan& plan) {
  std::vector<OperatorReport> out;
  std::vector<std::string> seen;
  const cost::CostContext context(job.model, job.cluster, job.training, engine);
  for (const Stage& stage : plan.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) {
        const std::string& text = range.strategy.partition;
        if (text.empty() || std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
        for (std::int32_t i = range.first; i <= range.last; ++i) {
          const LayerKind& kind = job.model.layer(static_cast<std::size_t>(i));
          if (kind.role != LayerRole::block) continue;
          seen.push_back(text);
          add_block(context, range, kind, plan.samples_per_microbatch() / range.strategy.dp, out);
          break;
        }
      }
  return out;
}

std::string partition_meaning(const OperatorReport& report) {
  int cut[26] = {};
  std::string primitive;
  for (std::size_t at = 0; at < report.sequence.size();) {
    const std::size_t end = std::min(report.sequence.find(',', at), report.sequence.size());
    const std::string part = report.sequence.substr(at, end - at);
    if (part.size() > 1)
      primitive += cat(primitive.empty() ? "" : ", ", "tiles on rings of ", part.substr(1));
    else if (part[0] >= 'A' && part[0] <= 'Z')
      ++cut[part[0] - 'A'];
    at = end + 1;
  }
  const std::pair<char, const char*> names[] = {{'B', "samples"},      {'M', "tokens"}, {'N', "features in"},
                                                {'K', "features out"}, {'H', "heads"},  {'L', "keys"}};
  std::string out;
  for (const auto& [letter, name] : names)
    if (const int bits = cut[letter - 'A']; bits > 0) out += cat(out.empty() ? "" : ", ", share_of(bits), " of the ", name);
  if (!primitive.empty()) out += cat(out.empty() ? "" : ", ", primitive);
  if (const int bits = cut['R' - 'A']; bits > 0)
    out += cat(out.empty() ? "" : ", ", std::to_string(1 << bits), " times the same");
  return out;
}

std::string operator_section(const PlannerResult& result) {
  std::string out;
  for (std::size_t begin = 0; begin < result.operators.size();) {
    std::size_t end = begin;
    std::vector<std::vector<std::string>> rows{
        {"operator", "partition", "compute", "all-reduce", "ring hidden", "exposed", "moved in", "what a device has"}};
    const auto time = [](std::int64_t t) { return t > 0 ? text::seconds(t) : std::string("–"); };
    for (; end < result.operators.size() && result.operators[end].first_layer == result.operators[begin].first_layer; ++end) {
      const OperatorReport& r = result.operators[end];
      rows.push_back({r.name, r.sequence, time(r.compute_ns), time(r.collective_ns), time(r.ring_hidden_ns),
                      time(r.ring_exposed_ns), time(r.redistribution_ns), partition_meaning(r)});
    }
    out += cat("\nOperators of a block over ", std::to_string(result.operators[begin].devices), " devices, from layer ",
               std::to_string(result.operators[begin].first_layer), " on (one micro-batch, forward and backward)\n",
               text::table(rows, {0, 1, 7}));
    begin = end;
  }
  return out;
}

std::vector<std::string> partition_sentences(const PlannerResult& result) {
  if (result.operators.empty()) return {};
  std::int64_t hidden = 0, exposed = 0, collective = 0, moved = 0, compute = 0, sync = 0;
  std::string rings;
  for (const OperatorReport& r : result.operators) {
    hidden += r.ring_hidden_ns, exposed += r.ring_exposed_ns, collective += r.collective_ns;
    moved += r.redistribution_ns, compute += r.compute_ns, sync += r.gradient_sync_ns;
    if (r.sequence.find('P') != std::string::npos) rings += cat(rings.empty() ? "" : ", ", r.name);
  }
  std::string what = cat("Operators are partitioned one by one over ", std::to_string(result.operators.front().devices),
                         " devices: a block computes ", text::seconds(compute), " a micro-batch, ", text::seconds(collective),
                         " of all-reduces and ", text::seconds(moved), " of redistribution are left");
  if (!rings.empty())
    what += cat("; ", rings, " pass tiles on rings, ", text::seconds(hidden), " of it hidden, ", text::seconds(exposed), " not");
  if (sync > 0) what += cat("; ", text::seconds(sync), " a block reduce gradients inside the group once a step");
  std::vector<std::string> out = {what + "."};
  if (result.search.partitions && result.search.partitions->without_ns > result.prediction.iteration_ns) {
    const double times =
        static_cast<double>(result.search.partitions->without_ns) / static_cast<double>(result.prediction.iteration_ns);
    out.push_back(cat(text::fixed(times, 3), "× faster than the best plan without operator partitions (",
                      text::seconds(result.search.partitions->without_ns), ")."));
  }
  return out;
}

}  // namespace espalier
