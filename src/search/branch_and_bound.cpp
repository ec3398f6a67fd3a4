// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/parallel.h"
#include "search/cost_book.h"
#include "search/search.h"

namespace espalier::search {
namespace {

// Fixed sizes: they shape the order of work, so they must not depend on the number of threads.
constexpr std::size_t kFirstBatch = 8, kBatch = 64, kGroup = 16, kKept = 4096;

struct LayerNode {
  Configuration choice;
  std::int64_t bound_ns = 0;
  double leaves = 0;
};

struct Leaf {
  Configuration configuration;
  std::int64_t bound_ns = 0;
};

bool before(std::int64_t bound_a, const Configuration& a, std::int64_t bound_b, const Configuration& b) {
  return bound_a != bound_b ? bound_a < bound_b : canonical_less(a, b);
}

/// What expanding one layer node brought.
struct Expansion {
  std::vector<Leaf> leaves;
  PruningState removed;
  std::int64_t bounded = 0;
};

class Search {
 public:
  Search(const Problem& problem, Evaluator& evaluator, const Options& options)
      : options_(options), evaluator_(evaluator),
        space_(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space), book_(problem),
        work_(static_cast<std::size_t>(std::max(1, options.threads))) {
    out_.pruning = options.pruning;
  }

  Outcome run() {
    std::vector<LayerNode> nodes = layer_nodes();
    seed();
    std::size_t next = 0;
    for (std::size_t size = kFirstBatch; next < nodes.size() && out_.complete; size = kBatch) {
      const std::size_t end = std::min(nodes.size(), next + size);
      if (out_.pruning.enabled(Pruning::layer_bound) && exceeds(nodes[next].bound_ns)) break;
      simulate(expand(nodes, next, end));
      next = end;
      report(nodes.size() - next);
    }
    finish(nodes, next);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool exceeds(std::int64_t bound) const { return out_.best && bound > out_.best->iteration_ns; }

  /// All choices of the layer group that may fit, by bound.
  std::vector<LayerNode> layer_nodes() {
    std::vector<LayerNode> nodes;
    std::set<std::int32_t> stages;
    space_.layer_group([&](const Configuration& c) {
      const double leaves = space_.leaves(c);
      if (leaves == 0) return;
      nodes.push_back({c, 0, leaves});
      stages.insert(c.schedule.stages);
      count_space(c, leaves);
    });
    for (const std::int32_t p : stages) book_.prepare(p);
    std::vector<char> fits(nodes.size(), 1);
    base::parallel_for(nodes.size(), threads(), 64, [&](std::size_t i, int worker) {
      Workspace& w = work_[static_cast<std::size_t>(worker)];
      const Configuration& c = nodes[i].choice;
      cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
      nodes[i].bound_ns = layer_group_bound_ns(book_, c, w);
      fits[i] = layer_group_least_bytes(book_, c, w) <= book_.memory_limit();
    });
    out_.bounded += static_cast<std::int64_t>(nodes.size());
    std::vector<LayerNode> alive;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (fits[i] || !out_.pruning.enabled(Pruning::layer_memory)) alive.push_back(nodes[i]);
      else out_.pruning.count(Pruning::layer_memory, nodes[i].leaves);
    }
    std::sort(alive.begin(), alive.end(),
              [](const LayerNode& a, const LayerNode& b) { return before(a.bound_ns, a.choice, b.bound_ns, b.choice); });
    return alive;
  }

  void count_space(const Configuration& c, double leaves) {
    out_.space_size += leaves;
    const auto add = [&](const char* dimension, std::int64_t value) { out_.by_dimension[dimension][value] += leaves; };
    add("pp", c.schedule.stages), add("tp", c.strategy.tp), add("cp", c.strategy.cp), add("dp", c.strategy.dp);
    add("ep", c.strategy.ep), add("micro_batch", c.schedule.micro_batch);
  }

  [[nodiscard]] int threads() const { return static_cast<int>(work_.size()); }

  /// A good incumbent early. Seeds are counted nowhere: the search meets them again as leaves.
  void seed() {
    for (const Configuration& c : options_.seeds) {
      if (!space_.contains(c)) continue;
      book_.prepare(c.schedule.stages);
      const Verdict v = verdict(c, 0);
      if (v.fits) improve({c, v.iteration_ns, v.peak_bytes});
    }
  }

  std::vector<Leaf> expand(const std::vector<LayerNode>& nodes, std::size_t begin, std::size_t end) {
    std::vector<Expansion> results(end - begin);
    base::parallel_for(end - begin, threads(), 1, [&](std::size_t i, int worker) {
      results[i] = expand_node(nodes[begin + i], work_[static_cast<std::size_t>(worker)]);
    });
    std::vector<Leaf> leaves;
    for (Expansion& r : results) {
      leaves.insert(leaves.end(), r.leaves.begin(), r.leaves.end());
      out_.pruning.add(r.removed);
      out_.bounded += r.bounded;
    }
    std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) {
      return before(a.bound_ns, a.configuration, b.bound_ns, b.configuration);
    });
    return leaves;
  }

  Expansion expand_node(const LayerNode& node, Workspace& w) const {
    Expansion e;
    if (out_.pruning.enabled(Pruning::layer_bound) && exceeds(node.bound_ns)) {
      e.removed.count(Pruning::layer_bound, node.leaves);
      return e;
    }
    const Configuration& c = node.choice;
    cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
    space_.schedule_group(c, [&](const Configuration& b) {
      ++e.bounded;
      if (out_.pruning.enabled(Pruning::schedule_bound) && exceeds(schedule_group_bound_ns(book_, b, w))) {
        e.removed.count(Pruning::schedule_bound, leaves_below(b));
        return;
      }
      space_.shard_group(b, [&](const Configuration& s) { expand_shard(s, w, e); });
    });
    return e;
  }

