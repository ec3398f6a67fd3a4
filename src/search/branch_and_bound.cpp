// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/invariant.h"
#include "base/parallel.h"
#include "search/budgets.h"
#include "search/expansion.h"
#include "search/floors.h"
#include "search/leaf_judge.h"

namespace espalier::search {
namespace {

// These sizes are fixed. They shape the order of work, so they must not depend on the number of threads.
constexpr std::size_t kLayerBatch = 256;    // layer nodes whose schedules are bounded together
constexpr std::size_t kScheduleBatch = 32;  // schedule nodes whose leaves are collected together
// Likely configurations of these that are simulated concurrently; the first ones usually make the rest unnecessary.
constexpr std::size_t kProbeGroup = 4;
constexpr std::size_t kKeptConfigurations = 4096;  // simulated candidates kept

using LayerNode = KnownBounds::LayerChoice;

class BranchAndBoundSearch {
 public:
  BranchAndBoundSearch(const Problem& problem, Evaluator& evaluator, const Options& options)
      : frame_(problem, options),
        evaluator_(evaluator),
        work_(static_cast<std::size_t>(std::max(1, options.threads))),
        expander_(frame_),
        judge_(frame_, evaluator, work_) {
    ESPALIER_CHECK(options.side_by_side > 0 && options.keep_within >= 0);
  }

  Outcome run() {
    const std::int64_t lowered_before = evaluator_.lowered();
    seed();
    std::vector<LayerNode> nodes = layer_nodes();
    const bool probes = !frame_.options.preference && !(carries() && frame_.out.best);
    layers_ = static_cast<std::int64_t>(nodes.size());
    std::size_t next = 0;
    if (stop()) unfinished_bound_ = 0;  // not every node was visited
    while (next < nodes.size() && frame_.out.complete && !frame_.beaten(Pruning::layer_bound, nodes[next].bound_ns)) {
      const std::size_t end = std::min(nodes.size(), next + kLayerBatch);
      std::vector<Leaf> schedules = schedule_nodes(nodes, next, end);
      if (stop()) break;
      if (next == 0 && probes) probe(schedules);
      search_schedules(schedules, static_cast<std::int64_t>(next), end < nodes.size() ? nodes[end].bound_ns : INT64_MAX);
      next = end;
    }
    finish(nodes, next);
    frame_.out.lowered = evaluator_.lowered() - lowered_before;
    return std::move(frame_.out);
  }

 private:
  /// Returns all choices of the layer group that may fit; those that may beat the incumbent come first, by bound.
  std::vector<LayerNode> layer_nodes() {
    if (frame_.options.carried != nullptr && !frame_.out.best && frame_.out.pruning.enabled_all()) probe(likely_of_record());
    std::vector<LayerNode> alive = frame_.options.known != nullptr && frame_.options.known->choices ? known_layers()
                                   : carries()                                                      ? carried_layers()
                                                                                                    : enumerated_layers();
    // The incumbent only improves, so nodes that exceed it now are never visited, in whatever order.
    const auto open = std::partition(alive.begin(), alive.end(),
                                     [&](const LayerNode& n) { return !frame_.beaten(Pruning::layer_bound, n.bound_ns); });
    std::sort(alive.begin(), open,
              [](const LayerNode& a, const LayerNode& b) { return before(a.bound_ns, a.choice, b.bound_ns, b.choice); });
    return alive;
  }

  /// Returns the choices that an earlier search of the problem left open, ranked anew.
  std::vector<LayerNode> known_layers() {
    std::vector<LayerNode> alive;
    for (const LayerNode& known : *frame_.options.known->choices) {
      const LayerNode node{known.choice, frame_.rank(known.choice, known.bound_ns), frame_.space.leaves(known.choice)};
      if (frame_.exceeds(node.bound_ns)) continue;
      alive.push_back(node);
      frame_.book.prepare(node.choice.schedule.stages);
    }
    return alive;
  }

  /// Returns whether a record covers enough of the space: everything that it does not list is slower than the
  /// incumbent.
  [[nodiscard]] bool carries() const {
    const Carried* carried = frame_.options.carried;
    return carried != nullptr && frame_.out.pruning.enabled_all() &&
           frame_.out_of_reach(carried->far_floor_ns(frame_.problem.training.global_batch));
  }

