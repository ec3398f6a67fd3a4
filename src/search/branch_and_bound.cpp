// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/parallel.h"
#include "search/cost_book.h"
#include "search/search.h"

namespace espalier::search {
namespace {

// Fixed sizes: they shape the order of work, so they must not depend on the number of threads.
constexpr std::size_t kLayerBatch = 256;    // layer nodes whose schedules are bounded together
constexpr std::size_t kScheduleBatch = 32;  // schedule nodes whose leaves are collected together
constexpr std::size_t kProbes = 64;         // schedule nodes probed for a first incumbent
constexpr std::size_t kProbeGroup =
    4;  // of their likely configurations simulated side by side; the first ones make the rest needless
constexpr std::size_t kKept = 4096;  // simulated candidates remembered

using LayerNode = KnownBounds::LayerChoice;

struct Leaf {
  Configuration configuration;
  std::int64_t bound_ns = 0;
};

bool before(std::int64_t bound_a, const Configuration& a, std::int64_t bound_b, const Configuration& b) {
  return bound_a != bound_b ? bound_a < bound_b : canonical_less(a, b);
}

bool by_bound(const Leaf& a, const Leaf& b) { return before(a.bound_ns, a.configuration, b.bound_ns, b.configuration); }

/// What expanding one node brought.
struct Expansion {
  std::vector<Leaf> leaves;
  std::vector<std::pair<Configuration, std::int64_t>> known;  ///< bounds to keep
  bool expanded = false;                                      ///< all its schedule choices were bounded
  std::int64_t floor_ns = INT64_MAX;                          ///< of a schedule choice: nothing below it that fits takes less
  PruningState removed;
  std::int64_t bounded = 0;
};

class Search {
 public:
  Search(const Problem& problem, Evaluator& evaluator, const Options& options)
      : options_(options),
        evaluator_(evaluator),
        space_(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space, problem.partitions),
        book_(problem),
        work_(static_cast<std::size_t>(std::max(1, options.threads))) {
    out_.pruning = options.pruning;
    best_rank_ = options.preference ? INT64_MAX - 1 : options.slowest_ns;
  }

  Outcome run() {
    const std::int64_t lowered_before = evaluator_.lowered();
    seed();
    std::vector<LayerNode> nodes = layer_nodes();
    layers_ = static_cast<std::int64_t>(nodes.size());
    std::size_t next = 0;
    if (stop()) unfinished_bound_ = 0;  // not every node was met
    while (next < nodes.size() && out_.complete && !beaten(Pruning::layer_bound, nodes[next].bound_ns)) {
      const std::size_t end = std::min(nodes.size(), next + kLayerBatch);
      std::vector<Leaf> schedules = schedule_nodes(nodes, next, end);
      if (stop()) break;
      if (next == 0 && !options_.preference) probe(schedules);
      search_schedules(schedules, static_cast<std::int64_t>(next));
      next = end;
    }
    finish(nodes, next);
    out_.lowered = evaluator_.lowered() - lowered_before;
    return std::move(out_);
  }

 private:
  /// What is minimised: time, or the rank of the preference. "Bounds" of nodes and leaves below are ranks in that case.
  [[nodiscard]] std::int64_t rank(const Configuration& c, std::int64_t ns) const {
    return options_.preference ? options_.preference->rank(c, ns) : ns;
  }
  [[nodiscard]] bool exceeds(std::int64_t bound) const { return bound > best_rank_; }
  [[nodiscard]] bool beaten(Pruning rule, std::int64_t bound) const { return out_.pruning.enabled(rule) && exceeds(bound); }

  /// All choices of the layer group that may fit; those that may beat the incumbent come first, by bound.
  std::vector<LayerNode> layer_nodes() {
    std::vector<LayerNode> alive = options_.known != nullptr && options_.known->choices ? known_layers() : enumerated_layers();
    // The incumbent only gets better: what exceeds it now is never looked at, in whatever order.
    const auto open =
        std::partition(alive.begin(), alive.end(), [&](const LayerNode& n) { return !beaten(Pruning::layer_bound, n.bound_ns); });
    std::sort(alive.begin(), open,
              [](const LayerNode& a, const LayerNode& b) { return before(a.bound_ns, a.choice, b.bound_ns, b.choice); });
    return alive;
  }

