// SPDX-License-Identifier: Apache-2.0
#include "search/operator_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "search/operator_tables.h"

namespace espalier::search {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kBeam = 12;         ///< layouts kept between two nodes while a first plan is sought
constexpr int kSweeps = 6;                ///< of coordinate descent
constexpr int kBisections = 12;           ///< of λ
constexpr double kFirstWidening = 0.002;  ///< of the best time known, when more plans are asked for than lie below it

/// A first plan, and the λ at which it was found.
struct Incumbent {
  std::optional<OperatorPlan> plan;
  double lambda = 0;
};

/// Beam and coordinate descent on t + λ·m; λ by bisection until the footprint is just within the capacity.
class IncumbentSearch {
 public:
  IncumbentSearch(const OperatorChain& chain, std::int64_t capacity) : chain_(chain), capacity_(capacity) {}

  Incumbent run() {
    Incumbent found;
    if (attempt(0.0)) return {best_, 0.0};
    double low = 0, high = first_lambda();
    int growths = 0;
    while (!attempt(high) && growths < 20) low = high, high *= 8, ++growths;
    for (int i = 0; i < kBisections; ++i) {
      const double middle = low > 0 ? std::sqrt(low * high) : high / 8;
      (attempt(middle) ? high : low) = middle;
      if (low > 0 && high / low < 1.02) break;
    }
    found.plan = best_, found.lambda = high;
    return found;
  }

 private:
  /// Whether the plan of λ fits; what fits and is fast is kept.
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

/// Every plan that takes at most `time_limit` and is among the best: pruned states, then labels.
struct Enumeration {
  std::vector<OperatorPlan> plans;
  double lower_bound = 0;
  bool complete = false;  ///< the budget sufficed
  bool pruned = false;    ///< the time limit removed something
  std::int64_t kept = 0, labels = 0;
};

Enumeration enumerate(const OperatorChain& chain, const OperatorRequest& request, double lambda, double time_limit) {
  Enumeration out;
  Bounds bounds = chain.bounds(lambda, time_limit, request.capacity);
  out.lower_bound = bounds.least, out.pruned = bounds.pruned, out.kept = bounds.kept;
  if (!bounds.complete) return out;
  OperatorTables tables(chain, bounds, request);
  out.plans = tables.plans();
  out.complete = tables.complete(), out.pruned |= tables.pruned(), out.labels = tables.labels();
  std::sort(out.plans.begin(), out.plans.end(), before);
  // With λ > 0 small plans beyond the limit survive, but not all of them.
  if (out.pruned) std::erase_if(out.plans, [&](const OperatorPlan& p) { return static_cast<double>(p.time) > time_limit; });
  if (out.plans.size() > static_cast<std::size_t>(request.best)) out.plans.resize(static_cast<std::size_t>(request.best));
  return out;
}

}  // namespace

OperatorAnswer best_operators(const OperatorProblem& problem, const OperatorRequest& request) {
  ESPALIER_CHECK(request.best >= 1);
  const OperatorChain chain(problem, request);
  OperatorAnswer answer;
  answer.states = chain.states();
  if (chain.least_footprint() > request.capacity) {
    answer.certified = true;
    answer.lower_bound = kNoCapacity;
    return answer;
  }
  const Incumbent first = IncumbentSearch(chain, request.capacity).run();
  answer.lambda = first.lambda;
  if (first.plan) answer.plans = {*first.plan};
  double limit = first.plan ? static_cast<double>(first.plan->time) : static_cast<double>(chain.least_time()) * 1.05 + 1;
  double widening = std::max(limit * kFirstWidening, 1.0);
  for (;;) {
    const Enumeration e = enumerate(chain, request, first.lambda, limit);
    answer.kept = e.kept, answer.labels += e.labels, answer.steps = chain.steps();
    answer.lower_bound = std::max(answer.lower_bound, static_cast<std::int64_t>(std::ceil(std::min(e.lower_bound, 9e18) - 0.5)));
    if (!e.complete) break;
    if (!e.plans.empty()) answer.plans = e.plans;
    if (e.plans.size() >= static_cast<std::size_t>(request.best) || !e.pruned) {
      answer.certified = true;
      break;
    }
    limit += widening, widening *= 2;
  }
  if (answer.certified) answer.lower_bound = answer.plans.empty() ? kNoCapacity : answer.plans.front().time;
  if (!answer.certified && !answer.plans.empty()) answer.lower_bound = std::min(answer.lower_bound, answer.plans.front().time);
  return answer;
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
    plan.time += option(i).time, plan.memory += option(i).memory;
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

/// c = a ⊗ b: c_ij = min_k a_ik + b_kj.
std::vector<double> min_plus(const std::vector<double>& a, const std::vector<double>& b, std::size_t n) {
  std::vector<double> c(n * n, kInfinite);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k) {
      const double left = a[i * n + k];
      if (left == kInfinite) continue;
      const double* right = b.data() + k * n;
      double* out = c.data() + i * n;
      for (std::size_t j = 0; j < n; ++j) out[j] = std::min(out[j], left + right[j]);
    }
  return c;
}

}  // namespace

BlockMatrix block_matrix(const OperatorProblem& problem) { return matrix_below(problem, kInfinite); }

std::int64_t stack_blocks(const BlockMatrix& block, std::int64_t count) {
  ESPALIER_CHECK(count >= 1);
  const std::size_t n = block.layouts.size();
  std::vector<double> power(n * n), result;
  for (std::size_t i = 0; i < n * n; ++i)
    power[i] = block.time[i] >= kNoCapacity ? kInfinite : static_cast<double>(block.time[i]);
  for (std::int64_t left = count; left > 0; left /= 2) {
    if (left % 2 == 1) result = result.empty() ? power : min_plus(result, power, n);
    if (left > 1) power = min_plus(power, power, n);
  }
  const double best = result.empty() ? kInfinite : *std::min_element(result.begin(), result.end());
  return best == kInfinite ? kNoCapacity : static_cast<std::int64_t>(best);
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

}  // namespace espalier::search
