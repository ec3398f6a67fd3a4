// SPDX-License-Identifier: Apache-2.0
// Builds tables of labels over intervals of the chain: extension, long edges, merges (equations 11 to 14).
#include "solve/operator_tables.h"

#include <algorithm>

#include "base/infinity.h"
#include "base/invariant.h"

namespace espalier::solve {
namespace {
using base::kInfinity;
}

OperatorTables::OperatorTables(const OperatorChain& chain, const Bounds& bounds, const OperatorRequest& request)
    : chain_(chain), bounds_(bounds), request_(request) {
  for (std::int32_t i = 0; i <= chain.last(); ++i) {
    const OperatorNode& n = chain.node(i);
    std::vector<double> least(n.outs.size(), kInfinity);
    for (std::size_t p = 0; p < n.options.size(); ++p) {
      double& l = least[static_cast<std::size_t>(n.out_at[p])];
      l = std::min(l, bounds.before[static_cast<std::size_t>(i)][p]);
    }
    start_before_.push_back(std::move(least));
  }
  whole_ = interval(0, chain.last(), true);
}

std::int64_t OperatorTables::memory_outside(std::int32_t a, std::int32_t b) const {
  std::int64_t sum = 0;
  for (std::int32_t i = 0; i <= chain_.last(); ++i)
    if (i <= a || i > b) sum += chain_.least_memory(i);
  return sum;
}

/// Returns whether a label can still be completed below the limit. `outside` is the least of everything else, in t +
/// λ·m.
bool OperatorTables::hopeful(const Label& label, double outside, std::int64_t outside_memory) {
  const double total = outside + static_cast<double>(label.time) + bounds_.lambda * static_cast<double>(label.memory);
  if (total > bounds_.limit) {
    pruned_ = true;
    return false;
  }
  return label.memory + outside_memory + std::max(label.transient, chain_.least_transient()) <= request_.capacity;
}

bool OperatorTables::dominates(const Label& a, const Label& b) const {
  return solve::dominates(a.time, a.memory, a.transient, b.time, b.memory, b.transient, request_.capacity < kNoCapacity);
}

void OperatorTables::insert(std::vector<Label>& labels, const Label& label) const {
  const auto dominators =
      std::count_if(labels.begin(), labels.end(), [&](const Label& other) { return dominates(other, label); });
  if (dominators >= request_.best) return;
  if (request_.best == 1) std::erase_if(labels, [&](const Label& other) { return dominates(label, other); });
  labels.push_back(label);
}

bool OperatorTables::wanted(std::int32_t row, std::int32_t option, bool root) const {
  if (!root || !chain_.problem().closed) return true;
  return chain_.node(0).outs[static_cast<std::size_t>(row)] ==
         chain_.node(chain_.last()).options[static_cast<std::size_t>(option)].out;
}

/// Puts the labels of a finished table into the arena, where later ones refer to them.
void OperatorTables::store(Table& table) {
  table.ids.assign(table.rows.size(), {});
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    for (const Cell& cell : table.rows[r]) {
      std::vector<std::int32_t> ids;
      for (const Label& label : cell.labels) {
        ids.push_back(static_cast<std::int32_t>(arena_.size()));
        arena_.push_back(label);
      }
      table.ids[r].push_back(std::move(ids));
    }
  complete_ = complete_ && chain_.within_budget(labels());
}

std::vector<OperatorTables::Cell> OperatorTables::by_layout(const Table& table, std::size_t row) const {
  const OperatorNode& n = chain_.node(table.end);
  std::vector<std::int32_t> slot(n.outs.size(), -1);
  std::vector<Cell> cells;
  for (std::size_t c = 0; c < table.rows[row].size(); ++c) {
    const Cell& cell = table.rows[row][c];
    std::int32_t& at = slot[static_cast<std::size_t>(n.out_at[static_cast<std::size_t>(cell.at)])];
    if (at < 0) {
      at = static_cast<std::int32_t>(cells.size());
      cells.push_back({n.out_at[static_cast<std::size_t>(cell.at)], {}});
    }
    for (std::size_t l = 0; l < cell.labels.size(); ++l) {
      Label label = cell.labels[l];
      label.left = table.ids[row][c][l];
      label.right = -1;
      label.option = -1;
      insert(cells[static_cast<std::size_t>(at)].labels, label);
    }
  }
  return cells;
}

/// Returns the empty interval: a leaves its layout, nothing else yet. It has one cell for each layout; `at` is
/// unused.
OperatorTables::Table OperatorTables::start(std::int32_t a) const {
  Table table;
  table.begin = table.end = a;
  table.rows.resize(chain_.node(a).outs.size());
  return table;
}

OperatorTables::Table OperatorTables::extend(const Table& table, bool root) {
  const std::int32_t a = table.begin, j = table.end + 1;
  const OperatorNode &before = chain_.node(j - 1), &n = chain_.node(j);
  const auto& after = bounds_.after[static_cast<std::size_t>(j)];
  const auto& reached = bounds_.before[static_cast<std::size_t>(j)];
  const auto completion = [&](std::size_t q) {
    const OperatorOption& o = n.options[q];
    return static_cast<double>(o.time) + bounds_.lambda * static_cast<double>(o.memory) + after[q];
  };
  std::vector<std::vector<std::int32_t>> with_input(n.ins.size());
  std::vector<double> onward(n.ins.size(), kInfinity);
  for (std::size_t q = 0; q < n.options.size(); ++q) {
    if (reached[q] == kInfinity) continue;
    const auto in = static_cast<std::size_t>(n.in_at[q]);
    with_input[in].push_back(static_cast<std::int32_t>(q));
    onward[in] = std::min(onward[in], completion(q));
  }
  Table out;
  out.begin = a;
  out.end = j;
  out.rows.resize(table.rows.size());
  const bool single = request_.best == 1 && request_.capacity >= kNoCapacity;
  const std::int64_t outside_before = memory_outside(a, j - 1), outside = memory_outside(a, j);
  for (std::size_t row = 0; row < table.rows.size() && complete_; ++row) {
    const double start = start_before_[static_cast<std::size_t>(a)][row];
    if (start == kInfinity) continue;
    std::vector<Cell> layouts;
    if (table.end == a) {
      layouts.push_back({static_cast<std::int32_t>(row), {Label{}}});
    } else {
      layouts = by_layout(table, row);
    }
    const auto weight = [&](const Label& label) {
      return static_cast<double>(label.time) + bounds_.lambda * static_cast<double>(label.memory);
    };
    // Sort by the least label of each layout; later ones cost more.
    std::vector<std::pair<double, std::size_t>> cheapest;
    for (std::size_t c = 0; c < layouts.size(); ++c) {
      double least = kInfinity;
      for (const Label& label : layouts[c].labels) least = std::min(least, weight(label));
      cheapest.emplace_back(least, c);
    }
    std::sort(cheapest.begin(), cheapest.end());
    for (std::size_t in = 0; in < n.ins.size(); ++in) {
      if (with_input[in].empty()) continue;
      std::vector<Label> arrived;
      double best = kInfinity;  // without a capacity or other plans to keep, only the fastest arrives
      for (const auto& [least, c] : cheapest) {
        if (start + least + onward[in] > bounds_.limit) {
          pruned_ = true;
          break;
        }
        if (single && least > best) break;
        const Cell& cell = layouts[c];
        const std::int64_t move = chain_.cost(chain_.link(j - 1), before.outs[static_cast<std::size_t>(cell.at)], n.ins[in]);
        for (Label label : cell.labels) {
          label.time += move;
          if (!hopeful(label, start + onward[in], outside_before)) continue;
          insert(arrived, label);
          best = std::min(best, static_cast<double>(label.time));
        }
      }
      if (arrived.empty()) continue;
      for (const std::int32_t q : with_input[in]) {
        if (!wanted(static_cast<std::int32_t>(row), q, root)) continue;
        const OperatorOption& o = n.options[static_cast<std::size_t>(q)];
        Cell cell{q, {}};
        for (Label label : arrived) {
          label.time += o.time;
          label.memory += o.memory;
          label.transient = std::max(label.transient, o.transient);
          label.option = q;
          if (hopeful(label, start + after[static_cast<std::size_t>(q)], outside)) insert(cell.labels, label);
        }
        if (!cell.labels.empty()) out.rows[row].push_back(std::move(cell));
      }
    }
    complete_ = chain_.within_budget(labels());
  }
  return out;
}

OperatorTables::Table OperatorTables::merge(const Table& left, const Table& right, bool root) {
  Table out;
  out.begin = left.begin;
  out.end = right.end;
  out.rows.resize(left.rows.size());
  const auto& after = bounds_.after[static_cast<std::size_t>(right.end)];
  const std::int64_t outside = memory_outside(left.begin, right.end);
  for (std::size_t row = 0; row < left.rows.size() && complete_; ++row) {
    const double start = start_before_[static_cast<std::size_t>(left.begin)][row];
    std::vector<std::int32_t> slot(chain_.node(right.end).options.size(), -1);
    for (const Cell& middle : by_layout(left, row)) {
      const auto middle_row = static_cast<std::size_t>(middle.at);
      for (std::size_t c = 0; c < right.rows[middle_row].size(); ++c) {
        const Cell& end = right.rows[middle_row][c];
        if (!wanted(static_cast<std::int32_t>(row), end.at, root)) continue;
        chain_.step(1);
        std::vector<Label> joined;
        for (const Label& first : middle.labels)
          for (std::size_t l = 0; l < end.labels.size(); ++l) {
            const Label& second = end.labels[l];
            const Label label{first.time + second.time,
                              first.memory + second.memory,
                              std::max(first.transient, second.transient),
                              first.left,
                              right.ids[middle_row][c][l],
                              -1};
            if (hopeful(label, start + after[static_cast<std::size_t>(end.at)], outside)) joined.push_back(label);
          }
        if (joined.empty()) continue;
        std::int32_t& at = slot[static_cast<std::size_t>(end.at)];
        if (at < 0) {
          at = static_cast<std::int32_t>(out.rows[row].size());
          out.rows[row].push_back({end.at, {}});
        }
        for (const Label& label : joined) insert(out.rows[row][static_cast<std::size_t>(at)].labels, label);
      }
    }
    std::sort(out.rows[row].begin(), out.rows[row].end(), [](const Cell& x, const Cell& y) { return x.at < y.at; });
    complete_ = chain_.within_budget(labels());
  }
  return out;
}

void OperatorTables::add_long_edges(Table& table) {
  const OperatorNode& n = chain_.node(table.end);
  const auto& after = bounds_.after[static_cast<std::size_t>(table.end)];
  const std::int64_t outside = memory_outside(table.begin, table.end);
  for (const std::int32_t e : chain_.long_edges()) {
    const OperatorEdge& edge = chain_.problem().edges[static_cast<std::size_t>(e)];
    if (edge.from != table.begin || edge.to != table.end) continue;
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      const double start = start_before_[static_cast<std::size_t>(table.begin)][row];
      for (Cell& cell : table.rows[row]) {
        const std::int64_t move =
            chain_.cost(e, chain_.node(table.begin).outs[row], n.options[static_cast<std::size_t>(cell.at)].side);
        std::erase_if(cell.labels, [&](Label& label) {
          label.time += move;
          return !hopeful(label, start + after[static_cast<std::size_t>(cell.at)], outside);
        });
      }
      std::erase_if(table.rows[row], [](const Cell& cell) { return cell.labels.empty(); });
    }
  }
}

