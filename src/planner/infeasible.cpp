// SPDX-License-Identifier: Apache-2.0
#include "planner/infeasible.h"

#include <algorithm>
#include <optional>

#include "plan/rules.h"
#include "planner/brief_text.h"
#include "planner/excluded.h"
#include "planner/pins.h"
#include "planner/simulated_evaluator.h"
#include "search/cost_book.h"

namespace espalier {
namespace {

struct Leanest {
  search::Configuration configuration;
  std::int64_t peak_bytes = INT64_MAX;
};

/// The configuration that needs least memory: for each choice of degrees the smallest micro-batch, the widest sharding and the most
/// recomputation. Overlap and rank order do not change memory.
std::optional<Leanest> leanest(const Job& job, const EngineModel& engine, const SearchSpace& restriction) {
  const search::Problem problem{&job.model, &job.cluster, job.training, &engine, restriction};
  const search::Space space(job.model, job.cluster, job.training, engine, restriction);
  search::CostBook book(problem);
  search::Workspace w;
  SimulatedEvaluator evaluator(1);
  Leanest best;
  std::optional<search::Configuration> previous;
  space.layer_group([&](const search::Configuration& c) {
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
  if (best.peak_bytes == INT64_MAX) return std::nullopt;
  return best;
}

std::string label_of(const Job& job, const EngineModel& engine, const search::Configuration& c) {
  return make_uniform_plan(job.model, job.cluster, job.training, engine.name, c.strategy, c.schedule, engine.split).label();
}

/// "without search.fix.zero: 0, TP1 … would fit (20.1 GiB)": each pin that alone stands in the way, else all of them together.
std::vector<std::string> by_fewer_pins(const Job& job, const EngineModel& engine, std::int64_t limit) {
  constexpr std::size_t kMost = 8;  // each costs a search for the leanest configuration
  std::vector<planner::Pin> pins = planner::pins_of(job, engine);
  std::erase_if(pins, [](const planner::Pin& p) { return p.kind == planner::Pin::Kind::engine; });
  std::vector<std::string> out;
  const auto try_space = [&](const SearchSpace& space, const std::string& what) {
    const auto lean = leanest(job, engine, space);
    if (!lean || lean->peak_bytes > limit) return;
    out.push_back("without " + what + ", " + label_of(job, engine, lean->configuration) + " would fit (" +
                  text::gib(lean->peak_bytes) + ")");
  };
  for (std::size_t i = 0; i < pins.size() && pins.size() <= kMost; ++i) {
    std::vector<planner::Pin> others = pins;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    try_space(planner::space_of(others, job), planner::text_of(pins[i], job, engine));
  }
  if (out.empty() && !pins.empty()) try_space({}, "the search restrictions");
  return out;
}

/// The limit that the job sets, where the device itself has enough; else a device that does. Whole MiB, rounded up, so that it fits.
std::string by_more_memory(const Job& job, std::int64_t peak_bytes, std::int64_t limit) {
  Cluster unlimited = job.cluster;
  unlimited.memory_limit.reset();
  if (job.cluster.memory_limit && unlimited.usable_memory().count() >= peak_bytes)
    return "cluster.memory_limit: " + std::to_string((peak_bytes + (1 << 20) - 1) >> 20) + "MiB would fit";
  return "devices with " + text::gib(peak_bytes) + " usable memory would fit (now " + text::gib(limit) + ")";
}

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

std::string by_more_nodes(const Job& job, const EngineModel& engine) {
  for (std::int64_t times = 2; times <= 64; times *= 2) {
    const Job more = with_nodes(job, times);
    const auto lean = leanest(more, engine, job.search);
    if (lean && lean->peak_bytes <= more.cluster.usable_memory().count())
      return "cluster.nodes = " + std::to_string(more.cluster.groups.front().nodes) + " would fit (" +
             text::gib(lean->peak_bytes) + " a device)";
  }
  return "";
}

std::string by_shorter_sequence(const Job& job, const EngineModel& engine) {
  Job shorter = job;
  for (int i = 0; i < 6 && shorter.training.sequence.main >= 512; ++i) {
    shorter.training.sequence.main /= 2;
    const auto lean = leanest(shorter, engine, job.search);
    if (lean && lean->peak_bytes <= shorter.cluster.usable_memory().count())
      return "training.sequence_length = " + std::to_string(shorter.training.sequence.main) + " would fit (" +
             text::gib(lean->peak_bytes) + " a device)";
  }
  return "";
}

}  // namespace

Error infeasible(const Job& job, const EngineModel& engine, const search::Outcome& found) {
  if (found.interrupted) return Error{ErrorKind::limit, "search", "interrupted before any configuration was simulated", "", ""};
  if (found.space_size == 0) return nothing_legal(job, engine);
  const std::int64_t limit = job.cluster.usable_memory().count();
  const auto lean = leanest(job, engine, job.search);
  std::vector<std::string> changes = by_fewer_pins(job, engine, limit);
  if (lean && job.cluster.memory_limit) changes.push_back(by_more_memory(job, lean->peak_bytes, limit));
  if (auto more = by_more_nodes(job, engine); !more.empty()) changes.push_back(more);
  if (auto shorter = by_shorter_sequence(job, engine); !shorter.empty()) changes.push_back(shorter);
  if (lean && !job.cluster.memory_limit) changes.push_back(by_more_memory(job, lean->peak_bytes, limit));
  std::string hint;
  for (const auto& change : changes) hint += (hint.empty() ? "" : "; or ") + change;
  std::string what = "none of " + text::count(found.space_size) + " configurations fits";
  if (lean)
    what +=
        "; the leanest, " + label_of(job, engine, lean->configuration) + ", needs " + text::gib(lean->peak_bytes) + " a device";
  return Error{ErrorKind::infeasible, "memory", what, "at most " + text::gib(limit) + " a device", hint};
}

}  // namespace espalier