  /// The choices that an earlier search of the problem left open, ranked anew.
  std::vector<LayerNode> known_layers() {
    std::vector<LayerNode> alive;
    for (const LayerNode& known : *options_.known->choices) {
      const LayerNode node{known.choice, rank(known.choice, known.bound_ns), space_.leaves(known.choice)};
      if (exceeds(node.bound_ns)) continue;
      alive.push_back(node);
      book_.prepare(node.choice.schedule.stages);
    }
    return alive;
  }

  std::vector<LayerNode> enumerated_layers() {
    std::vector<LayerNode> nodes;
    std::set<std::int32_t> stages;
    space_.layer_group([&](const Configuration& c) {
      if (interrupted()) return;
      if (options_.preference && exceeds(rank(c, 0))) return;
      const double leaves = space_.leaves(c);
      if (leaves == 0) return;
      nodes.push_back({c, 0, leaves});
      stages.insert(c.schedule.stages);
      count_space(c, leaves);
    });
    report("enumerating", 0, static_cast<std::int64_t>(nodes.size()), 0);
    for (const std::int32_t p : stages) book_.prepare(p);
    std::vector<char> fits(nodes.size(), 1);
    // Stopped here, nodes keep the bound 0, and so does what is said of the space.
    base::parallel_for(nodes.size(), threads(), 64, [&](std::size_t i, int worker) {
      if (interrupted()) return;
      Workspace& w = work_[static_cast<std::size_t>(worker)];
      const Configuration& c = nodes[i].choice;
      price_layers(book_, c, w);
      nodes[i].bound_ns = rank(c, layer_group_bound_ns(book_, c, w));
      fits[i] = layer_group_least_bytes(book_, c, w) <= book_.memory_limit();
    });
    out_.bounded += static_cast<std::int64_t>(nodes.size());
    std::vector<LayerNode> alive;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (fits[i] || !out_.pruning.enabled(Pruning::layer_memory))
        alive.push_back(nodes[i]);
      else
        out_.pruning.count(Pruning::layer_memory, nodes[i].leaves);
    }
    return alive;
  }

  void count_space(const Configuration& c, double leaves) {
    out_.space_size += leaves;
    const auto add = [&](const char* dimension, std::int64_t value) { out_.by_dimension[dimension][value] += leaves; };
    add("pp", c.schedule.stages), add("tp", c.strategy.tp), add("cp", c.strategy.cp), add("dp", c.strategy.dp);
    add("ep", c.strategy.ep), add("micro_batch", c.schedule.micro_batch);
  }

  [[nodiscard]] bool interrupted() const { return options_.interrupted && options_.interrupted(); }
  [[nodiscard]] int threads() const { return static_cast<int>(work_.size()); }

  /// A good incumbent early. Seeds are counted nowhere: the search meets them again as leaves.
  void seed() {
    for (const Configuration& c : options_.seeds) {
      if (!space_.contains(c)) continue;
      book_.prepare(c.schedule.stages);
      Workspace& w = work_.front();
      price_layers(book_, c, w);
      assemble(book_, c, w);
      if (exceeds(rank(c, cost::iteration_lower_bound_ns(w.costs, w.structure)))) continue;
      const Verdict v = verdict(c, 0);
      if (v.fits) improve({c, v.iteration_ns, v.peak_bytes});
    }
  }

  /// Bounded schedule choices of some layer nodes, by bound. A node's leaves are removed here when all its schedules are beaten, and
  /// schedule by schedule otherwise.
  std::vector<Leaf> schedule_nodes(const std::vector<LayerNode>& nodes, std::size_t begin, std::size_t end) {
    std::vector<Expansion> results(end - begin);
    base::parallel_for(end - begin, threads(), 4, [&](std::size_t i, int worker) {
      if (!interrupted()) results[i] = bound_schedules(nodes[begin + i], work_[static_cast<std::size_t>(worker)]);
    });
    for (std::size_t i = 0; i < results.size() && options_.keep_within > 0; ++i)
      if (results[i].expanded) out_.known.nodes.push_back({nodes[begin + i].choice, std::move(results[i].known)});
    return collect(results);
  }

  /// Every schedule choice of a layer choice with its bound in nanoseconds: known, or computed.
  template <class Visit>
  void each_schedule(const Configuration& c, Workspace& w, Expansion& e, const Visit& visit) const {
    if (const KnownBounds::Node* known = options_.known != nullptr ? options_.known->find(c) : nullptr) {
      for (const auto& [b, ns] : known->schedules) visit(b, ns);
      return;
    }
    price_layers(book_, c, w);
    Configuration b = c;
    for (const Space::ScheduleChoice& choice : space_.schedules(c)) {
      b.schedule.kind = choice.kind;
      b.schedule.virtual_stages = choice.virtual_stages;
      ++e.bounded;
      visit(b, schedule_group_bound_ns(book_, b, w));
    }
  }

