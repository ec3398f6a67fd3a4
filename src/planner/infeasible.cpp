// SPDX-License-Identifier: Apache-2.0
#include "planner/infeasible.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "cost/offload.h"
#include "job/pins.h"
#include "plan/engine.h"
#include "plan/recompute_modules.h"
#include "plan/rules.h"
#include "planner/engine_options.h"
#include "planner/infeasible_pins.h"
#include "planner/memory_margin.h"
#include "planner/simulated_evaluator.h"
#include "search/cost_book.h"

namespace espalier::planner {
namespace {

using Stop = std::function<bool()>;

struct Leanest {
  search::Configuration configuration;
  std::int64_t peak_bytes = INT64_MAX;
  cost::HostNeed host;
};

/// Names the memory to minimise, while the other must suffice.
enum class Lack : std::uint8_t { device, host };

/// Returns the configuration that needs the least device memory, among those whose hosts hold the offloaded state.
/// With Lack::host it returns the one that needs the least host memory, among those that fit the devices. For each
/// choice of degrees it tries the smallest micro-batch, the widest sharding and the most recomputation. Overlap and
/// rank order do not change memory. Returns nullopt if the watch stops it, since it has not seen all configurations.
std::optional<Leanest> leanest(const Job& job, const EngineModel& engine, const SearchSpace& restriction, Watch& watch,
                               Lack lack = Lack::device) {
  const search::Problem problem{&job.model, &job.cluster, job.training, &engine, restriction};
  const search::Space space(job.model, job.cluster, job.training, engine, restriction);
  search::CostBook book(problem);
  search::Workspace w;
  SimulatedEvaluator evaluator(1);
  const std::int64_t room = memory_room_bytes(job);
  std::optional<Leanest> best;
  const auto judge = [&](const search::Configuration& c) {
    const cost::HostNeed host = cost::host_need(job.cluster, w.costs);
    const std::int64_t bound = search::peak_bound_bytes(w);
    if (lack == Lack::device && (!host.fits() || (best && bound >= best->peak_bytes))) return;
    if (lack == Lack::host && (bound > room || (best && host.bytes >= best->host.bytes))) return;
    const std::int64_t peak = evaluator.peak_bytes(w.structure, w.costs, 0);
    const bool leaner = lack == Lack::host ? peak <= room : !best || peak < best->peak_bytes;
    if (leaner) best = {c, peak, host};
  };
  std::optional<search::Configuration> previous;
  space.layer_group([&](const search::Configuration& c) {
    if (watch.stopped()) return;
    // micro_batch varies innermost and ascends, so the first one of each choice is the smallest.
    if (previous && previous->strategy == c.strategy && previous->schedule.stages == c.schedule.stages) return;
    previous = c;
    book.prepare(c.schedule.stages);
    cost::layer_costs(book.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
    space.schedule_group(c, [&](const search::Configuration& b) {
      if (b.schedule.virtual_stages > 2 || watch.stopped()) return;
      space.shard_group(b, [&](const search::Configuration& s) {
        std::optional<search::Configuration> most;
        space.overlap_group(s, [&](const search::Configuration& o) {
          if (most) return;
          space.recompute_group(o, [&](const search::Configuration& r) { most = r; });
        });
        if (!most) return;
        assemble(book, *most, w);
        judge(*most);
      });
    });
  });
  if (watch.stopped()) return std::nullopt;
  return best;
}

/// Formats a size in GiB, or in MiB if a tenth of a GiB would hide the difference.
std::string size_text(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  return bytes >= 10 * 1024 * kMiB ? base::gib(bytes) : std::to_string((bytes + kMiB / 2) / kMiB) + " MiB";
}

std::string label_of(const Job& job, const EngineModel& engine, const search::Configuration& c) {
  Plan plan = make_uniform_plan(job.model, job.cluster, job.training, engine.name, c.strategy, c.schedule, engine.split);
  name_modules(engine, job.model, plan);
  return plan.label();
}

/// Returns "without search.fix.zero: 0, TP1 … would fit (20.1 GiB)" for each pin that alone prevents a fit, else for
/// all of them together.
std::vector<std::string> by_fewer_pins(const Job& job, const EngineModel& engine, std::int64_t limit, Watch& watch) {
  constexpr std::size_t kMost = 8;  // each costs a search for the leanest configuration
  std::vector<job::Pin> pins = job::pins_of(job, engine);
  std::erase_if(pins, [](const job::Pin& p) { return p.kind == job::Pin::Kind::engine; });
  std::vector<std::string> out;
  const auto try_space = [&](const SearchSpace& space, const std::string& what) {
    const auto lean = leanest(job, engine, space, watch);
    if (!lean || lean->peak_bytes > limit) return;
    out.push_back("without " + what + ", " + label_of(job, engine, lean->configuration) + " would fit (" +
                  size_text(lean->peak_bytes) + ")");
  };
  for (std::size_t i = 0; i < pins.size() && pins.size() <= kMost; ++i) {
    std::vector<job::Pin> others = pins;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    try_space(job::space_of(others, job), job::text_of(pins[i], job, engine));
  }
  if (out.empty() && !pins.empty()) try_space({}, "the search restrictions");
  return out;
}

/// Holds options of the engine, with or without offload to host memory.
struct Relief {
  std::vector<std::string> options;
  std::optional<Offload> offload;
};

/// Lists options that keep the numerics first: none, each, all together. Then it lists each option that changes them,
/// alone and with all the former.
std::vector<std::vector<std::string>> sets_of_options(const EngineModel& engine) {
  std::vector<std::vector<std::string>> out = {{}};
  std::vector<std::string> execution;
  for (const EngineOption& option : engine.options) {
    if (option.numerics || !option.sets.empty()) continue;
    out.push_back({option.name});
    execution.push_back(option.name);
  }
  if (execution.size() > 1) out.push_back(execution);
  for (const EngineOption& option : engine.options) {
    if (!option.numerics || !option.sets.empty()) continue;
    out.push_back({option.name});
    if (execution.empty()) continue;
    out.push_back(execution);
    out.back().push_back(option.name);
  }
  return out;
}

std::vector<Relief> reliefs(const Job& job, const EngineModel& engine) {
  const bool stated = job.search.allowed.contains(Dimension::offload);
  std::vector<Relief> out;
  for (std::vector<std::string>& options : sets_of_options(engine)) {
    if (!options.empty()) out.push_back({options, {}});
    for (const Offload offload : {Offload::activations, Offload::optimizer, Offload::optimizer_activations})
      if (!stated) out.push_back({options, offload});
  }
  return out;
}

std::string text_of(const Relief& relief, const EngineModel& with) {
  std::vector<std::string> parts;
  if (!relief.options.empty())
    parts.push_back("engine: " + with.name + (changes_numerics(with, relief.options) ? " (different numerics)" : ""));
  if (relief.offload) parts.push_back("search.fix.offload: " + std::string(to_string(*relief.offload)));
  return base::joined(parts, " with ");
}

/// Returns "engine: fsdp2+chunked-loss with search.fix.offload: activations would fit (52.7 GiB a device)".
std::string by_options_or_offload(const Job& job, const EngineModel& engine, std::int64_t limit, Watch& watch) {
  if (job.engine_model || job.calibration || engine.name.find('+') != std::string::npos) return "";
  for (const Relief& relief : reliefs(job, engine)) {
    const EngineModel* with = find_engine(name_with(engine, relief.options));
    if (with == nullptr || watch.stopped()) continue;
    SearchSpace space = job.search;
    if (relief.offload) space.fix(Dimension::offload, *relief.offload);
    const auto lean = leanest(job, *with, space, watch);
    if (lean && lean->host.fits() && lean->peak_bytes <= limit)
      return text_of(relief, *with) + " would fit (" + size_text(lean->peak_bytes) + " a device)";
  }
  return "";
}

Job with_nodes(const Job& job, std::int64_t nodes) {
  Job more = job;
  auto& group = more.cluster.groups.front();
  group.nodes = nodes;
  if (more.cluster.inter.empty() && !group.intra.empty()) {
    FabricLevel network = group.intra.back();  // only memory matters here, not the speed of this level
    network.name = "network";
    more.cluster.inter.push_back(network);
  }
  if (!more.cluster.inter.empty())
    more.cluster.inter.back().span = std::max(more.cluster.inter.back().span, more.cluster.devices());
  return more;
}

/// Returns the memory of the leanest configuration on this many nodes, if it fits.
std::optional<std::int64_t> fitting_bytes(const Job& job, const EngineModel& engine, std::int64_t nodes, Watch& watch) {
  const Job more = with_nodes(job, nodes);
  const auto lean = leanest(more, engine, job.search, watch);
  if (!lean || lean->peak_bytes > memory_room_bytes(more)) return std::nullopt;
  return lean->peak_bytes;
}

/// Tries doublings of the nodes up to the first number that fits, then halves the gap below it a few times. Numbers of
/// nodes without a legal configuration count as not fitting, so a smaller number between the tried ones may also fit.
std::string by_more_nodes(const Job& job, const EngineModel& engine, Watch& watch) {
  constexpr int kHalvings = 4;  // each costs a search for the leanest configuration
  const NodeGroup& group = job.cluster.groups.front();
  const std::int64_t now = group.nodes, unit = std::max<std::int64_t>(1, group.segment);
  std::int64_t low = now, high = 2 * now;
  auto bytes = fitting_bytes(job, engine, high, watch);
  while (!bytes && high < 256 * now && !watch.stopped()) {
    low = high;
    high *= 2;
    bytes = fitting_bytes(job, engine, high, watch);
  }
  if (!bytes) return "";
  for (int i = 0; i < kHalvings && !watch.stopped(); ++i) {
    const std::int64_t middle = (low + high) / 2 / unit * unit;  // whole segments
    if (middle <= low) break;
    const auto fewer = fitting_bytes(job, engine, middle, watch);
    if (!fewer) {
      low = middle;
      continue;
    }
    high = middle;
    bytes = fewer;
  }
  return "cluster.nodes: " + std::to_string(high) + " would fit (" + size_text(*bytes) + " a device)";
}

std::string by_shorter_sequence(const Job& job, const EngineModel& engine, Watch& watch) {
  Job shorter = job;
  for (int i = 0; i < 6 && shorter.training.sequence.main >= 512; ++i) {
    shorter.training.sequence.main /= 2;
    const auto lean = leanest(shorter, engine, job.search, watch);
    if (lean && lean->peak_bytes <= memory_room_bytes(shorter))
      return "training.sequence_length: " + std::to_string(shorter.training.sequence.main) + " would fit (" +
             size_text(lean->peak_bytes) + " a device)";
  }
  return "";
}

/// Returns the usable memory of a device that holds `peak` bytes outside the memory margin.
std::int64_t devices_for(const Job& job, std::int64_t peak) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(peak) / (1.0 - memory_margin_of(job).share)));
}

