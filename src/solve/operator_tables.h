// SPDX-License-Identifier: Apache-2.0
// Holds the parts of the operator search (operator_search.h): the chain with its bounds, and the tables of labels.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/operator_search.h"

namespace espalier::solve {

/// Holds the options of a node after those dominated among equal layouts are removed, and the columns of layouts.
struct OperatorNode {
  std::vector<OperatorOption> options;
  std::vector<std::int32_t> original;       ///< index into OperatorProblem::nodes[i]
  std::vector<std::int32_t> ins, outs;      ///< distinct layouts, rising
  std::vector<std::int32_t> in_at, out_at;  ///< option → index into them
};

/// Holds the result of pruning.
struct Bounds {
  double lambda = 0, limit = 0;  ///< limit in t + λ·m
  double least = 0;              ///< no plan within the capacity is faster: min (F + G) − λ·(capacity − τ₀)
  bool complete = true, pruned = false;
  std::int64_t kept = 0;
  std::vector<std::vector<double>> before, after;  ///< F (own cost included), G (not included); infinity: dropped
};

class OperatorChain {
 public:
  OperatorChain(const OperatorProblem& problem, const OperatorRequest& request);

  [[nodiscard]] const OperatorProblem& problem() const { return *problem_; }
  [[nodiscard]] std::int32_t last() const { return static_cast<std::int32_t>(nodes_.size()) - 1; }
  [[nodiscard]] const OperatorNode& node(std::int32_t i) const { return nodes_[static_cast<std::size_t>(i)]; }
  /// Returns the edge from node i to i + 1.
  [[nodiscard]] std::int32_t link(std::int32_t i) const { return links_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const std::vector<std::int32_t>& long_edges() const { return long_edges_; }
  [[nodiscard]] std::int64_t cost(std::int32_t edge, std::int32_t out, std::int32_t in) const {
    ++steps_;
    return problem_->costs->at(edge, out, in);
  }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Returns whether the budget covers the steps made and `more`, and the search was not stopped.
  [[nodiscard]] bool within_budget(std::int64_t more = 0) const { return steps_ + more <= budget_ && !(stop_ && stop_()); }
  void step(std::int64_t count) const { steps_ += count; }
  [[nodiscard]] std::int64_t states() const;
  [[nodiscard]] std::int64_t least_memory(std::int32_t node) const { return least_memory_[static_cast<std::size_t>(node)]; }
  /// Returns τ₀.
  [[nodiscard]] std::int64_t least_transient() const { return least_transient_; }
  [[nodiscard]] std::int64_t least_footprint() const;
  [[nodiscard]] std::int64_t least_time() const;

  /// Returns a plan (indices into node(i).options) with the least t + λ·m found by a forward pass with `width`
  /// layouts between nodes.
  [[nodiscard]] std::vector<std::int32_t> beam(double lambda, std::size_t width) const;
  /// Changes one node at a time while t + λ·m falls. The footprint stays within the capacity if it was.
  void descend(std::vector<std::int32_t>& plan, double lambda, std::int64_t capacity, int sweeps) const;
  /// Evaluates a plan, with options numbered as in the problem.
  [[nodiscard]] OperatorPlan evaluate(const std::vector<std::int32_t>& plan) const;
  /// Returns a lower bound of the time of plans within the capacity, from own costs alone.
  [[nodiscard]] double root(double lambda, std::int64_t capacity) const;
  /// Returns the bound min F − λ·(capacity − τ₀), at most `to`. If it is not above `from`, the result is some value
  /// below it.
  [[nodiscard]] double dual(double lambda, std::int64_t capacity, double from, double to) const;
  [[nodiscard]] Bounds bounds(double lambda, double time_limit, std::int64_t capacity) const;

 private:
  struct Source;
  [[nodiscard]] double credit(double lambda, std::int64_t capacity) const {
    return lambda > 0 ? lambda * static_cast<double>(capacity - least_transient_) : 0.0;
  }
  [[nodiscard]] std::vector<double> own_costs(std::int32_t node, double lambda) const;
  bool improve(std::vector<std::int32_t>& plan, std::int32_t node, double lambda, std::int64_t capacity) const;
  /// Returns the option of node 0 that enters with a layout; −1: none.
  [[nodiscard]] std::int32_t entering(std::int32_t layout) const;
  [[nodiscard]] double local_cost(const std::vector<std::int32_t>& plan, std::int32_t node, double lambda) const;
  [[nodiscard]] bool fits_with(const std::vector<std::int32_t>& plan, std::int64_t capacity) const;
  /// Computes limits and F alone.
  [[nodiscard]] Bounds ways_before(double lambda, double time_limit, std::int64_t capacity,
                                   std::vector<std::vector<double>>& own) const;
  void forward(Bounds& b, const std::vector<std::vector<double>>& own, const std::vector<double>& rest) const;
  void backward(Bounds& b, const std::vector<std::vector<double>>& own) const;

  const OperatorProblem* problem_;
  std::int64_t budget_;
  std::function<bool()> stop_;
  std::vector<OperatorNode> nodes_;
  std::vector<std::int32_t> links_, long_edges_, first_entering_;
  std::vector<std::vector<std::int32_t>> incident_;  ///< edges at each node
  std::vector<std::int64_t> least_memory_;
  std::int64_t least_transient_ = 0;
  mutable std::int64_t steps_ = 0;
};

/// Holds the labels of one interval [a, b]: rows by the layout that a leaves, cells by the option of b.
class OperatorTables {
 public:
  OperatorTables(const OperatorChain& chain, const Bounds& bounds, const OperatorRequest& request);
  /// Returns all labels of the whole block.
  [[nodiscard]] std::vector<OperatorPlan> plans() const;
  [[nodiscard]] BlockMatrix matrix() const;
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] bool pruned() const { return pruned_; }
  [[nodiscard]] std::int64_t labels() const { return static_cast<std::int64_t>(arena_.size()); }