  /// Returns the schedule choices of lowest floor that the record lists. They are likely to give an incumbent when
  /// its fastest configurations no longer fit.
  std::vector<Leaf> likely_of_record() {
    std::vector<Leaf> all;
    for (const SearchRecord::Layer& layer : frame_.options.carried->record->layers) {
      if (layer.schedule_floors_ns.empty()) continue;
      frame_.book.prepare(layer.choice.schedule.stages);
      frame_.space.leaves(layer.choice);
      const std::vector<Space::ScheduleChoice>& choices = frame_.space.schedules(layer.choice);
      ESPALIER_CHECK(choices.size() == layer.schedule_floors_ns.size());
      for (std::size_t i = 0; i < choices.size(); ++i) {
        all.push_back({layer.choice, layer.schedule_floors_ns[i]});
        choices[i].take(all.back().configuration.schedule);
      }
    }
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kIncumbentProbes.value));
    std::partial_sort(all.begin(), end, all.end(), by_bound);
    all.erase(end, all.end());
    return all;
  }

  /// Returns the choices that an earlier search listed, without those that their floor rules out.
  std::vector<LayerNode> carried_layers() {
    const SearchRecord& record = *frame_.options.carried->record;
    floors_.carry();
    frame_.out.space_size = record.space_size;
    frame_.out.by_dimension = record.by_dimension;
    frame_.out.pruning.count(Pruning::layer_memory, record.too_large);
    frame_.out.pruning.count(Pruning::layer_bound, record.far_leaves);
    std::vector<LayerNode> nodes;
    for (std::size_t i = 0; i < record.layers.size(); ++i) {
      const SearchRecord::Layer& layer = record.layers[i];
      if (frame_.out_of_reach(frame_.options.carried->floor_ns(layer.choice, layer.floor_ns))) {
        frame_.out.pruning.count(Pruning::layer_bound, layer.leaves);
        floors_.drop(i);
        continue;
      }
      nodes.push_back({layer.choice, 0, frame_.space.leaves(layer.choice), static_cast<std::int64_t>(i)});
      ESPALIER_CHECK(nodes.back().leaves == layer.leaves);  // the record is of this space
    }
    return bounded_layers(std::move(nodes));
  }

  std::vector<LayerNode> enumerated_layers() {
    std::vector<LayerNode> nodes;
    frame_.space.layer_group([&](const Configuration& c) {
      if (frame_.interrupted()) return;
      if (frame_.options.preference && frame_.exceeds(frame_.rank(c, 0))) return;
      const double leaves = frame_.space.leaves(c);
      if (leaves == 0) return;
      nodes.push_back({c, 0, leaves});
      count_space(c, leaves);
    });
    return bounded_layers(std::move(nodes));
  }

