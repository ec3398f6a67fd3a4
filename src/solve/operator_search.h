// SPDX-License-Identifier: Apache-2.0
// Chooses the partitions of all operators of one transformer block together. This is the segmented dynamic program of
// PrimePar (Wang et al., ASPLOS 2024, eq. 10 to 14), exact under a memory cap.
//
// A block is a chain of nodes 0 … n with an edge between neighbours. It also has long edges (the residual stream, V
// from QKV to AV) that are nested or disjoint. Node 0 is the block's input, with layouts alone and no cost. Choosing
// option p_i for every node costs
//     time = Σ t_i(p_i) + Σ_{(i,j)} e_ij(out(p_i), in(p_j)),    footprint = Σ m_i(p_i) + max_i τ_i(p_i)
// with footprint ≤ capacity. Neighbours depend only on the layouts of an option. So options that others with the same
// layouts dominate in (t, m, τ) are dropped first.
//     table       C_ab(l, p): best of nodes a + 1 … b when a leaves layout l and b is p: labels (t, m, τ),
//                 none dominated
//     extension   C_a,j+1(l, q) = min_p C_aj(l, p) + e_j,j+1(p, q) + n_j+1(q)                      (11)
//     long edge   C_ab += e_ab(l, p) where a also feeds b                                          (12)
//     merge       C_ac(l, q) = min_p C_ab(l, p) + C_bc(out p, q): a min-plus product               (13, 14)
// Exact pruning: without long edges the block is a chain. On it, the shortest ways before (F) and after (G) a state
// take vectors instead of matrices. For any λ ≥ 0, a plan within the capacity that takes at most U has
//     F + G ≤ U + λ·(capacity − τ₀),   F and G in t + λ·m,   τ₀ = max_i min τ_i
// for each of its states. All other states are dropped, and so is a label that cannot be completed below U. U is
// raised step by step from the least conceivable time until the requested plans lie below it; passes below the
// optimum cost next to nothing. The multiplier λ comes from bisection on plans that a beam and coordinate descent
// find; the answer is right for any λ. Where too many states are left, the range of the largest transient is halved.
// Each part has options up to its upper end and counts its lower end. The answer is certified when every part is done,
// so that no plan below the first one exists.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace espalier::solve {

struct OperatorOption {
  std::int64_t time = 0;       ///< ns
  std::int64_t memory = 0;     ///< bytes held for the step: states, activations saved for the backward pass
  std::int64_t transient = 0;  ///< bytes while the operator runs
  std::int32_t in = 0;         ///< layout of the input from the node before; one id space for each edge
  std::int32_t side = 0;       ///< layout of the input from a long edge
  std::int32_t out = 0;        ///< layout of its output
};

/// Returns the cost of passing a tensor on, ns ≥ 0. It is called often, so it must be fast and pure.
class EdgeCosts {
 public:
  virtual ~EdgeCosts() = default;
  [[nodiscard]] virtual std::int64_t at(std::int32_t edge, std::int32_t out, std::int32_t in) const = 0;
};

struct OperatorEdge {
  std::int32_t from = 0, to = 1;
  /// Neighbours are joined by exactly one edge; all other edges are long.
  [[nodiscard]] bool is_long() const { return to != from + 1; }
};

struct OperatorProblem {
  std::vector<std::vector<OperatorOption>> nodes;  ///< nodes[0]: entering layouts (`out`), no cost
  std::vector<OperatorEdge> edges;                 ///< index = the `edge` of EdgeCosts
  const EdgeCosts* costs = nullptr;
  /// Requires the leaving layout to equal the entering layout, so that equal blocks can follow each other (same id
  /// space).
  bool closed = true;
};

inline constexpr std::int64_t kNoCapacity = std::numeric_limits<std::int64_t>::max() / 4;

struct OperatorRequest {
  std::int64_t capacity = kNoCapacity;  ///< bytes
  std::int32_t best = 1;                ///< number of plans, by rising time
  /// Limits the steps (edge costs read, labels made); beyond it the answer is not certified.
  std::int64_t budget = kNoCapacity;
  std::function<bool()> stop;  ///< Polled often; true counts as an exhausted budget. It may be empty.
};

struct OperatorPlan {
  std::int64_t time = 0;              ///< ns
  std::int64_t memory = 0;            ///< Σ memory
  std::int64_t transient = 0;         ///< max transient
  std::vector<std::int32_t> options;  ///< option of each node
  [[nodiscard]] std::int64_t footprint() const { return memory + transient; }
};

struct OperatorAnswer {
  std::vector<OperatorPlan> plans;  ///< By rising (time, footprint); has fewer than requested if no more plans fit.
  std::int64_t lower_bound = 0;     ///< ns; no plan that fits is faster. Equals plans[0].time if certified
  bool certified = false;           ///< the plans are the best ones (or none fits): equal to trying all
  double lambda = 0;                ///< ns per byte at which states were pruned
  std::int64_t steps = 0;           ///< steps of the budget used
  /// Options without dominated ones; `kept` are those that remain after pruning.
  std::int64_t states = 0, kept = 0;
  std::int64_t labels = 0;
};

OperatorAnswer best_operators(const OperatorProblem& problem, const OperatorRequest& request);

/// Returns plans with footprint ≤ capacity that no other equals or beats in (time, footprint), by rising time. There
/// are at most `points`, the fastest ones. Each is certified (otherwise the list ends early).
std::vector<OperatorPlan> operator_frontier(const OperatorProblem& problem, const OperatorRequest& request, std::int32_t points);

/// Returns time and memory of one choice; `options` has one entry per node.
OperatorPlan evaluate_operators(const OperatorProblem& problem, const std::vector<std::int32_t>& options);

/// Holds the least time of one block from each entering layout to each leaving layout (ids as in the problem),
/// without a capacity. Row-major [entering][leaving]; kNoCapacity (infinite) where there is no plan. stack_blocks
/// uses it.
struct BlockMatrix {
  std::vector<std::int32_t> layouts;  ///< ids of rows and columns, rising
  std::vector<std::int64_t> time;     ///< ns
};
BlockMatrix block_matrix(const OperatorProblem& problem);

/// Returns the least time of `count` ≥ 1 consecutive blocks with free ends. The matrix is squared, which takes
/// log2(count) min-plus products.
std::int64_t stack_blocks(const BlockMatrix& block, std::int64_t count);

/// Returns the least time of a stack directly from the problem. It computes only the part of the matrix that a stack
/// below `count` equal closed blocks can use: blocks that take at most t_closed + (count − 1)·(t_closed − t_open).
std::int64_t best_stack(const OperatorProblem& problem, std::int64_t count);

}  // namespace espalier::solve