 private:
  struct Label {
    std::int64_t time = 0, memory = 0, transient = 0;
    std::int32_t left = -1, right = -1;  ///< labels it is composed of
    std::int32_t option = -1;            ///< option of the last node, when an extension made it
  };
  struct Cell {
    std::int32_t at = 0;  ///< option of b (tables) or index of a layout (while tables are joined)
    std::vector<Label> labels;
  };
  using Row = std::vector<Cell>;
  struct Table {
    std::int32_t begin = 0, end = 0;
    std::vector<Row> rows;                                    ///< by index of the layout that `begin` leaves
    std::vector<std::vector<std::vector<std::int32_t>>> ids;  ///< ids of the labels in the arena, as rows
  };

  Table interval(std::int32_t a, std::int32_t b, bool root);
  Table start(std::int32_t a) const;
  Table extend(const Table& table, bool root);
  Table merge(const Table& left, const Table& right, bool root);
  void add_long_edges(Table& table);
  void tighten_start(const Table& table);
  void store(Table& table);
  /// Returns the labels of a row by the layout that its last node leaves, with arena ids as `left`.
  [[nodiscard]] std::vector<Cell> by_layout(const Table& table, std::size_t row) const;
  [[nodiscard]] bool hopeful(const Label& label, double outside, std::int64_t outside_memory);
  [[nodiscard]] std::int64_t memory_outside(std::int32_t a, std::int32_t b) const;
  [[nodiscard]] bool wanted(std::int32_t row, std::int32_t option, bool root) const;
  void insert(std::vector<Label>& labels, const Label& label) const;
  [[nodiscard]] bool dominates(const Label& a, const Label& b) const;
  void trace(std::int32_t id, std::vector<std::int32_t>& options) const;

  const OperatorChain& chain_;
  const Bounds& bounds_;
  const OperatorRequest& request_;
  std::vector<std::vector<double>> start_before_;  ///< [node][layout]: least F of the options that leave it
  std::vector<Label> arena_;
  Table whole_;
  bool complete_ = true, pruned_ = false;
};

/// Returns whether a plan (part) makes another one superfluous: at least as fast and as small. Without a capacity,
/// memory only decides ties.
inline bool dominates(std::int64_t time_a, std::int64_t memory_a, std::int64_t transient_a, std::int64_t time_b,
                      std::int64_t memory_b, std::int64_t transient_b, bool capped) {
  if (!capped && time_a < time_b) return true;
  return time_a <= time_b && memory_a <= memory_b && transient_a <= transient_b;
}

}  // namespace espalier::solve
