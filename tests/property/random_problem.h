// SPDX-License-Identifier: Apache-2.0
// Generates random search problems, small enough that every configuration of their space can be simulated. Each
// has a toy model, a toy cluster, at most 16 micro-batches, a random part of the space, and a memory limit that
// lets all, some or none fit. Offload limits hosts in the same way. Some have adapters, frozen parts and samples
// of unlike length.
//
// Every problem must vary a given pair of dimensions, so that a run over many problems covers every pair.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost/offload.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "planner/simulated_evaluator.h"
#include "random.h"
#include "random_parts.h"
#include "search/cost_book.h"
#include "search/search.h"
#include "toy_clusters.h"
#include "toy_models.h"

namespace espalier::property {

using search::Configuration;

struct RandomProblem {
  std::uint64_t seed = 0;
  Model model;
  Cluster cluster;
  Training training;
  const EngineModel* engine = nullptr;
  SearchSpace space;
  double size = 0;  ///< configurations
  [[nodiscard]] search::Problem view() const { return {&model, &cluster, training, engine, space}; }
};

using Pair = std::pair<Dimension, Dimension>;

/// Returns all pairs of dimensions: 210 of 21.
inline std::vector<Pair> dimension_pairs() {
  std::vector<Pair> out;
  for (int a = 0; a < kDimensions; ++a)
    for (int b = a + 1; b < kDimensions; ++b) out.emplace_back(static_cast<Dimension>(a), static_cast<Dimension>(b));
  return out;
}

/// Values that each dimension takes.
using Values = std::array<std::set<std::int64_t>, kDimensions>;
inline void note_values(const Configuration& c, Values& values) {
  for (int d = 0; d < kDimensions; ++d)
    values[static_cast<std::size_t>(d)].insert(get(static_cast<Dimension>(d), c.strategy, c.schedule));
}

/// Returns a random configuration below `base`, with random choices of each later group.
inline Configuration random_below(const search::Space& space, Configuration c, Random& random, bool& found) {
  using Group = void (search::Space::*)(const Configuration&, const search::Space::Visit&) const;
  for (const Group group : {&search::Space::schedule_group, &search::Space::shard_group, &search::Space::overlap_group,
                            &search::Space::recompute_group}) {
    std::vector<Configuration> choices;
    (space.*group)(c, [&](const Configuration& x) { choices.push_back(x); });
    if (choices.empty()) {
      found = false;
      return c;
    }
    c = random.of(choices);
  }
  found = true;
  return c;
}

class ProblemMaker {
 public:
  ProblemMaker(std::uint64_t seed, Pair vary) : random_(seed), parts_(seed + kParts), vary_(vary) { problem_.seed = seed; }

  /// Returns false if a seed leaves nothing legal or cannot vary the pair.
  bool make(RandomProblem& out) {
    choose_job();
    if (!shrink(random_.of<double>({200, 1000, 3000, 5000}))) return false;
    choose_memory_limit();
    choose_host_memory();
    out = problem_;
    return true;
  }

 private:
  static constexpr std::uint64_t kParts = 1'000'003;  // another stream, so that problems without parts do not change

  void choose_job() {
    const auto wants = [&](Dimension d) { return vary_.first == d || vary_.second == d; };
    const bool experts = wants(Dimension::ep) || wants(Dimension::etp) || random_.one_in(3);
    ToyModel toy = toy_model(random_, experts);
    problem_.model = std::move(toy.model);
    problem_.training.sequence = toy.sequence;
    const std::int64_t devices = random_.of<std::int64_t>({1, 2, 4, 6, 8, 8, 12, 16, 16, 24, 32, 48, 64});
    problem_.cluster = toy_cluster(random_, devices);
    problem_.training.precision = random_.one_in(6) ? Precision::fp32 : Precision::bf16;
    problem_.training.optimizer = random_.one_in(8) ? Optimizer::sgd : Optimizer::adam;
    if (random_.one_in(4)) problem_.training.moe_imbalance = 1.0 + static_cast<double>(random_.below(100)) / 100.0;
    choose_batch(devices);
    problem_.engine = find_engine("generic");
    if (random_.one_in(4)) problem_.engine = &random_.of(engine_catalogue());
    if (wants(Dimension::overlap_tp) || random_.one_in(3)) problem_.space.allow(Dimension::overlap_tp, {0, 1});
    if (wants(Dimension::offload) || random_.one_in(5)) allow_offload();
    if (parts_.one_in(2)) {  // also schedules that a job must allow explicitly
      std::vector<std::int64_t>& kinds = problem_.space.allowed[Dimension::schedule];
      for (const ScheduleKind kind : kScheduleKinds) kinds.push_back(static_cast<std::int64_t>(kind));
    }
    if (parts_.one_in(4)) choose_trained_parts(parts_, *problem_.engine, problem_.model, problem_.training);
    if (parts_.one_in(5)) choose_lengths(parts_, *problem_.engine, problem_.training);
  }

