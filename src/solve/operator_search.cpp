// SPDX-License-Identifier: Apache-2.0
#include "solve/operator_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/infinity.h"
#include "base/invariant.h"
#include "solve/operator_tables.h"

namespace espalier::solve {
namespace {

using base::kInfinity;
constexpr std::size_t kBeam = 12;          ///< layouts kept between two nodes during the search for a first plan
constexpr int kSweeps = 6;                 ///< sweeps of coordinate descent
constexpr int kBisections = 8;             ///< bisections of λ
constexpr double kFirstWidening = 0.01;    ///< first time limit above the least conceivable one, as a share of it
constexpr double kWidening = 1.25;         ///< growth of the steps to the next limits
constexpr std::int64_t kMostKept = 20000;  ///< states beyond which a part is split by its transients

/// Holds a first plan, and the λ at which it was found.
struct Incumbent {
  std::optional<OperatorPlan> plan;
  double lambda = 0;
};

/// Searches a first plan by beam and coordinate descent on t + λ·m. Bisection changes λ until the footprint is just
/// within the capacity.
class IncumbentSearch {
 public:
  IncumbentSearch(const OperatorChain& chain, std::int64_t capacity) : chain_(chain), capacity_(capacity) {}

  Incumbent run() {
    Incumbent found;
    if (attempt(0.0)) return {best_, 0.0};
    double low = 0, high = first_lambda();
    int growths = 0;
    while (!attempt(high) && growths < 20) {
      low = high;
      high *= 8;
      ++growths;
    }
    for (int i = 0; i < kBisections; ++i) {
      const double middle = low > 0 ? std::sqrt(low * high) : high / 8;
      (attempt(middle) ? high : low) = middle;
      if (low > 0 && high / low < 1.05) break;
    }
    found.plan = best_;
    found.lambda = high;
    if (best_) found.lambda = better_lambda(high, static_cast<double>(best_->time));
    return found;
  }

 private:
  /// Returns whether the plan of λ fits; keeps it if it fits and is fast.
  bool attempt(double lambda) {
    std::vector<std::int32_t> plan = chain_.beam(lambda, kBeam);
    if (plan.empty()) return false;
    chain_.descend(plan, lambda, kNoCapacity, kSweeps);
    last_ = chain_.evaluate(plan);
    const bool fits = last_.footprint() <= capacity_;
    if (fits) {
      chain_.descend(plan, 0.0, capacity_, kSweeps);
      const OperatorPlan better = chain_.evaluate(plan);
      if (!best_ || better.time < best_->time) best_ = better;
    }
    return fits;
  }
  /// Moves λ up, or else down, as long as the bound rises; the bound is concave in λ.
  [[nodiscard]] double better_lambda(double lambda, double most) const {
    constexpr double kFactor = 2.5;
    double best = chain_.dual(lambda, capacity_, 0.0, most);
    for (const double factor : {kFactor, 1.0 / kFactor}) {
      const double before = best;
      for (int tries = 0; tries < 4 && best < most; ++tries) {
        const double other = chain_.dual(lambda * factor, capacity_, best, most);
        if (other <= best) break;
        best = other;
        lambda *= factor;
      }
      if (best > before) break;
    }
    return lambda;
  }
  [[nodiscard]] double first_lambda() const {
    return last_.memory > 0 ? 0.05 * static_cast<double>(last_.time) / static_cast<double>(last_.memory) : 1e-9;
  }

  const OperatorChain& chain_;
  std::int64_t capacity_;
  std::optional<OperatorPlan> best_;
  OperatorPlan last_;
};

bool before(const OperatorPlan& a, const OperatorPlan& b) {
  if (a.time != b.time) return a.time < b.time;
  if (a.footprint() != b.footprint()) return a.footprint() < b.footprint();
  return a.options < b.options;
}

/// Holds the options whose transient lies in a range, with the lower end counted as the least. The footprint is
/// additive when both ends are equal.
struct Restricted {
  OperatorProblem problem;
  std::vector<std::vector<std::int32_t>> original;
};
Restricted restrict_transient(const OperatorProblem& problem, std::int64_t low, std::int64_t high) {
  Restricted out;
  out.problem.edges = problem.edges;
  out.problem.costs = problem.costs;
  out.problem.closed = problem.closed;
  for (const auto& options : problem.nodes) {
    out.problem.nodes.emplace_back();
    out.original.emplace_back();
    for (std::size_t p = 0; p < options.size(); ++p) {
      if (options[p].transient > high) continue;
      out.problem.nodes.back().push_back(options[p]);
      out.problem.nodes.back().back().transient = std::max(low, options[p].transient);
      out.original.back().push_back(static_cast<std::int32_t>(p));
    }
  }
  return out;
}

/// Raises the limit from below, and branches on the transient where too many states are left.
class OperatorSearch {
 public:
  OperatorSearch(const OperatorProblem& problem, const OperatorRequest& request) : problem_(problem), request_(request) {}