  /// Configurations below a schedule choice.
  [[nodiscard]] double leaves_below(const Configuration& b) const {
    double recomputes = 0, others = 0;
    space_.recompute_group(b, [&](const Configuration&) { ++recomputes; });
    space_.shard_group(b, [&](const Configuration& s) { space_.overlap_group(s, [&](const Configuration&) { ++others; }); });
    return recomputes * others;
  }

  void expand_shard(const Configuration& s, Workspace& w, Expansion& e) const {
    std::vector<Configuration> recomputes;
    space_.recompute_group(s, [&](const Configuration& r) { recomputes.push_back(r); });
    const std::vector<char> fits = fitting(recomputes, w);
    const auto feasible = static_cast<double>(std::count(fits.begin(), fits.end(), 1));
    space_.overlap_group(s, [&](const Configuration& o) {
      e.removed.count(Pruning::memory, static_cast<double>(recomputes.size()) - feasible);
      bool ladder_broken = false, nothing_cheaper = false;
      for (std::size_t i = 0; i < recomputes.size(); ++i) {
        if (!fits[i]) continue;
        const Recompute& r = recomputes[i].strategy.recompute;
        if ((ladder_broken && r.kind == RecomputeKind::full) || nothing_cheaper) {
          e.removed.count(Pruning::recompute_ladder, 1);
          continue;
        }
        Leaf leaf{o, 0};
        leaf.configuration.strategy.recompute = r;
        assemble(book_, leaf.configuration, w);
        leaf.bound_ns = cost::iteration_lower_bound_ns(w.timing, w.lowering);
        ++e.bounded;
        if (exceeds(leaf.bound_ns)) {
          const bool ladder = out_.pruning.enabled(Pruning::recompute_ladder);
          if (r.kind == RecomputeKind::full) ladder_broken = ladder;
          if (r.kind == RecomputeKind::none) nothing_cheaper = ladder;
          if (out_.pruning.enabled(Pruning::bound)) {
            e.removed.count(Pruning::bound, 1);
            continue;
          }
        }
        e.leaves.push_back(leaf);
      }
    });
  }

  /// Which of the recomputation options may fit. More recomputed layers never need more memory, so the full ones are a suffix.
  std::vector<char> fitting(const std::vector<Configuration>& options, Workspace& w) const {
    std::vector<char> fits(options.size(), 1);
    if (!out_.pruning.enabled(Pruning::memory)) return fits;
    const auto may_fit = [&](std::size_t i) {
      assemble(book_, options[i], w);
      return peak_bound_bytes(w) <= book_.memory_limit();
    };
    std::size_t full = 0;
    for (; full < options.size() && options[full].strategy.recompute.kind != RecomputeKind::full; ++full) fits[full] = may_fit(full);
    std::size_t low = full, high = options.size();  // first full option that fits lies in [low, high]
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (may_fit(middle)) high = middle;
      else low = middle + 1;
    }
    std::fill(fits.begin() + static_cast<std::ptrdiff_t>(full), fits.begin() + static_cast<std::ptrdiff_t>(low), 0);
    return fits;
  }

  /// Simulates leaves in groups until their bounds exceed the incumbent.
  void simulate(const std::vector<Leaf>& leaves) {
    for (std::size_t i = 0; i < leaves.size(); i += kGroup) {
      const std::size_t end = std::min(leaves.size(), i + kGroup);
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
    if (options_.interrupted && options_.interrupted()) out_.interrupted = true, out_.complete = false;
    if (options_.node_limit > 0 && out_.simulations >= options_.node_limit) out_.complete = false;
    return !out_.complete;
  }

  struct Verdict {
    bool judged = false, fits = false;
    std::int64_t iteration_ns = 0, peak_bytes = 0;
  };

  Verdict verdict(const Configuration& c, int worker) {
    Workspace& w = work_[static_cast<std::size_t>(worker)];
    cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
    assemble(book_, c, w);
    Verdict v;
    v.judged = true;
    v.peak_bytes = evaluator_.peak_bytes(w.lowering, w.timing, worker);
    v.fits = v.peak_bytes <= book_.memory_limit();
    if (v.fits) v.iteration_ns = evaluator_.iteration_ns(w.lowering, w.timing, worker);
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
    const bool better = !out_.best || c.iteration_ns < out_.best->iteration_ns ||
                        (c.iteration_ns == out_.best->iteration_ns && canonical_less(c.configuration, out_.best->configuration));
    if (better) out_.best = c;
  }

  void report(std::size_t open) const {
    if (!options_.progress) return;
    std::string line = std::to_string(out_.bounded) + " bounded, " + std::to_string(out_.simulations) + " simulated, " +
                       std::to_string(open) + " open";
    if (out_.best) line += ", best " + std::to_string(static_cast<double>(out_.best->iteration_ns) * 1e-9) + " s";
    options_.progress(line);
  }

  void finish(const std::vector<LayerNode>& nodes, std::size_t next) {
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
  std::int64_t unfinished_bound_ = INT64_MAX;
};

}  // namespace

Outcome branch_and_bound(const Problem& problem, Evaluator& evaluator, const Options& options) {
  return Search(problem, evaluator, options).run();
}

}  // namespace espalier::search