  /// Allows offload with ample hosts, until choose_host_memory, on links from slow to fast.
  void allow_offload() {
    std::vector<std::int64_t>& values = problem_.space.allowed[Dimension::offload] = {0};
    values.push_back(1 + static_cast<std::int64_t>(random_.below(5)));
    if (const auto more = 1 + static_cast<std::int64_t>(random_.below(5)); more > values.back()) values.push_back(more);
    Host& host = problem_.cluster.groups.front().host;
    host.memory = GiB(1024 * 1024);
    host.memory_bandwidth = BytesPerSecond(magnitude(random_, 8, 12));
    host.link = BytesPerSecond(magnitude(random_, 7, 11));
  }

  /// Chooses a global batch. Up to 16 it bounds the micro-batches by itself; larger ones do so through dp
  /// or the micro-batch.
  void choose_batch(std::int64_t devices) {
    const std::int64_t batch = random_.of<std::int64_t>({1, 2, 4, 6, 8, 12, 16, 16, 16, 24, 32, 48, 64, 96});
    problem_.training.global_batch = batch;
    if (batch <= 16) return;
    std::vector<std::int64_t> least;
    const std::int64_t fewest = (batch + 15) / 16;
    const bool by_dp = devices >= fewest && random_.one_in(2);
    for (std::int64_t v = fewest; v <= (by_dp ? devices : batch); ++v)
      if ((by_dp ? devices : batch) % v == 0) least.push_back(v);
    problem_.space.allowed[by_dp ? Dimension::dp : Dimension::micro_batch] = least;
  }

  /// Counts the legal configurations of a space, and shows whether the pair varies in a sample of it.
  struct Census {
    double size = 0;
    Values sample;
  };
  Census census(const SearchSpace& part) {
    search::Space space(problem_.model, problem_.cluster, problem_.training, *problem_.engine, part);
    Census out;
    std::vector<Configuration> nodes;
    space.layer_group([&](const Configuration& c) {
      const double leaves = space.leaves(c);
      if (leaves > 0) {
        out.size += leaves;
        nodes.push_back(c);
      }
    });
    for (int i = 0; i < 40 && !nodes.empty(); ++i) {
      bool found = false;
      const Configuration c = random_below(space, random_.of(nodes), random_, found);
      if (found) note_values(c, out.sample);
    }
    return out;
  }
  [[nodiscard]] bool varies(const Census& c) const {
    const auto several = [&](Dimension d) { return c.sample[static_cast<std::size_t>(d)].size() > 1; };
    return several(vary_.first) && several(vary_.second);
  }

  /// Restricts random dimensions until at most `most` configurations are left; keeps the pair varying.
  bool shrink(double most) {
    Census now = census(problem_.space);
    if (now.size == 0 || !varies(now)) return false;
    for (int tries = 0; now.size > most; ++tries) {
      if (tries > 200) return false;
      const SearchSpace part = restricted(now);
      Census then = census(part);
      if (then.size == 0 || !varies(then)) continue;
      problem_.space = part;
      now = std::move(then);
    }
    problem_.size = now.size;
    return true;
  }

  /// Restricts one dimension to some of the values that it takes.
  SearchSpace restricted(const Census& now) {
    SearchSpace part = problem_.space;
    const auto d = static_cast<Dimension>(random_.below(kDimensions));
    const auto& taken = now.sample[static_cast<std::size_t>(d)];
    std::vector<std::int64_t> values(taken.begin(), taken.end());
    if (values.size() < 2) return part;
    const bool counts = enum_size(d) == 0;
    random_.shuffle(values);
    const auto half = values.begin() + static_cast<std::ptrdiff_t>((values.size() + 1) / 2);
    switch (random_.below(3)) {
      case 0: part.allowed[d].assign(values.begin(), half); break;
      case 1: part.forbidden[d].assign(half, values.end()); break;
      default:
        if (counts)
          part.limit(d, *half);
        else
          part.forbidden[d].push_back(values.front());
    }
    return part;
  }