  OperatorAnswer run() {
    const OperatorChain chain(problem_, request_);
    answer_.states = chain.states();
    if (chain.least_footprint() > request_.capacity) {
      answer_.certified = true;
      answer_.lower_bound = kNoCapacity;
      return answer_;
    }
    const Incumbent first = IncumbentSearch(chain, request_.capacity).run();
    answer_.lambda = first.lambda;
    answer_.steps = chain.steps();
    if (first.plan) answer_.plans = {*first.plan};
    list_transients(chain.least_transient());
    const double root = std::max(chain.root(first.lambda, request_.capacity), static_cast<double>(chain.least_time()));
    double open = kInfinity;  // least bound of the parts that the budget left open
    std::vector<Part> parts = {{0, transients_.size(), root, root}};
    while (!parts.empty()) {
      const Part part = parts.back();
      parts.pop_back();
      if (answer_.steps > request_.budget || (request_.stop && request_.stop())) {
        open = std::min(open, part.bound);
        continue;
      }
      open = std::min(open, solve(part, parts));
    }
    finish(open);
    return answer_;
  }

 private:
  /// Holds a range of transients, a bound that holds in it, and the initial time limit.
  struct Part {
    std::size_t begin, end;
    double bound, limit;
  };

  void list_transients(std::int64_t least) {
    transients_ = {least};
    if (request_.capacity < kNoCapacity) {
      for (const auto& options : problem_.nodes)
        for (const OperatorOption& o : options) transients_.push_back(std::max(least, o.transient));
      std::sort(transients_.begin(), transients_.end());
      transients_.erase(std::unique(transients_.begin(), transients_.end()), transients_.end());
    }
  }

  /// Returns the time below which nothing else has to be found; plans found are kept separately.
  [[nodiscard]] double enough() const {
    if (answer_.plans.size() < static_cast<std::size_t>(request_.best)) return kInfinity;
    return static_cast<double>(answer_.plans.back().time);
  }

  /// Returns infinity when the part is done (or split); otherwise a bound of its open rest.
  double solve(const Part& part, std::vector<Part>& parts) {
    const std::int64_t high = request_.capacity < kNoCapacity ? transients_[part.end - 1] : kNoCapacity;
    const Restricted restricted = restrict_transient(problem_, transients_[part.begin], high);
    OperatorRequest request = request_;
    request.budget = request_.budget - answer_.steps;
    const OperatorChain chain(restricted.problem, request);
    const std::int64_t spent = answer_.steps;
    if (chain.least_footprint() > request_.capacity) return kInfinity;
    double bound = std::max(part.bound, chain.root(answer_.lambda, request_.capacity));
    double step = std::max(1.0, kFirstWidening * bound);
    for (double limit = std::min(enough(), std::max(part.limit, bound + step));; step *= kWidening) {
      if (bound > enough()) return kInfinity;
      const Bounds bounds = chain.bounds(answer_.lambda, limit, request_.capacity);
      answer_.steps = spent + chain.steps();
      answer_.kept = bounds.kept;
      bound = std::max(bound, bounds.least);
      if (!bounds.complete) return bound;
      if (bounds.kept > kMostKept && part.end - part.begin > 1) {
        const std::size_t middle = (part.begin + part.end) / 2;
        parts.push_back({middle, part.end, bound, limit});
        parts.push_back({part.begin, middle, bound, limit});
        return kInfinity;
      }
      OperatorTables tables(chain, bounds, request);
      answer_.steps = spent + chain.steps();
      answer_.labels += tables.labels();
      if (!tables.complete()) return bound;
      const std::size_t below = take(tables.plans(), restricted, limit);
      if (below >= static_cast<std::size_t>(request_.best) || (!bounds.pruned && !tables.pruned()) || limit >= enough())
        return kInfinity;
      limit = std::min(enough(), limit + step);
    }
  }

  /// Keeps the best of old and new plans. Returns how many of the new ones are certainly among the part's best: those
  /// within the limit.
  std::size_t take(const std::vector<OperatorPlan>& plans, const Restricted& restricted, double limit) {
    std::size_t below = 0;
    for (OperatorPlan plan : plans) {
      below += static_cast<double>(plan.time) <= limit;
      for (std::size_t i = 0; i < plan.options.size(); ++i)
        plan.options[i] = restricted.original[i][static_cast<std::size_t>(plan.options[i])];
      answer_.plans.push_back(evaluate_operators(problem_, plan.options));
    }
    auto& all = answer_.plans;
    std::sort(all.begin(), all.end(), before);
    all.erase(std::unique(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.options == b.options; }),
              all.end());
    if (all.size() > static_cast<std::size_t>(request_.best)) all.resize(static_cast<std::size_t>(request_.best));
    return below;
  }