  /// Every ZeRO stage and shard group below a schedule choice, with the overlaps it may have.
  template <class Visit>
  void each_shard(const Configuration& b, const Visit& visit) const {
    Configuration s = b;
    for (const Space::ShardChoice& choice : space_.shards(b)) {
      s.strategy.zero = choice.zero;
      s.strategy.shard = choice.shard;
      visit(s, choice.overlaps);
    }
  }

  [[nodiscard]] bool worth_keeping(std::int64_t ns) const {
    if (options_.keep_within <= 0) return false;
    return static_cast<double>(ns) <= static_cast<double>(best_rank_) * (1.0 + options_.keep_within);
  }

  Expansion bound_schedules(const LayerNode& node, Workspace& w) const {
    Expansion e;
    if (beaten(Pruning::layer_bound, node.bound_ns)) {
      e.removed.count(Pruning::layer_bound, node.leaves);
      return e;
    }
    double kept = 0;
    each_schedule(node.choice, w, e, [&](const Configuration& b, std::int64_t ns) {
      if (worth_keeping(ns)) e.known.emplace_back(b, ns);
      const std::int64_t bound = rank(b, ns);
      if (beaten(Pruning::schedule_bound, bound)) return;
      e.leaves.push_back({b, bound});
      kept += leaves_below(b);
    });
    e.expanded = true;
    e.removed.count(Pruning::schedule_bound, node.leaves - kept);
    return e;
  }

  std::vector<Leaf> collect(std::vector<Expansion>& results) {
    std::vector<Leaf> all;
    for (Expansion& r : results) {
      all.insert(all.end(), r.leaves.begin(), r.leaves.end());
      out_.pruning.add(r.removed);
      out_.bounded += r.bounded;
    }
    std::sort(all.begin(), all.end(), by_bound);
    return all;
  }

  /// A good incumbent before anything is enumerated: of the most promising schedules the likely configurations, simulated in the order of
  /// their bounds until those exceed the best. Counted nowhere.
  void probe(const std::vector<Leaf>& schedules) {
    const std::size_t n = std::min(kProbes, schedules.size());
    std::vector<std::vector<Leaf>> found(n);
    base::parallel_for(n, threads(), 1, [&](std::size_t i, int worker) {
      if (!interrupted()) found[i] = likely(schedules[i].configuration, work_[static_cast<std::size_t>(worker)]);
    });
    std::vector<Leaf> all;
    for (const auto& leaves : found) all.insert(all.end(), leaves.begin(), leaves.end());
    std::sort(all.begin(), all.end(), by_bound);
    for (std::size_t i = 0; i < all.size() && !exceeds(all[i].bound_ns) && !interrupted(); i += kProbeGroup) {
      std::vector<Verdict> verdicts(std::min(all.size() - i, kProbeGroup));
      base::parallel_for(verdicts.size(), threads(), 1,
                         [&](std::size_t k, int worker) { verdicts[k] = verdict(all[i + k].configuration, worker); });
      for (std::size_t k = 0; k < verdicts.size(); ++k)
        if (verdicts[k].fits) improve({all[i + k].configuration, verdicts[k].iteration_ns, verdicts[k].peak_bytes});
    }
  }

  /// For ZeRO 0 (one replica), 1 and 3 over all replicas, everything overlapped: the least recomputation that may fit.
  std::vector<Leaf> likely(const Configuration& b, Workspace& w) const {
    std::vector<Leaf> out;
    const MemoryTable& table = w.tables.of(book_, space_, b, w);
    price_layers(book_, b, w);
    each_shard(b, [&](const Configuration& s, const std::vector<Overlap>& overlaps) {
      if (s.strategy.zero == ZeroStage::gradients || (!shards_optimizer(s.strategy.zero) && s.strategy.data_ranks() > 1)) return;
      if (shards_optimizer(s.strategy.zero) && s.strategy.shard != s.strategy.data_ranks()) return;
      if (overlaps.empty()) return;
      const std::vector<char> fits = fitting_choices(table, s.strategy, w);
      const auto first = std::find(fits.begin(), fits.end(), 1);
      if (first == fits.end()) return;
      Leaf leaf{s, 0};
      take_overlap(overlaps.back(), leaf.configuration.strategy);  // it has every flag it may have
      leaf.configuration.strategy.recompute = table.choices[static_cast<std::size_t>(first - fits.begin())];
      assemble(book_, leaf.configuration, w);
      leaf.bound_ns = rank(leaf.configuration, cost::iteration_lower_bound_ns(w.costs, w.structure));
      out.push_back(std::move(leaf));
    });
    return out;
  }