/// Tightens the start of an inner interval. The cost before it is known by now, long edges included, and is no less
/// than F.
void OperatorTables::tighten_start(const Table& table) {
  const OperatorNode& n = chain_.node(table.end);
  std::vector<double> least(n.outs.size(), kInfinity);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const double start = start_before_[static_cast<std::size_t>(table.begin)][row];
    for (const Cell& cell : table.rows[row])
      for (const Label& label : cell.labels) {
        double& l = least[static_cast<std::size_t>(n.out_at[static_cast<std::size_t>(cell.at)])];
        l = std::min(l, start + static_cast<double>(label.time) + bounds_.lambda * static_cast<double>(label.memory));
      }
  }
  start_before_[static_cast<std::size_t>(table.end)] = std::move(least);
}

OperatorTables::Table OperatorTables::interval(std::int32_t a, std::int32_t b, bool root) {
  Table table = start(a);
  while (table.end < b && complete_) {
    const std::int32_t from = table.end;
    std::int32_t to = from;  // end of the longest long edge from here that lies inside
    for (const std::int32_t e : chain_.long_edges()) {
      const OperatorEdge& edge = chain_.problem().edges[static_cast<std::size_t>(e)];
      if (edge.from == from && edge.to <= b && !(from == a && edge.to == b)) to = std::max(to, edge.to);
      ESPALIER_CHECK(!(edge.from > a && edge.from < b && edge.to > b));  // edges are nested or disjoint
    }
    if (to == from) {
      table = extend(table, root && from + 1 == b);
    } else if (from == a) {
      table = interval(a, to, root && to == b);
      continue;  // stored already
    } else {
      tighten_start(table);
      const Table inner = interval(from, to, false);
      table = merge(table, inner, root && to == b);
    }
    if (table.end == b) add_long_edges(table);
    store(table);
  }
  return table;
}

