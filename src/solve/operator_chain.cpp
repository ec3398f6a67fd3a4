// SPDX-License-Identifier: Apache-2.0
// Builds the chain of a block without its long edges: collapsed nodes, a first plan, and the bounds that prune
// states.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/infinity.h"
#include "base/invariant.h"
#include "solve/operator_tables.h"

namespace espalier::solve {
namespace {

using base::kInfinity;

std::vector<std::int32_t> distinct(std::vector<std::int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::int32_t position(const std::vector<std::int32_t>& sorted, std::int32_t id) {
  return static_cast<std::int32_t>(std::lower_bound(sorted.begin(), sorted.end(), id) - sorted.begin());
}

/// Keeps options that fewer than `best` others with the same layouts dominate, ordered by layouts, then by index.
OperatorNode collapse(const std::vector<OperatorOption>& options, std::int32_t best, bool capped) {
  std::vector<std::int32_t> order(options.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::int32_t i) {
    const OperatorOption& o = options[static_cast<std::size_t>(i)];
    return std::tuple(o.in, o.side, o.out, o.time, o.memory, o.transient, i);
  };
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
  OperatorNode node;
  std::size_t group = 0;
  for (const std::int32_t i : order) {
    const OperatorOption& o = options[static_cast<std::size_t>(i)];
    if (!node.options.empty()) {
      const OperatorOption& previous = node.options.back();
      if (std::tuple(previous.in, previous.side, previous.out) != std::tuple(o.in, o.side, o.out)) group = node.options.size();
    }
    const auto dominators = std::count_if(
        node.options.begin() + static_cast<std::ptrdiff_t>(group), node.options.end(), [&](const OperatorOption& other) {
          return dominates(other.time, other.memory, other.transient, o.time, o.memory, o.transient, capped);
        });
    if (dominators >= best) continue;
    node.options.push_back(o);
    node.original.push_back(i);
  }
  std::vector<std::int32_t> ins, outs;
  for (const OperatorOption& o : node.options) {
    ins.push_back(o.in);
    outs.push_back(o.out);
  }
  node.ins = distinct(ins);
  node.outs = distinct(outs);
  for (const OperatorOption& o : node.options) {
    node.in_at.push_back(position(node.ins, o.in));
    node.out_at.push_back(position(node.outs, o.out));
  }
  return node;
}

}  // namespace

/// Holds a layout between two nodes with the cheapest way to it.
struct OperatorChain::Source {
  double cost = kInfinity;
  std::int32_t layout = 0;  ///< index
  std::int32_t option = -1;
};

OperatorChain::OperatorChain(const OperatorProblem& problem, const OperatorRequest& request)
    : problem_(&problem), budget_(request.budget), stop_(request.stop) {
  ESPALIER_CHECK(problem.nodes.size() >= 2 && problem.costs != nullptr);
  const bool capped = request.capacity < kNoCapacity;
  for (const auto& options : problem.nodes) nodes_.push_back(collapse(options, request.best, capped));
  links_.assign(nodes_.size() - 1, -1);
  incident_.resize(nodes_.size());
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    const OperatorEdge& edge = problem.edges[e];
    ESPALIER_CHECK(edge.from >= 0 && edge.from < edge.to && edge.to <= last());
    incident_[static_cast<std::size_t>(edge.from)].push_back(static_cast<std::int32_t>(e));
    incident_[static_cast<std::size_t>(edge.to)].push_back(static_cast<std::int32_t>(e));
    if (edge.is_long()) {
      long_edges_.push_back(static_cast<std::int32_t>(e));
    } else {
      std::int32_t& link = links_[static_cast<std::size_t>(edge.from)];
      ESPALIER_CHECK(link < 0);
      link = static_cast<std::int32_t>(e);
    }
  }
  for (const std::int32_t link : links_) ESPALIER_CHECK(link >= 0);
  const OperatorNode& first = node(0);
  first_entering_.assign(first.outs.size(), -1);
  for (std::size_t p = first.options.size(); p-- > 0;)
    first_entering_[static_cast<std::size_t>(first.out_at[p])] = static_cast<std::int32_t>(p);
  for (const OperatorNode& node : nodes_) {
    std::int64_t memory = kNoCapacity, transient = kNoCapacity;
    for (const OperatorOption& o : node.options) {
      memory = std::min(memory, o.memory);
      transient = std::min(transient, o.transient);
    }
    least_memory_.push_back(memory);
    least_transient_ = std::max(least_transient_, transient);
  }
}

std::int64_t OperatorChain::states() const {
  std::int64_t sum = 0;
  for (const OperatorNode& node : nodes_) sum += static_cast<std::int64_t>(node.options.size());
  return sum;
}

std::int64_t OperatorChain::least_footprint() const {
  std::int64_t sum = least_transient_;
  for (const std::int64_t memory : least_memory_) {
    if (memory >= kNoCapacity) return kNoCapacity + 1;  // a node without options
    sum += memory;
  }
  return sum;
}

std::int64_t OperatorChain::least_time() const {
  std::int64_t sum = 0;
  for (const OperatorNode& node : nodes_) {
    std::int64_t least = kNoCapacity;
    for (const OperatorOption& o : node.options) least = std::min(least, o.time);
    sum += least;
  }
  return sum;
}

std::vector<double> OperatorChain::own_costs(std::int32_t i, double lambda) const {
  std::vector<double> own;
  own.reserve(node(i).options.size());
  for (const OperatorOption& o : node(i).options)
    own.push_back(static_cast<double>(o.time) + lambda * static_cast<double>(o.memory));
  return own;
}

std::vector<std::int32_t> OperatorChain::beam(double lambda, std::size_t width) const {
  std::vector<std::vector<Source>> sources;  // by node, cheapest first
  // [node][input layout] → index into the sources of the node before.
  std::vector<std::vector<std::int32_t>> came_from;
  for (std::int32_t i = 0; i <= last(); ++i) {
    const OperatorNode& n = node(i);
    std::vector<double> own = own_costs(i, lambda);
    came_from.emplace_back();
    // The leaving layout decides the entering one.
    if (i == 1 && problem_->closed) came_from.back().assign(n.ins.size(), 0);
    if (i > (problem_->closed ? 1 : 0)) {
      const OperatorNode& previous = node(i - 1);
      std::vector<double> reach(n.ins.size(), kInfinity);
      came_from.back().assign(n.ins.size(), 0);
      const auto& from = sources.back();
      for (std::size_t in = 0; in < n.ins.size(); ++in)
        for (std::size_t s = 0; s < from.size() && from[s].cost < reach[in]; ++s) {
          const double total =
              from[s].cost +
              static_cast<double>(cost(link(i - 1), previous.outs[static_cast<std::size_t>(from[s].layout)], n.ins[in]));
          if (total < reach[in]) {
            reach[in] = total;
            came_from.back()[in] = static_cast<std::int32_t>(s);
          }
        }
      for (std::size_t p = 0; p < own.size(); ++p) own[p] += reach[static_cast<std::size_t>(n.in_at[p])];
    }
    std::vector<Source> best(n.outs.size());
    for (std::size_t p = 0; p < own.size(); ++p) {
      Source& s = best[static_cast<std::size_t>(n.out_at[p])];
      if (own[p] < s.cost) s = {own[p], n.out_at[p], static_cast<std::int32_t>(p)};
    }
    std::sort(best.begin(), best.end(),
              [](const Source& a, const Source& b) { return a.cost != b.cost ? a.cost < b.cost : a.layout < b.layout; });
    // All entering layouts cost nothing: none may be left out.
    if (i > 0 && best.size() > width) best.resize(width);
    sources.push_back(std::move(best));
  }
  std::vector<std::int32_t> plan(nodes_.size());
  std::size_t s = 0;
  for (std::int32_t i = last(); i >= 0; --i) {
    if (sources[static_cast<std::size_t>(i)].empty()) return {};
    const std::int32_t option = sources[static_cast<std::size_t>(i)][s].option;
    plan[static_cast<std::size_t>(i)] = option;
    if (i > 0)
      s = static_cast<std::size_t>(
          came_from[static_cast<std::size_t>(i)][static_cast<std::size_t>(node(i).in_at[static_cast<std::size_t>(option)])]);
  }
  if (problem_->closed) {
    plan.front() = entering(node(last()).options[static_cast<std::size_t>(plan.back())].out);
    if (plan.front() < 0) return {};
  }
  return plan;
}

double OperatorChain::local_cost(const std::vector<std::int32_t>& plan, std::int32_t i, double lambda) const {
  const auto option = [&](std::int32_t j) -> const OperatorOption& {
    return node(j).options[static_cast<std::size_t>(plan[static_cast<std::size_t>(j)])];
  };
  const auto around = [&](std::int32_t j) {
    double sum = static_cast<double>(option(j).time) + lambda * static_cast<double>(option(j).memory);
    for (const std::int32_t e : incident_[static_cast<std::size_t>(j)]) {
      const OperatorEdge& edge = problem_->edges[static_cast<std::size_t>(e)];
      sum += static_cast<double>(cost(e, option(edge.from).out, edge.is_long() ? option(edge.to).side : option(edge.to).in));
    }
    return sum;
  };
  if (!problem_->closed || (i != 0 && i != last())) return around(i);
  // An edge between the two is counted twice: harmless for a comparison of plans.
  return around(0) + around(last());
}

bool OperatorChain::fits_with(const std::vector<std::int32_t>& plan, std::int64_t capacity) const {
  std::int64_t memory = 0, transient = 0;
  for (std::int32_t i = 0; i <= last(); ++i) {
    const OperatorOption& o = node(i).options[static_cast<std::size_t>(plan[static_cast<std::size_t>(i)])];
    memory += o.memory;
    transient = std::max(transient, o.transient);
  }
  return memory + transient <= capacity;
}

void OperatorChain::descend(std::vector<std::int32_t>& plan, double lambda, std::int64_t capacity, int sweeps) const {
  bool better = true;
  for (int sweep = 0; sweep < sweeps && better; ++sweep) {
    better = false;
    for (std::int32_t i = problem_->closed ? 1 : 0; i <= last(); ++i) better |= improve(plan, i, lambda, capacity);
  }
}

bool OperatorChain::improve(std::vector<std::int32_t>& plan, std::int32_t i, double lambda, std::int64_t capacity) const {
  const bool joined = problem_->closed && i == last();
  const auto at = static_cast<std::size_t>(i);
  const std::int32_t before = plan[at], entered = plan.front();
  std::int32_t best = before, best_entered = entered;
  double least = local_cost(plan, i, lambda);
  for (std::size_t p = 0; p < nodes_[at].options.size(); ++p) {
    plan[at] = static_cast<std::int32_t>(p);
    if (joined) {
      plan.front() = entering(nodes_[at].options[p].out);
      if (plan.front() < 0) continue;
    }
    if (capacity < kNoCapacity && !fits_with(plan, capacity)) continue;
    const double total = local_cost(plan, i, lambda);
    if (total < least) {
      least = total;
      best = plan[at];
      best_entered = plan.front();
    }
  }
  plan[at] = best;
  if (joined) plan.front() = best_entered;
  return best != before;
}

std::int32_t OperatorChain::entering(std::int32_t layout) const {
  const OperatorNode& n = node(0);
  const std::int32_t at = position(n.outs, layout);
  if (static_cast<std::size_t>(at) == n.outs.size() || n.outs[static_cast<std::size_t>(at)] != layout) return -1;
  return first_entering_[static_cast<std::size_t>(at)];
}

OperatorPlan OperatorChain::evaluate(const std::vector<std::int32_t>& plan) const {
  std::vector<std::int32_t> options(plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) options[i] = nodes_[i].original[static_cast<std::size_t>(plan[i])];
  return evaluate_operators(*problem_, options);
}

void OperatorChain::forward(Bounds& b, const std::vector<std::vector<double>>& own, const std::vector<double>& rest) const {
  for (std::int32_t i = 0; i <= last() && b.complete; ++i) {
    const OperatorNode& n = node(i);
    std::vector<double> value = own[static_cast<std::size_t>(i)];
    const double most = b.limit - rest[static_cast<std::size_t>(i)];
    if (i > 1) {  // the input costs nothing by itself; its edge is left out of F
      const OperatorNode& previous = node(i - 1);
      const auto& reached = b.before[static_cast<std::size_t>(i - 1)];
      std::vector<Source> sources(previous.outs.size());
      for (std::size_t p = 0; p < reached.size(); ++p) {
        Source& s = sources[static_cast<std::size_t>(previous.out_at[p])];
        if (reached[p] < s.cost) s = {reached[p], previous.out_at[p], 0};
      }
      std::sort(sources.begin(), sources.end(), [](const Source& x, const Source& y) { return x.cost < y.cost; });
      std::vector<double> least_own(n.ins.size(), kInfinity), reach(n.ins.size(), kInfinity);
      for (std::size_t p = 0; p < value.size(); ++p) {
        double& least = least_own[static_cast<std::size_t>(n.in_at[p])];
        least = std::min(least, value[p]);
      }
      for (std::size_t in = 0; in < n.ins.size(); ++in) {
        const double cut = most - least_own[in];  // beyond it no option with this input can be completed
        for (const Source& s : sources) {
          if (s.cost >= reach[in] || s.cost > cut) break;
          reach[in] = std::min(
              reach[in],
              s.cost + static_cast<double>(cost(link(i - 1), previous.outs[static_cast<std::size_t>(s.layout)], n.ins[in])));
        }
      }
      b.complete = within_budget();
      for (std::size_t p = 0; p < value.size(); ++p) value[p] += reach[static_cast<std::size_t>(n.in_at[p])];
    }
    for (double& v : value)
      if (v > most) {
        v = kInfinity;
        b.pruned = true;
      }
    b.before.push_back(std::move(value));
  }
}

void OperatorChain::backward(Bounds& b, const std::vector<std::vector<double>>& own) const {
  b.after.assign(nodes_.size(), {});
  for (std::int32_t i = last(); i >= 0 && b.complete; --i) {
    const OperatorNode& n = node(i);
    auto& before = b.before[static_cast<std::size_t>(i)];
    std::vector<double> value(n.options.size(), 0.0);
    if (i < last()) {
      const OperatorNode& next = node(i + 1);
      const auto& next_own = own[static_cast<std::size_t>(i + 1)];
      const auto& next_after = b.after[static_cast<std::size_t>(i + 1)];
      const auto& next_before = b.before[static_cast<std::size_t>(i + 1)];
      std::vector<Source> sources(next.ins.size());
      for (std::size_t p = 0; p < next_own.size(); ++p) {
        if (next_before[p] == kInfinity) continue;
        Source& s = sources[static_cast<std::size_t>(next.in_at[p])];
        const double total = next_own[p] + next_after[p];
        if (total < s.cost) s = {total, next.in_at[p], 0};
      }
      std::sort(sources.begin(), sources.end(), [](const Source& x, const Source& y) { return x.cost < y.cost; });
      std::vector<double> least(n.outs.size(), kInfinity), onward(n.outs.size(), kInfinity);
      for (std::size_t p = 0; p < before.size(); ++p) {
        double& l = least[static_cast<std::size_t>(n.out_at[p])];
        l = std::min(l, before[p]);
      }
      for (std::size_t out = 0; out < n.outs.size(); ++out) {
        const double cut = b.limit - least[out];
        for (const Source& s : sources) {
          if (s.cost >= onward[out] || s.cost > cut) break;
          onward[out] =
              std::min(onward[out],
                       s.cost + static_cast<double>(cost(link(i), n.outs[out], next.ins[static_cast<std::size_t>(s.layout)])));
        }
      }
      b.complete = within_budget();
      for (std::size_t p = 0; p < value.size(); ++p) value[p] = onward[static_cast<std::size_t>(n.out_at[p])];
    }
    for (std::size_t p = 0; p < value.size(); ++p) {
      if (before[p] == kInfinity) continue;
      if (before[p] + value[p] > b.limit) {
        before[p] = kInfinity;
        b.pruned = true;
      } else
        ++b.kept;
    }
    b.after[static_cast<std::size_t>(i)] = std::move(value);
  }
}

double OperatorChain::root(double lambda, std::int64_t capacity) const {
  double sum = -credit(lambda, capacity);
  for (std::int32_t i = 0; i <= last(); ++i) {
    const std::vector<double> own = own_costs(i, lambda);
    sum += own.empty() ? kInfinity : *std::min_element(own.begin(), own.end());
  }
  return sum;
}

Bounds OperatorChain::ways_before(double lambda, double time_limit, std::int64_t capacity,
                                  std::vector<std::vector<double>>& own) const {
  Bounds b;
  b.lambda = lambda;
  const double credit = this->credit(lambda, capacity);
  // λ·m is rounded, so half a nanosecond and a part in 10⁹ keep states exactly at the limit.
  b.limit = time_limit + credit;
  b.limit += 0.5 + 1e-9 * std::abs(b.limit);
  std::vector<double> rest(nodes_.size(), 0.0);
  for (std::int32_t i = 0; i <= last(); ++i) own.push_back(own_costs(i, lambda));
  for (std::size_t i = nodes_.size() - 1; i-- > 0;)
    rest[i] = rest[i + 1] + (own[i + 1].empty() ? kInfinity : *std::min_element(own[i + 1].begin(), own[i + 1].end()));
  b.least = root(lambda, capacity);
  forward(b, own, rest);
  if (!b.complete) return b;
  const auto& ends = b.before.back();
  // Dropped ends lie above the limit. If there are any, the least of all plans is at least the smaller of the two.
  b.least = std::max(b.least, std::min(b.limit, ends.empty() ? kInfinity : *std::min_element(ends.begin(), ends.end())) - credit);
  return b;
}

Bounds OperatorChain::bounds(double lambda, double time_limit, std::int64_t capacity) const {
  std::vector<std::vector<double>> own;
  Bounds b = ways_before(lambda, time_limit, capacity, own);
  if (b.complete) backward(b, own);
  return b;
}

double OperatorChain::dual(double lambda, std::int64_t capacity, double from, double to) const {
  constexpr double kStep = 0.01;  // share of the limit: passes below the answer are cheap
  double limit = std::max({from, root(lambda, capacity), static_cast<double>(least_time())});
  for (;; limit = std::min(to, limit * (1.0 + kStep) + 1.0)) {
    std::vector<std::vector<double>> own;
    const Bounds b = ways_before(lambda, limit, capacity, own);
    if (!b.complete || b.least < limit || limit >= to) return std::min(b.least, to);
  }
}

}  // namespace espalier::solve