  void search_schedules(const std::vector<Leaf>& schedules, std::int64_t layers_done) {
    for (std::size_t next = 0; next < schedules.size() && out_.complete; next += kScheduleBatch) {
      const std::size_t end = std::min(schedules.size(), next + kScheduleBatch);
      report("layer choices", layers_done, layers_, schedules[next].bound_ns);
      std::vector<Expansion> results(end - next);
      base::parallel_for(end - next, threads(), 1, [&](std::size_t i, int worker) {
        if (!interrupted()) results[i] = expand_schedule(schedules[next + i], work_[static_cast<std::size_t>(worker)]);
      });
      for (std::size_t i = 0; i < results.size() && options_.keep_within > 0; ++i)
        floors_.emplace_back(schedules[next + i].configuration, results[i].floor_ns);
      if (stop()) {  // some are not expanded
        unfinished_bound_ = std::min(unfinished_bound_, schedules[next].bound_ns);
        return;
      }
      const std::int64_t open = end < schedules.size() ? schedules[end].bound_ns : INT64_MAX;
      simulate(collect(results));
      if (!out_.complete) unfinished_bound_ = std::min(unfinished_bound_, open);
    }
  }

  Expansion expand_schedule(const Leaf& node, Workspace& w) const {
    Expansion e;
    const Configuration& b = node.configuration;
    if (beaten(Pruning::schedule_bound, node.bound_ns)) {
      e.removed.count(Pruning::schedule_bound, leaves_below(b));
      e.floor_ns = options_.preference ? 0 : node.bound_ns;
      return e;
    }
    const MemoryTable& table = w.tables.of(book_, space_, b, w);
    const bool bounded = out_.pruning.enabled(Pruning::memory);
    const std::vector<char> best_case = bounded ? table.best_case : std::vector<char>(table.choices.size(), 1);
    if (std::find(best_case.begin(), best_case.end(), 1) == best_case.end()) {
      e.removed.count(Pruning::memory, leaves_below(b));
      return e;
    }
    price_layers(book_, b, w);
    const auto bound = [&](const Configuration& c) { return schedule_group_bound_ns(book_, c, w); };
    if (out_.pruning.enabled(Pruning::schedule_bound) && all_slower(b, table, best_case, bound, e)) {
      e.removed.count(Pruning::schedule_bound, leaves_below(b));
      return e;
    }
    each_shard(b, [&](const Configuration& s, const std::vector<Overlap>& overlaps) { expand_shard(s, overlaps, table, w, e); });
    return e;
  }

  /// Configurations below a schedule choice.
  [[nodiscard]] double leaves_below(const Configuration& b) const { return space_.leaves_of_schedule(b); }

  /// Which recomputation choices may fit under the sharding of `s`; all of them without the rule.
  [[nodiscard]] std::vector<char> fitting_choices(const MemoryTable& t, const Strategy& s, const Workspace& w) const {
    if (!out_.pruning.enabled(Pruning::memory)) return std::vector<char>(t.choices.size(), 1);
    return fitting(book_, t, s, w);
  }

  /// Whether everything below a node is slower than the incumbent: its bound with each recomputation that may be the cheapest, which is
  /// none where it fits, else selective or the fewest full layers.
  template <class Bound>
  bool all_slower(Configuration c, const MemoryTable& t, const std::vector<char>& fits, const Bound& bound, Expansion& e) const {
    if (best_rank_ == INT64_MAX) return false;
    bool full_seen = false;
    std::int64_t least = INT64_MAX;
    for (std::size_t i = 0; i < t.choices.size(); ++i) {
      const bool full = t.choices[i].kind == RecomputeKind::full;
      if (!fits[i] || (full && full_seen)) continue;
      c.strategy.recompute = t.choices[i];
      ++e.bounded;
      const std::int64_t ns = bound(c);
      if (!exceeds(rank(c, ns))) return false;
      least = std::min(least, ns);
      full_seen = full_seen || full;
      if (t.choices[i].kind == RecomputeKind::none) break;
    }
    e.floor_ns = std::min(e.floor_ns, least);
    return true;
  }