  /// Sets no memory limit, exactly the need of some configuration, a byte less, or less than any configuration needs.
  void choose_memory_limit() {
    const std::int64_t mood = random_.below(10);
    if (mood < 3) return;
    const search::Space space(problem_.model, problem_.cluster, problem_.training, *problem_.engine, problem_.space);
    std::vector<Configuration> all;
    space.for_each([&](const Configuration& c) { all.push_back(c); });
    if (mood == 3) {
      problem_.cluster.memory_limit = Bytes(1000);
      return;
    }
    const std::int64_t needed = peak_of(random_.of(all));
    problem_.cluster.memory_limit = Bytes(needed - (mood > 6 ? 1 : 0));
  }

  /// Sets the memory of a host to the need of some configuration under offload, or a byte less.
  void choose_host_memory() {
    NodeGroup& group = problem_.cluster.groups.front();
    if (!problem_.space.allowed.contains(Dimension::offload) || parts_.one_in(3)) return;
    const search::Space space(problem_.model, problem_.cluster, problem_.training, *problem_.engine, problem_.space);
    std::vector<Configuration> all;
    space.for_each([&](const Configuration& c) {
      if (c.strategy.offload != Offload::none) all.push_back(c);
    });
    if (all.empty()) return;
    std::int64_t most = 0;
    for (const cost::StageCost& stage : priced(parts_.of(all)).costs.stages) most = std::max(most, stage.memory.host);
    const std::int64_t least = most * group.devices_per_node - parts_.below(2);
    if (least > 0) group.host.memory = Bytes(least);  // a host of no bytes would count as unknown
  }

  [[nodiscard]] search::Workspace priced(const Configuration& c) const {
    const search::Problem problem = problem_.view();
    search::CostBook book(problem);
    search::Workspace w;
    book.prepare(c.schedule.stages);
    cost::layer_costs(book.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
    assemble(book, c, w);
    return w;
  }

  std::int64_t peak_of(const Configuration& c) const {
    const search::Workspace w = priced(c);
    return planner::SimulatedEvaluator(1).peak_bytes(w.structure, w.costs, 0);
  }

  Random random_, parts_;
  Pair vary_;
  RandomProblem problem_;
};

/// Returns problem number `index` of the run, which varies pair index mod 210, from the first seed that gives one.
inline RandomProblem random_problem(int index) {
  static const std::vector<Pair> pairs = dimension_pairs();
  RandomProblem problem;
  for (std::uint64_t attempt = 0;; ++attempt)
    if (ProblemMaker(static_cast<std::uint64_t>(index) * 1000 + attempt, pairs[static_cast<std::size_t>(index) % pairs.size()])
            .make(problem))
      return problem;
}

inline std::string describe(const RandomProblem& p) {
  std::string out = "seed " + std::to_string(p.seed) + ": " + p.model.family + " of " + std::to_string(p.model.layers.size()) +
                    " layers on " + std::to_string(p.cluster.groups[0].nodes) + " x " +
                    std::to_string(p.cluster.groups[0].devices_per_node) + ", batch " + std::to_string(p.training.global_batch) +
                    ", engine " + p.engine->name + ", " + std::to_string(static_cast<std::int64_t>(p.size)) +
                    " configurations, limit " +
                    (p.cluster.memory_limit ? std::to_string(p.cluster.memory_limit->count()) : std::string("none"));
  const auto list = [&](const char* what, const auto& maps) {
    for (const auto& [dimension, values] : maps) {
      out += std::string("\n  ") + what + " " + std::string(to_string(dimension)) + ":";
      for (const std::int64_t v : values) out += " " + std::to_string(v);
    }
  };
  if (p.training.adapter.any()) out += "\n  adapter of rank " + std::to_string(p.training.adapter.rank);
  for (const std::string& part : p.training.freeze) out += "\n  freeze " + part;
  for (const LengthShare& share : p.training.lengths.histogram)
    out += "\n  length " + std::to_string(share.tokens) + " " + std::string(to_string(p.training.lengths.packing));
  if (p.cluster.groups[0].host.known()) out += "\n  host " + std::to_string(p.cluster.groups[0].host.memory.count());
  list("allow", p.space.allowed);
  list("forbid", p.space.forbidden);
  for (const auto& [dimension, most] : p.space.limits)
    out += "\n  limit " + std::string(to_string(dimension)) + " " + std::to_string(most);
  return out;
}

inline std::string text_of(const search::Candidate& c) {
  return canonical_text(c.configuration.strategy, c.configuration.schedule) + " in " + std::to_string(c.iteration_ns) + " ns, " +
         std::to_string(c.peak_bytes) + " bytes";
}
inline std::string text_of(const std::optional<search::Candidate>& c) { return c ? text_of(*c) : "infeasible"; }

}  // namespace espalier::property