  void finish(double open) {
    const double found = answer_.plans.empty() ? kInfinity : static_cast<double>(answer_.plans.front().time);
    answer_.certified = open == kInfinity || (request_.best == 1 && open > found);
    const double bound = answer_.certified ? found : std::min(found, std::ceil(open - 0.5));
    answer_.lower_bound = bound == kInfinity ? kNoCapacity : static_cast<std::int64_t>(bound);
  }

  const OperatorProblem& problem_;
  const OperatorRequest& request_;
  OperatorAnswer answer_;
  std::vector<std::int64_t> transients_;
};

}  // namespace

OperatorAnswer best_operators(const OperatorProblem& problem, const OperatorRequest& request) {
  ESPALIER_CHECK(request.best >= 1);
  return OperatorSearch(problem, request).run();
}

std::vector<OperatorPlan> operator_frontier(const OperatorProblem& problem, const OperatorRequest& request, std::int32_t points) {
  std::vector<OperatorPlan> frontier;
  OperatorRequest next = request;
  next.best = 1;
  while (static_cast<std::int32_t>(frontier.size()) < points) {
    const OperatorAnswer answer = best_operators(problem, next);
    if (!answer.certified || answer.plans.empty()) break;
    frontier.push_back(answer.plans.front());
    next.capacity = answer.plans.front().footprint() - 1;
  }
  return frontier;
}

OperatorPlan evaluate_operators(const OperatorProblem& problem, const std::vector<std::int32_t>& options) {
  OperatorPlan plan;
  plan.options = options;
  const auto option = [&](std::int32_t node) -> const OperatorOption& {
    return problem.nodes[static_cast<std::size_t>(node)][static_cast<std::size_t>(options[static_cast<std::size_t>(node)])];
  };
  const auto last = static_cast<std::int32_t>(problem.nodes.size()) - 1;
  for (std::int32_t i = 0; i <= last; ++i) {
    plan.time += option(i).time;
    plan.memory += option(i).memory;
    plan.transient = std::max(plan.transient, option(i).transient);
  }
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    const OperatorEdge& edge = problem.edges[e];
    const std::int32_t in = edge.is_long() ? option(edge.to).side : option(edge.to).in;
    plan.time += problem.costs->at(static_cast<std::int32_t>(e), option(edge.from).out, in);
  }
  if (problem.closed && option(0).out != option(last).out) plan.time = kNoCapacity;
  return plan;
}

namespace {

BlockMatrix matrix_below(const OperatorProblem& problem, double time_limit) {
  OperatorProblem open = problem;
  open.closed = false;
  const OperatorRequest request;
  const OperatorChain chain(open, request);
  Bounds bounds = chain.bounds(0.0, time_limit, kNoCapacity);
  OperatorTables tables(chain, bounds, request);
  return tables.matrix();
}

/// Returns c = a ⊗ b: c_ij = min_k a_ik + b_kj.
std::vector<double> min_plus(const std::vector<double>& a, const std::vector<double>& b, std::size_t n) {
  std::vector<double> c(n * n, kInfinity);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k) {
      const double left = a[i * n + k];
      if (left == kInfinity) continue;
      const double* right = b.data() + k * n;
      double* out = c.data() + i * n;
      for (std::size_t j = 0; j < n; ++j) out[j] = std::min(out[j], left + right[j]);
    }
  return c;
}

}  // namespace

BlockMatrix block_matrix(const OperatorProblem& problem) { return matrix_below(problem, kInfinity); }

std::int64_t stack_blocks(const BlockMatrix& block, std::int64_t count) {
  ESPALIER_CHECK(count >= 1);
  const std::size_t n = block.layouts.size();
  std::vector<double> power(n * n), result;
  for (std::size_t i = 0; i < n * n; ++i)
    power[i] = block.time[i] >= kNoCapacity ? kInfinity : static_cast<double>(block.time[i]);
  for (std::int64_t left = count; left > 0; left /= 2) {
    if (left % 2 == 1) result = result.empty() ? power : min_plus(result, power, n);
    if (left > 1) power = min_plus(power, power, n);
  }
  const double best = result.empty() ? kInfinity : *std::min_element(result.begin(), result.end());
  return best == kInfinity ? kNoCapacity : static_cast<std::int64_t>(best);
}

std::int64_t best_stack(const OperatorProblem& problem, std::int64_t count) {
  OperatorProblem ends = problem;
  ends.closed = true;
  const OperatorAnswer closed = best_operators(ends, {});
  ends.closed = false;
  const OperatorAnswer open = best_operators(ends, {});
  if (closed.plans.empty() || open.plans.empty()) return kNoCapacity;
  const double same = static_cast<double>(closed.plans.front().time), least = static_cast<double>(open.plans.front().time);
  return stack_blocks(matrix_below(problem, same + static_cast<double>(count - 1) * (same - least)), count);
}

}  // namespace espalier::solve