  void expand_shard(const Configuration& s, const std::vector<Overlap>& overlaps, const MemoryTable& t, Workspace& w,
                    Expansion& e) const {
    const std::vector<char> fits = fitting_choices(t, s.strategy, w);
    const auto feasible = static_cast<double>(std::count(fits.begin(), fits.end(), 1));
    const auto each = static_cast<double>(overlaps.size());
    e.removed.count(Pruning::memory, each * (static_cast<double>(fits.size()) - feasible));
    if (feasible == 0) return;
    const auto bound = [&](const Configuration& c) { return shard_group_bound_ns(book_, c, w); };
    if (out_.pruning.enabled(Pruning::shard_bound) && all_slower(s, t, fits, bound, e)) {
      e.removed.count(Pruning::shard_bound, each * feasible);
      return;
    }
    Configuration o = s;
    for (const Overlap& overlap : overlaps) {
      take_overlap(overlap, o.strategy);
      expand_overlap(o, t, fits, w, e);
    }
  }

  /// The recomputation ladder of one choice of everything else.
  void expand_overlap(const Configuration& o, const MemoryTable& t, const std::vector<char>& fits, Workspace& w,
                      Expansion& e) const {
    const bool ladder = out_.pruning.enabled(Pruning::recompute_ladder);
    bool ladder_broken = false, nothing_cheaper = false;
    for (std::size_t i = 0; i < t.choices.size(); ++i) {
      if (!fits[i]) continue;
      const RecomputeKind kind = t.choices[i].kind;
      if ((ladder_broken && kind == RecomputeKind::full) || nothing_cheaper) {
        e.removed.count(Pruning::recompute_ladder, 1);
        continue;
      }
      Leaf leaf{o, 0};
      leaf.configuration.strategy.recompute = t.choices[i];
      assemble(book_, leaf.configuration, w);
      const std::int64_t ns = cost::iteration_lower_bound_ns(w.costs, w.structure);
      e.floor_ns = std::min(e.floor_ns, ns);
      leaf.bound_ns = rank(leaf.configuration, ns);
      ++e.bounded;
      if (exceeds(leaf.bound_ns)) {
        if (kind == RecomputeKind::full) ladder_broken = ladder;
        if (kind == RecomputeKind::none) nothing_cheaper = ladder;
        if (out_.pruning.enabled(Pruning::bound)) {
          e.removed.count(Pruning::bound, 1);
          continue;
        }
      }
      e.leaves.push_back(leaf);
    }
  }

  /// Simulates leaves in groups until their bounds exceed the incumbent.
  void simulate(const std::vector<Leaf>& leaves) {
    for (std::size_t i = 0; i < leaves.size(); i += options_.side_by_side) {
      std::size_t end = std::min(leaves.size(), i + options_.side_by_side);
      if (options_.node_limit > 0)
        end = std::min(end, i + static_cast<std::size_t>(std::max<std::int64_t>(1, options_.node_limit - out_.simulations)));
      if (out_.pruning.enabled(Pruning::bound) && exceeds(leaves[i].bound_ns)) {
        out_.pruning.count(Pruning::bound, static_cast<double>(leaves.size() - i));
        return;
      }
      if (stop()) {
        unfinished_bound_ = std::min(unfinished_bound_, leaves[i].bound_ns);
        return;
      }
      judge(leaves, i, end);
    }
  }

  bool stop() {
    if (interrupted()) out_.interrupted = true, out_.complete = false;
    if (options_.node_limit > 0 && out_.simulations >= options_.node_limit) out_.complete = false;
    return !out_.complete;
  }

  struct Verdict {
    bool judged = false, fits = false;
    std::int64_t iteration_ns = 0, peak_bytes = 0;
  };

  Verdict verdict(const Configuration& c, int worker) {
    Workspace& w = work_[static_cast<std::size_t>(worker)];
    price_layers(book_, c, w);
    assemble(book_, c, w);
    Verdict v;
    v.judged = true;
    v.peak_bytes = evaluator_.peak_bytes(w.structure, w.costs, worker);
    v.fits = v.peak_bytes <= book_.memory_limit();
    if (v.fits) v.iteration_ns = evaluator_.iteration_ns(w.structure, w.costs, worker);
    return v;
  }