/// Suggests a higher limit in the job if the device itself has enough memory; else a device that does. The limit is
/// in whole MiB, rounded up, so that the plan fits.
std::string by_more_memory(const Job& job, std::int64_t peak_bytes) {
  Cluster unlimited = job.cluster;
  unlimited.memory_limit.reset();
  const std::int64_t needed = devices_for(job, peak_bytes);
  if (job.cluster.memory_limit && unlimited.usable_memory().count() >= needed)
    return "cluster.memory_limit: " + std::to_string((needed + (1 << 20) - 1) >> 20) + "MiB would fit";
  return "devices with " + size_text(needed) + " usable memory would fit (now " + size_text(job.cluster.usable_memory().count()) +
         ")";
}

}  // namespace

namespace {

/// Formats whole gigabytes as cluster files do, rounded up so that they suffice.
std::string host_text(std::int64_t bytes) { return std::to_string((bytes + 999'999'999) / 1'000'000'000) + "GB"; }

/// Explains that devices have room but hosts do not. Names the configuration that needs the least of them, and the
/// memory that would hold it.
Error hosts_lack(const Job& job, const EngineModel& engine, const search::Outcome& found, const Leanest& lean, Watch& watch) {
  std::string hint = "cluster.host.memory: " + host_text(lean.host.bytes) + " would fit";
  for (const std::string& change : by_fewer_pins(job, engine, memory_room_bytes(job), watch)) hint += "; or " + change;
  if (const std::string more = by_more_nodes(job, engine, watch); !more.empty()) hint += "; or " + more;
  return Error{ErrorKind::infeasible, "memory",
               "none of " + base::count(found.space_size) +
                   " configurations fits into the hosts; the one with the smallest host memory, " +
                   label_of(job, engine, lean.configuration) + ", puts " + size_text(lean.host.bytes) +
                   " into the host memory of a node",
               "at most " + size_text(lean.host.memory) + " per node (cluster.host.memory)", hint};
}

/// Explains why nothing fits on one node group of equal devices.
Error no_room(const Job& job, const EngineModel& engine, const search::Outcome& found, Watch& watch) {
  watch.stands({"memory", 0, 0, "looking for what would fit", 0, 0});
  if (found.space_size == 0) return nothing_legal(job, engine);
  const std::int64_t limit = memory_room_bytes(job), whole = job.cluster.usable_memory().count();
  if (job.search.allowed.contains(Dimension::offload) || job.search.forbidden.contains(Dimension::offload)) {
    const auto least = leanest(job, engine, job.search, watch, Lack::host);
    if (least && !least->host.fits()) return hosts_lack(job, engine, found, *least, watch);
  }
  const auto lean = leanest(job, engine, job.search, watch);
  std::vector<std::string> changes;
  if (lean && lean->peak_bytes <= whole)
    changes.push_back("search.memory_margin: 0 would fit (now " + base::percent(memory_margin_of(job).share) + " of " +
                      size_text(whole) + " is kept free for the error of the memory model)");
  for (std::string& change : by_fewer_pins(job, engine, limit, watch)) changes.push_back(std::move(change));
  if (auto relief = by_options_or_offload(job, engine, limit, watch); !relief.empty()) changes.push_back(relief);
  if (lean && job.cluster.memory_limit) changes.push_back(by_more_memory(job, lean->peak_bytes));
  if (auto more = by_more_nodes(job, engine, watch); !more.empty()) changes.push_back(more);
  if (auto shorter = by_shorter_sequence(job, engine, watch); !shorter.empty()) changes.push_back(shorter);
  if (lean && !job.cluster.memory_limit) changes.push_back(by_more_memory(job, lean->peak_bytes));
  std::string hint;
  for (const auto& change : changes) hint += (hint.empty() ? "" : "; or ") + change;
  std::string what = "none of " + base::count(found.space_size) + " configurations fits";
  if (lean)
    what +=
        "; the leanest, " + label_of(job, engine, lean->configuration) + ", needs " + size_text(lean->peak_bytes) + " a device";
  std::string expected = "at most " + size_text(limit) + " a device";
  if (const double margin = memory_margin_of(job).share; margin > 0)
    expected += " (" + size_text(whole) + " less " + base::percent(margin) + " for the error of the memory model)";
  return Error{ErrorKind::infeasible, "memory", what, expected, hint};
}

/// Explains why nothing fits on several node groups, or on devices of unequal speed.
Error no_room_on_groups(const Job& job, const search::SearchResult& found) {
  std::string room;
  for (std::size_t g = 0; g < job.cluster.groups.size(); ++g)
    room += (g > 0 ? ", " : "") + job.cluster.groups[g].device.name + " " +
            size_text(room_of(job.cluster.usable_memory(g).count(), memory_margin_of(job).share));
  std::int64_t tried = 0;
  for (const PhaseSummary& phase : found.phases) tried += count_of(phase.counters, SearchCounter::simulated);
  return Error{ErrorKind::infeasible, "memory",
               tried > 0 ? "none of " + base::count(static_cast<double>(tried)) + " plans tried fits"
                         : "no plan of stages, pipelines or replicas on these node groups can hold the model",
               "at most " + room + " a device",
               "more nodes, devices with more memory, a shorter sequence, or search.memory_margin: 0"};
}

}  // namespace

Error nothing_fits(const Question& q, const search::SearchResult& found) {
  // A search that was cut short, in any phase, has no knowledge of the plans that it did not look at.
  SearchEnd cut = q.watch.reason();
  if (!searched(cut) && !(q.equal ? found.flat().complete : found.complete())) cut = SearchEnd::node_limit;
  if (searched(cut))
    return Error{ErrorKind::limit, "search", std::string(to_string(cut)) + " before any plan that fits was simulated",
                 "a complete search",
                 "allow more time or a larger limit, or narrow the search with fix, allow, forbid and limits"};
  return q.equal ? no_room(q.job, *q.engine, found.flat(), q.watch) : no_room_on_groups(q.job, found);
}

}  // namespace espalier::planner
