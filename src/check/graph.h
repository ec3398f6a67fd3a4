// SPDX-License-Identifier: Apache-2.0
// Implements a directed graph whose nodes take time. It finds which nodes can run, and when each ends if every node
// starts once all its predecessors have ended (Kahn 1962; the longest path).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace espalier::check {

class Graph {
 public:
  explicit Graph(std::size_t nodes) : waiting_(nodes, 0) {}
  void add(std::int32_t from, std::int32_t to) { edges_.emplace_back(from, to); }

  /// Marks the nodes that can run.
  void run(std::vector<bool>& ran) {
    visit([&ran](std::size_t n) { ran[n] = true; }, [](std::size_t, std::size_t) {});
  }

  /// Returns the end of each node, given each node's duration. Requires a graph without cycles.
  std::vector<std::int64_t> ends(const std::vector<std::int64_t>& durations) {
    std::vector<std::int64_t> end(waiting_.size(), 0);  // until a node is visited, the earliest time it may start
    visit([&](std::size_t n) { end[n] += durations[n]; },
          [&](std::size_t from, std::size_t to) { end[to] = std::max(end[to], end[from]); });
    return end;
  }

 private:
  template <class Node, class Edge>
  void visit(const Node& node, const Edge& edge) {
    order_by_source();
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < waiting_.size(); ++n) {
      if (waiting_[n] == 0) ready.push_back(n);
    }
    while (!ready.empty()) {
      const std::size_t n = ready.back();
      ready.pop_back();
      node(n);
      for (std::size_t e = begin_[n]; e < begin_[n + 1]; ++e) {
        const auto to = static_cast<std::size_t>(targets_[e]);
        edge(n, to);
        if (--waiting_[to] == 0) ready.push_back(to);
      }
    }
  }

  /// Sorts the edges by source: begin_[n] … begin_[n + 1] are the targets of node n.
  void order_by_source() {
    begin_.resize(waiting_.size());
    begin_.push_back(0);
    for (const auto& [from, to] : edges_) {
      ++begin_[static_cast<std::size_t>(from) + 1];
      ++waiting_[static_cast<std::size_t>(to)];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::size_t> next = begin_;
    targets_.resize(edges_.size());
    for (const auto& [from, to] : edges_) targets_[next[static_cast<std::size_t>(from)]++] = to;
  }

  std::vector<std::pair<std::int32_t, std::int32_t>> edges_;
  std::vector<std::size_t> begin_;
  std::vector<std::int32_t> targets_, waiting_;
};

}  // namespace espalier::check