  /// Simulates leaves [begin, end) side by side, then updates the incumbent in order.
  void judge(const std::vector<Leaf>& leaves, std::size_t begin, std::size_t end) {
    std::vector<Verdict> verdicts(end - begin);
    base::parallel_for(end - begin, threads(), 1, [&](std::size_t i, int worker) {
      const Leaf& leaf = leaves[begin + i];
      if (out_.pruning.enabled(Pruning::bound) && exceeds(leaf.bound_ns)) return;
      verdicts[i] = verdict(leaf.configuration, worker);
    });
    for (std::size_t i = begin; i < end; ++i) {
      const Verdict& v = verdicts[i - begin];
      if (!v.judged) {
        out_.pruning.count(Pruning::bound, 1);
      } else if (!v.fits) {
        out_.pruning.count(Pruning::memory, 1);
      } else {
        ++out_.simulations;
        const Candidate found{leaves[i].configuration, v.iteration_ns, v.peak_bytes};
        out_.simulated.push_back(found);
        improve(found);
      }
    }
  }

  void improve(const Candidate& c) {
    const std::int64_t found = rank(c.configuration, c.iteration_ns);
    if (found > best_rank_) return;
    if (found == best_rank_ && out_.best && !canonical_less(c.configuration, out_.best->configuration)) return;
    out_.best = c;
    best_rank_ = found;
  }

  void report(std::string_view unit, std::int64_t done, std::int64_t total, std::int64_t bound) const {
    if (!options_.progress) return;
    const std::int64_t best = out_.best ? out_.best->iteration_ns : 0;
    options_.progress({"uniform", done, total, unit, best, best > 0 ? std::min(best, bound) : bound});
  }

  /// What was learned below a schedule choice replaces its own bound: most of them need not be expanded again.
  void raise_known_bounds() {
    out_.known.sort();
    const auto before_text = [](const auto& a, const auto& b) { return canonical_less(a.first, b.first); };
    std::sort(floors_.begin(), floors_.end(), before_text);
    for (KnownBounds::Node& node : out_.known.nodes)
      for (auto& schedule : node.schedules) {
        const auto at = std::lower_bound(floors_.begin(), floors_.end(), schedule, before_text);
        if (at != floors_.end() && at->first == schedule.first) schedule.second = std::max(schedule.second, at->second);
      }
  }

  /// What a search that allows (1 + keep_within) times the answer has to look at.
  void keep_layers(const std::vector<LayerNode>& nodes) {
    if (options_.keep_within <= 0 || options_.preference || !out_.complete || !out_.best) return;
    out_.known.choices.emplace();
    for (const LayerNode& n : nodes)
      if (worth_keeping(n.bound_ns)) out_.known.choices->push_back(n);
  }

  void finish(const std::vector<LayerNode>& nodes, std::size_t next) {
    raise_known_bounds();
    keep_layers(nodes);
    if (out_.complete) {
      for (std::size_t i = next; i < nodes.size(); ++i) out_.pruning.count(Pruning::layer_bound, nodes[i].leaves);
      if (out_.best) out_.lower_bound_ns = out_.best->iteration_ns;
    } else {
      std::int64_t bound = unfinished_bound_;
      if (next < nodes.size()) bound = std::min(bound, nodes[next].bound_ns);
      if (out_.best) bound = std::min(bound, out_.best->iteration_ns);
      out_.lower_bound_ns = bound == INT64_MAX ? 0 : bound;
    }
    std::sort(out_.simulated.begin(), out_.simulated.end(), [](const Candidate& a, const Candidate& b) {
      return before(a.iteration_ns, a.configuration, b.iteration_ns, b.configuration);
    });
    if (out_.simulated.size() > kKept) out_.simulated.resize(kKept);
  }

  const Options& options_;
  Evaluator& evaluator_;
  Space space_;
  CostBook book_;
  std::vector<Workspace> work_;
  Outcome out_;
  std::int64_t layers_ = 0;             ///< choices of the layer group that may fit
  std::int64_t best_rank_ = INT64_MAX;  ///< of out_.best; without one, what an answer must not exceed
  std::int64_t unfinished_bound_ = INT64_MAX;
  std::vector<std::pair<Configuration, std::int64_t>>
      floors_;  ///< of schedule choices that were expanded, with Options::keep_within
};

}  // namespace

Outcome branch_and_bound(const Problem& problem, Evaluator& evaluator, const Options& options) {
  return Search(problem, evaluator, options).run();
}

}  // namespace espalier::search
