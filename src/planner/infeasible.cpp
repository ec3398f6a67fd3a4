// SPDX-License-Identifier: Apache-2.0
#include "planner/infeasible.h"

#include <algorithm>
#include <optional>

#include "plan/rules.h"
#include "planner/brief_text.h"
#include "planner/simulated_evaluator.h"
#include "search/cost_book.h"

namespace espalier {
namespace {

using Stop = std::function<bool()>;

struct Leanest {
  search::Configuration configuration;
  std::int64_t peak_bytes = INT64_MAX;
};

/// The configuration that needs least memory: for each choice of degrees the smallest micro-batch, the widest sharding and the most
/// recomputation. Overlap and rank order do not change memory. Nothing once `stop` says so.
std::optional<Leanest> leanest(const Job& job, const EngineModel& engine, const SearchSpace& restriction, const Stop& stop) {
  const search::Problem problem{&job.model, &job.cluster, job.training, &engine, restriction};
  const search::Space space(job.model, job.cluster, job.training, engine, restriction);
  search::CostBook book(problem);
  search::Workspace w;
  SimulatedEvaluator evaluator(1);
  Leanest best;
  std::optional<search::Configuration> previous;
  space.layer_group([&](const search::Configuration& c) {
    if (stop && stop()) return;
    // micro_batch varies innermost and ascends: the first one of each choice is the smallest
    if (previous && previous->strategy == c.strategy && previous->schedule.stages == c.schedule.stages) return;
    previous = c;
    book.prepare(c.schedule.stages);
    cost::layer_costs(book.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
    space.schedule_group(c, [&](const search::Configuration& b) {
      if (b.schedule.virtual_stages > 2) return;
      space.shard_group(b, [&](const search::Configuration& s) {
        std::optional<search::Configuration> most;
        space.overlap_group(s, [&](const search::Configuration& o) {
          if (most) return;
          space.recompute_group(o, [&](const search::Configuration& r) { most = r; });
        });
        if (!most) return;
        assemble(book, *most, w);
        if (search::peak_bound_bytes(w) >= best.peak_bytes) return;
        const std::int64_t peak = evaluator.peak_bytes(w.lowering, w.timing, 0);
        if (peak < best.peak_bytes) best = {*most, peak};
      });
    });
  });
  if (best.peak_bytes == INT64_MAX || (stop && stop()))
    return std::nullopt;  // of a part of the space it would not be the leanest
  return best;
}

bool restricted(const SearchSpace& s) { return !s.allow.empty() || !s.forbid.empty() || !s.limits.empty(); }

Job with_nodes(const Job& job, std::int64_t times) {
  Job more = job;
  auto& group = more.cluster.groups.front();
  group.nodes *= times;
  if (more.cluster.inter.empty() && !group.intra.empty()) {
    FabricLevel network = group.intra.back();  // only memory is asked for; the speed of this level plays no part
    network.name = "network";
    more.cluster.inter.push_back(network);
  }
  if (!more.cluster.inter.empty())
    more.cluster.inter.back().span = std::max(more.cluster.inter.back().span, more.cluster.devices());
  return more;
}

std::string by_more_nodes(const Job& job, const EngineModel& engine, const Stop& stop) {
  for (std::int64_t times = 2; times <= 64; times *= 2) {
    const Job more = with_nodes(job, times);
    const auto lean = leanest(more, engine, {}, stop);
    if (lean && lean->peak_bytes <= more.cluster.usable_memory().count())
      return "cluster.nodes = " + std::to_string(more.cluster.groups.front().nodes) + " would fit (" +
             text::gib(lean->peak_bytes) + " a device)";
  }
  return "";
}

std::string by_shorter_sequence(const Job& job, const EngineModel& engine, const Stop& stop) {
  Job shorter = job;
  for (int i = 0; i < 6 && shorter.training.sequence.main >= 512; ++i) {
    shorter.training.sequence.main /= 2;
    const auto lean = leanest(shorter, engine, job.search, stop);
    if (lean && lean->peak_bytes <= shorter.cluster.usable_memory().count())
      return "training.sequence_length = " + std::to_string(shorter.training.sequence.main) + " would fit (" +
             text::gib(lean->peak_bytes) + " a device)";
  }
  return "";
}

Error nothing_legal(const Job& job) {
  Strategy s;
  Schedule schedule;
  s.dp = static_cast<std::int32_t>(job.cluster.devices());
  std::string why;
  for (const auto& v : violations(job.model, job.cluster, job.training, s, schedule))
    why += (why.empty() ? "" : "; ") + v.rule + ": " + v.text;
  return Error{ErrorKind::infeasible, "search", "no legal configuration at all",
               "degrees that divide the devices, the batch and the heads",
               why.empty()
                   ? "relax search.fix, allow, forbid or limits"
                   : "plain data parallelism breaks " + why + "; relax search.fix, allow, forbid, limits or change global_batch"};
}

}  // namespace

Error infeasible(const Job& job, const EngineModel& engine, const search::Outcome& found, const Stop& interrupted) {
  if (found.interrupted) return Error{ErrorKind::limit, "search", "interrupted before any configuration was simulated", "", ""};
  if (found.space_size == 0) return nothing_legal(job);
  const std::int64_t limit = job.cluster.usable_memory().count();
  const auto lean = leanest(job, engine, job.search, interrupted);
  std::vector<std::string> changes;
  if (restricted(job.search)) {
    const auto free = leanest(job, engine, {}, interrupted);
    if (free && free->peak_bytes <= limit) {
      const Plan plan = make_uniform_plan(job.model, job.cluster, job.training, engine.name, free->configuration.strategy,
                                          free->configuration.schedule, engine.split);
      changes.push_back("without the search restrictions " + plan.label() + " would fit (" + text::gib(free->peak_bytes) + ")");
    }
  }
  if (lean)
    changes.push_back("devices with " + text::gib(lean->peak_bytes) + " usable memory would fit (now " + text::gib(limit) + ")");
  if (auto more = by_more_nodes(job, engine, interrupted); !more.empty()) changes.push_back(more);
  if (auto shorter = by_shorter_sequence(job, engine, interrupted); !shorter.empty()) changes.push_back(shorter);
  std::string hint;
  for (const auto& change : changes) hint += (hint.empty() ? "" : "; or ") + change;
  std::string what = "none of " + text::count(found.space_size) + " configurations fits";
  if (lean) {
    const Plan plan = make_uniform_plan(job.model, job.cluster, job.training, engine.name, lean->configuration.strategy,
                                        lean->configuration.schedule, engine.split);
    what += "; the leanest, " + plan.label() + ", needs " + text::gib(lean->peak_bytes) + " a device";
  }
  return Error{ErrorKind::infeasible, "memory", what, "at most " + text::gib(limit) + " a device", hint};
}

}  // namespace espalier