  /// Returns the nodes that may fit, with their bounds.
  std::vector<LayerNode> bounded_layers(std::vector<LayerNode> nodes) {
    report("enumerating", 0, static_cast<std::int64_t>(nodes.size()), 0);
    std::set<std::int32_t> stages;
    for (const LayerNode& n : nodes) stages.insert(n.choice.schedule.stages);
    for (const std::int32_t p : stages) frame_.book.prepare(p);
    std::vector<char> fits(nodes.size(), 1);
    // After an interruption here, nodes keep the bound 0, and so does the reported bound of the space.
    base::parallel_for(nodes.size(), threads(), 64, [&](std::size_t i, int worker) {
      if (frame_.interrupted()) return;
      Workspace& w = work_[static_cast<std::size_t>(worker)];
      const Configuration& c = nodes[i].choice;
      price_layers(frame_.book, c, w);
      nodes[i].bound_ns = frame_.rank(c, layer_group_bound_ns(frame_.book, c, w));
      fits[i] = layer_group_least_bytes(frame_.book, c, w) <= frame_.book.memory_limit();
    });
    frame_.out.bounded += static_cast<std::int64_t>(nodes.size());
    std::vector<LayerNode> alive;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (fits[i] || !frame_.out.pruning.enabled(Pruning::layer_memory))
        alive.push_back(std::move(nodes[i]));
      else
        frame_.out.pruning.count(Pruning::layer_memory, nodes[i].leaves);
    }
    return alive;
  }

  void count_space(const Configuration& c, double leaves) {
    frame_.out.space_size += leaves;
    const auto add = [&](const char* dimension, std::int64_t value) { frame_.out.by_dimension[dimension][value] += leaves; };
    add("pp", c.schedule.stages);
    add("tp", c.strategy.tp);
    add("cp", c.strategy.cp);
    add("dp", c.strategy.dp);
    add("ep", c.strategy.ep);
    add("micro_batch", c.schedule.micro_batch);
  }

  [[nodiscard]] int threads() const { return static_cast<int>(work_.size()); }

  /// Sets a good early incumbent. Seeds are not counted here: the search visits them again as leaves.
  void seed() {
    std::vector<Configuration> seeds = frame_.options.seeds;
    if (const Carried* carried = frame_.options.carried)
      seeds.insert(seeds.begin(), carried->record->fastest.begin(), carried->record->fastest.end());
    for (const Configuration& c : seeds) {
      if (!frame_.space.contains(c)) continue;
      frame_.book.prepare(c.schedule.stages);
      Workspace& w = work_.front();
      price_layers(frame_.book, c, w);
      if (frame_.exceeds(frame_.rank(c, configuration_bound_ns(frame_.book, c, w)))) continue;
      const LeafVerdict v = judge_.verdict(c, 0);
      if (v.fits) frame_.improve({c, v.iteration_ns, v.peak_bytes});
    }
  }

  /// Returns the bounded schedule choices of some layer nodes, by bound. A node's leaves are removed here when all
  /// its schedules are beaten, and schedule by schedule otherwise.
  std::vector<Leaf> schedule_nodes(const std::vector<LayerNode>& nodes, std::size_t begin, std::size_t end) {
    std::vector<Expansion> results(end - begin);
    base::parallel_for(end - begin, threads(), 4, [&](std::size_t i, int worker) {
      if (!frame_.interrupted()) results[i] = expander_.schedules(nodes[begin + i], work_[static_cast<std::size_t>(worker)]);
    });
    for (std::size_t i = 0; i < results.size() && keeps_floors(); ++i) {
      if (!results[i].expanded) continue;
      const std::int64_t first = floors_.add(begin + i, results[i].bounds);
      for (Leaf& leaf : results[i].leaves) leaf.slot += first;
    }
    return collect(results);
  }

  std::vector<Leaf> collect(std::vector<Expansion>& results) {
    std::vector<Leaf> all;
    for (Expansion& r : results) {
      all.insert(all.end(), r.leaves.begin(), r.leaves.end());
      frame_.out.pruning.add(r.removed);
      frame_.out.bounded += r.bounded;
    }
    std::sort(all.begin(), all.end(), by_bound);
    return all;
  }

  /// Finds a good incumbent before the enumeration. The likely configurations of the most promising schedules are
  /// simulated by rising bound until the bounds exceed the best. These simulations are not counted.
  void probe(const std::vector<Leaf>& schedules) {
    const std::size_t n = std::min(kIncumbentProbes.value, schedules.size());
    std::vector<std::vector<Leaf>> found(n);
    base::parallel_for(n, threads(), 1, [&](std::size_t i, int worker) {
      if (!frame_.interrupted()) found[i] = expander_.likely(schedules[i].configuration, work_[static_cast<std::size_t>(worker)]);
    });
    std::vector<Leaf> all;
    for (const auto& leaves : found) all.insert(all.end(), leaves.begin(), leaves.end());
    std::sort(all.begin(), all.end(), by_bound);
    for (std::size_t i = 0; i < all.size() && !frame_.exceeds(all[i].bound_ns) && !frame_.interrupted(); i += kProbeGroup) {
      std::vector<LeafVerdict> verdicts(std::min(all.size() - i, kProbeGroup));
      base::parallel_for(verdicts.size(), threads(), 1,
                         [&](std::size_t k, int worker) { verdicts[k] = judge_.verdict(all[i + k].configuration, worker); });
      for (std::size_t k = 0; k < verdicts.size(); ++k)
        if (verdicts[k].fits) frame_.improve({all[i + k].configuration, verdicts[k].iteration_ns, verdicts[k].peak_bytes});
    }
  }

  /// Searches the schedules of one batch of layer choices. `later_ns` is the lower bound of all later batches.
  void search_schedules(const std::vector<Leaf>& schedules, std::int64_t layers_done, std::int64_t later_ns) {
    for (std::size_t next = 0; next < schedules.size() && frame_.out.complete; next += kScheduleBatch) {
      const std::size_t end = std::min(schedules.size(), next + kScheduleBatch);
      report("layer choices", layers_done, layers_, std::min(schedules[next].bound_ns, later_ns));
      std::vector<Expansion> results(end - next);
      base::parallel_for(end - next, threads(), 1, [&](std::size_t i, int worker) {
        if (!frame_.interrupted())
          results[i] = expander_.configurations(schedules[next + i], work_[static_cast<std::size_t>(worker)]);
      });
      for (std::size_t i = 0; i < results.size() && keeps_floors(); ++i)
        floors_.raise(schedules[next + i].slot, results[i].floor_ns);
      if (stop()) {  // some are not expanded
        unfinished_bound_ = std::min(unfinished_bound_, schedules[next].bound_ns);
        return;
      }
      const std::int64_t open = end < schedules.size() ? schedules[end].bound_ns : INT64_MAX;
      simulate(collect(results));
      if (!frame_.out.complete) unfinished_bound_ = std::min(unfinished_bound_, open);
    }
  }

  /// Simulates leaves in groups until their bounds exceed the incumbent.
  void simulate(const std::vector<Leaf>& leaves) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < leaves.size(); i = end) {  // a limit may cut a group short
      end = std::min(leaves.size(), i + frame_.options.side_by_side);
      if (frame_.options.node_limit > 0)
        end = std::min(
            end, i + static_cast<std::size_t>(std::max<std::int64_t>(1, frame_.options.node_limit - frame_.out.simulations)));
      if (frame_.out.pruning.enabled(Pruning::bound) && frame_.exceeds(leaves[i].bound_ns)) {
        frame_.out.pruning.count(Pruning::bound, static_cast<double>(leaves.size() - i));
        return;
      }
      if (stop()) {
        unfinished_bound_ = std::min(unfinished_bound_, leaves[i].bound_ns);
        return;
      }
      judge_.judge(leaves, i, end);
    }
  }

  bool stop() {
    if (frame_.interrupted()) {
      frame_.out.interrupted = true;
      frame_.out.complete = false;
    }
    if (frame_.options.node_limit > 0 && frame_.out.simulations >= frame_.options.node_limit) frame_.out.complete = false;
    return !frame_.out.complete;
  }

  void report(std::string_view unit, std::int64_t done, std::int64_t total, std::int64_t bound) const {
    if (!frame_.options.progress) return;
    const std::int64_t best = frame_.out.best ? frame_.out.best->iteration_ns : 0;
    frame_.options.progress({"uniform", done, total, unit, best, best > 0 ? std::min(best, bound) : bound});
  }

  [[nodiscard]] bool keeps_floors() const {
    return !frame_.options.preference && (frame_.options.keep_within > 0 || frame_.options.keep_record);
  }

  void hand_on(const std::vector<LayerNode>& nodes) {
    if (!keeps_floors()) return;
    if (frame_.options.keep_within > 0) frame_.out.known = floors_.known(frame_, nodes);
    const bool whole = frame_.out.complete && frame_.out.best && frame_.out.pruning.enabled_all();
    if (!frame_.options.keep_record || !whole) return;
    frame_.out.record = floors_.record(frame_, nodes, frame_.out.pruning.removed(Pruning::layer_memory));
  }

  void finish(const std::vector<LayerNode>& nodes, std::size_t next) {
    if (frame_.out.complete) {
      for (std::size_t i = next; i < nodes.size(); ++i) frame_.out.pruning.count(Pruning::layer_bound, nodes[i].leaves);
      if (frame_.out.best) frame_.out.lower_bound_ns = frame_.out.best->iteration_ns;
    } else {
      std::int64_t bound = unfinished_bound_;
      if (next < nodes.size()) bound = std::min(bound, nodes[next].bound_ns);
      if (frame_.out.best) bound = std::min(bound, frame_.out.best->iteration_ns);
      frame_.out.lower_bound_ns = bound == INT64_MAX ? 0 : bound;
    }
    ESPALIER_CHECK(!frame_.out.best || frame_.out.lower_bound_ns <= frame_.out.best->iteration_ns);
    ESPALIER_CHECK(static_cast<std::int64_t>(frame_.out.simulated.size()) == frame_.out.simulations);
    std::sort(frame_.out.simulated.begin(), frame_.out.simulated.end(), [](const Candidate& a, const Candidate& b) {
      return before(a.iteration_ns, a.configuration, b.iteration_ns, b.configuration);
    });
    if (frame_.out.simulated.size() > kKeptConfigurations) frame_.out.simulated.resize(kKeptConfigurations);
    hand_on(nodes);
  }

  SearchFrame frame_;
  Evaluator& evaluator_;
  std::vector<Workspace> work_;
  Expander expander_;
  LeafJudge judge_;
  std::int64_t layers_ = 0;  ///< choices of the layer group that may fit
  std::int64_t unfinished_bound_ = INT64_MAX;
  Floors floors_;
};

}  // namespace

Outcome branch_and_bound(const Problem& problem, Evaluator& evaluator, const Options& options) {
  return BranchAndBoundSearch(problem, evaluator, options).run();
}

}  // namespace espalier::search