/// Appends the options of the nodes that a label covers, in order.
void OperatorTables::trace(std::int32_t id, std::vector<std::int32_t>& options) const {
  const Label& label = arena_[static_cast<std::size_t>(id)];
  if (label.left >= 0) trace(label.left, options);
  if (label.right >= 0) trace(label.right, options);
  if (label.option >= 0) options.push_back(label.option);
}

std::vector<OperatorPlan> OperatorTables::plans() const {
  std::vector<OperatorPlan> plans;
  if (!complete_) return plans;
  struct Found {
    const Label* label;
    std::int32_t id, row;
  };
  std::vector<Found> found;
  for (std::size_t row = 0; row < whole_.rows.size(); ++row)
    for (std::size_t c = 0; c < whole_.rows[row].size(); ++c)
      for (std::size_t l = 0; l < whole_.rows[row][c].labels.size(); ++l)
        found.push_back({&whole_.rows[row][c].labels[l], whole_.ids[row][c][l], static_cast<std::int32_t>(row)});
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (a.label->time != b.label->time) return a.label->time < b.label->time;
    return a.label->memory + a.label->transient < b.label->memory + b.label->transient;
  });
  if (found.size() > static_cast<std::size_t>(request_.best)) found.resize(static_cast<std::size_t>(request_.best));
  for (const Found& f : found) {
    OperatorPlan plan;
    plan.time = f.label->time;
    plan.memory = f.label->memory;
    plan.transient = f.label->transient;
    const auto& entering = chain_.node(0).out_at;
    std::vector<std::int32_t> options = {
        static_cast<std::int32_t>(std::find(entering.begin(), entering.end(), f.row) - entering.begin())};
    trace(f.id, options);
    for (std::int32_t n = 0; n <= chain_.last(); ++n)
      plan.options.push_back(chain_.node(n).original[static_cast<std::size_t>(options[static_cast<std::size_t>(n)])]);
    plans.push_back(std::move(plan));
  }
  return plans;
}

BlockMatrix OperatorTables::matrix() const {
  BlockMatrix matrix;
  const OperatorNode &first = chain_.node(0), &end = chain_.node(chain_.last());
  matrix.layouts = first.outs;
  matrix.layouts.insert(matrix.layouts.end(), end.outs.begin(), end.outs.end());
  std::sort(matrix.layouts.begin(), matrix.layouts.end());
  matrix.layouts.erase(std::unique(matrix.layouts.begin(), matrix.layouts.end()), matrix.layouts.end());
  const std::size_t n = matrix.layouts.size();
  matrix.time.assign(n * n, kNoCapacity);
  const auto index = [&](std::int32_t id) {
    return static_cast<std::size_t>(std::lower_bound(matrix.layouts.begin(), matrix.layouts.end(), id) - matrix.layouts.begin());
  };
  for (std::size_t row = 0; row < whole_.rows.size(); ++row)
    for (const Cell& cell : whole_.rows[row])
      for (const Label& label : cell.labels) {
        std::int64_t& time = matrix.time[index(first.outs[row]) * n + index(end.options[static_cast<std::size_t>(cell.at)].out)];
        time = std::min(time, label.time);
      }
  return matrix;
}

}  // namespace espalier::solve
