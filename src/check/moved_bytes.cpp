// SPDX-License-Identifier: Apache-2.0
#include "check/moved_bytes.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "base/check.h"
#include "check/held_elements.h"
#include "check/static_memory.h"
#include "check/verdict.h"
#include "check/view.h"

namespace espalier::check {
namespace {

/// Layers that some ranks hold alike.
struct Part {
  std::int32_t first = 0, last = 0;
  std::size_t pipeline = 0;
  HeldUnder how;
  std::vector<std::int64_t> devices;  // in rank order, by number in the whole cluster
};

bool uses_table(const Model& model, std::int32_t layer) {
  if (model.vocabulary == 0) return false;
  const LayerKind& kind = model.layer(static_cast<std::size_t>(layer));
  if (layer == 0 || (kind.role == LayerRole::head && model.tied_embeddings)) return true;
  return kind.role != LayerRole::embedding && std::any_of(kind.operators.begin(), kind.operators.end(), [](const Operator& op) {
           return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab && op.parameters == 0;
         });
}

/// All parts of a plan: its ranges, and copies of the token table on stages that use it and do not have the embedding.
std::vector<Part> parts_of(const PlanOnCluster& placed, const Model& model, std::int64_t row_unit) {
  std::vector<Part> out;
  for (std::size_t p = 0; p < placed.plan->pipelines.size(); ++p) {
    const std::vector<Stage>& stages = placed.plan->pipelines[p].stages;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      Part part;
      part.pipeline = p;
      for (const DeviceRange& range : stages[i].devices)
        for (std::int64_t k = 0; k < range.count; ++k)
          part.devices.push_back(placed.devices[static_cast<std::size_t>(range.first + k * range.stride)]);
      part.how.state_shares = stages[i].state_shares;
      part.how.vocabulary = model.vocabulary;
      part.how.row_unit = row_unit;
      Part copy = part;
      copy.how.table_only = true;
      bool has_copy = false, has_embedding = false;
      for (const Chunk& chunk : stages[i].chunks)
        for (const LayerRange& range : chunk.ranges) {
          part.first = range.first;
          part.last = range.last;
          part.how.strategy = range.strategy;
          out.push_back(part);
          has_embedding |= range.first == 0;
          for (std::int32_t layer = range.first; layer <= range.last; ++layer) {
            if (!uses_table(model, layer)) continue;
            has_copy = true;
            copy.how.strategy = range.strategy;
          }
        }
      if (has_copy && !has_embedding) out.push_back(copy);
    }
  }
  return out;
}

std::vector<std::size_t> parts_with(const std::vector<Part>& parts, std::int32_t layer) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].first <= layer && layer <= parts[i].last) out.push_back(i);
  return out;
}

enum class State : std::uint8_t { parameters, optimizer };

bool sharded(State state, const Strategy& s) {
  return state == State::parameters ? shards_parameters(s.zero) : shards_optimizer(s.zero);
}

/// The pieces of a layer, and a list of whom each concerns.
class Pieces {
 public:
  void cut(const std::vector<Span>& spans) {
    for (const Span& span : spans) borders_.insert(borders_.end(), {span.from, span.to});
  }
  void close() {
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  }
  [[nodiscard]] std::size_t count() const { return borders_.empty() ? 0 : borders_.size() - 1; }
  [[nodiscard]] std::int64_t size(std::size_t piece) const { return borders_[piece + 1] - borders_[piece]; }
  template <class Visit>
  void each_of(const std::vector<Span>& spans, const Visit& visit) const {
    for (const Span& span : spans) {
      auto at = static_cast<std::size_t>(std::lower_bound(borders_.begin(), borders_.end(), span.from) - borders_.begin());
      for (; borders_[at] < span.to; ++at) visit(at);
    }
  }

 private:
  std::vector<std::int64_t> borders_;
};

/// What one rank holds of a state of a layer.
struct Holder {
  std::int64_t device = 0;
  std::size_t pipeline = 0;
  std::vector<Span> spans;
};

class Counter {
 public:
  Counter(const MoveQuestion& question, MovedBytes& out) : q_(&question), cluster_(*question.cluster), out_(&out) {
    gone_.insert(question.lost_nodes.begin(), question.lost_nodes.end());
    View view;
    view.plan = question.next.plan;
    if (const EngineModel* engine = find_engine(question.next.plan->engine)) view.engine = *engine;
    each_ = bytes_of(view);
    const std::int64_t unit = std::max(1, view.engine.memory.vocabulary_multiple);
    before_ = parts_of(question.running, *question.model, unit);
    after_ = parts_of(question.next, *question.model, unit);
    for (std::int64_t node = 0; node < cluster_.nodes(); ++node) {
      group_of_node_.push_back(cluster_.group_of_node(node));
      const std::int64_t devices = cluster_.groups[group_of_node_.back()].devices_per_node;
      for (std::int64_t k = 0; k < devices; ++k) node_of_.push_back(node);
    }
  }

  void count() {
    // Layers of one kind that are held by the same parts before and after are alike.
    std::map<std::tuple<std::int32_t, std::vector<std::size_t>, std::vector<std::size_t>>, std::int64_t> alike;
    const Model& model = *q_->model;
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      const auto layer = static_cast<std::int32_t>(l);
      ++alike[{model.layers[l], parts_with(before_, layer), parts_with(after_, layer)}];
    }
    for (const auto& [key, layers] : alike) {
      const auto& [kind, before, after] = key;
      const LayerKind& of = model.kinds[static_cast<std::size_t>(kind)];
      const std::int64_t moments = std::int64_t{each_.master} + each_.optimizer;
      if (each_.parameter > 0) count_state(of, before, after, State::parameters, layers * each_.parameter);
      if (moments > 0) count_state(of, before, after, State::optimizer, layers * moments);
    }
    for (const auto& [device, bytes] : needs_) out_->most_read = std::max(out_->most_read, bytes);
  }

 private:
  std::vector<Holder> holders(const std::vector<Part>& parts, const std::vector<std::size_t>& which, const LayerKind& kind,
                              State state) const {
    std::vector<Holder> out;
    for (const std::size_t p : which)
      for (std::size_t r = 0; r < parts[p].devices.size(); ++r) {
        HeldElements held = held_elements(parts[p].how, kind, static_cast<std::int64_t>(r));
        out.push_back({parts[p].devices[r], parts[p].pipeline,
                       sharded(state, parts[p].how.strategy) ? std::move(held.sharded) : std::move(held.whole)});
      }
    return out;
  }

  void count_state(const LayerKind& kind, const std::vector<std::size_t>& before, const std::vector<std::size_t>& after,
                   State state, std::int64_t bytes) {
    const std::vector<Holder> now = holders(before_, before, kind, state), then = holders(after_, after, kind, state);
    Pieces pieces;
    const std::vector<Span> all{{0, parameter_count(kind)}};
    for (const auto* list : {&now, &then})
      for (const Holder& holder : *list) pieces.cut(holder.spans);
    pieces.cut(all);
    pieces.close();
    std::vector<std::vector<std::int64_t>> has(pieces.count()), wants(pieces.count());
    for (const Holder& holder : now)
      if (!gone_.contains(node_of(holder.device)))
        pieces.each_of(holder.spans, [&](std::size_t k) { has[k].push_back(holder.device); });
    std::vector<std::set<std::size_t>> pipelines(pieces.count());
    for (const Holder& holder : then)
      pieces.each_of(holder.spans, [&](std::size_t k) {
        wants[k].push_back(holder.device);
        pipelines[k].insert(holder.pipeline);
      });
    for (std::size_t k = 0; k < pieces.count(); ++k) {
      const std::int64_t size = pieces.size(k) * bytes;
      out_->nowhere += size * static_cast<std::int64_t>(q_->next.plan->pipelines.size() - pipelines[k].size());
      count_piece(has[k], wants[k], size);
    }
  }

  void count_piece(std::vector<std::int64_t>& has, const std::vector<std::int64_t>& wants, std::int64_t bytes) {
    std::sort(has.begin(), has.end());
    std::set<std::int64_t> nodes;
    std::set<std::size_t> groups;
    for (const std::int64_t device : has) {
      nodes.insert(node_of(device));
      groups.insert(group_of(device));
    }
    std::map<std::size_t, std::int64_t> near, far;  // what devices of a group take from other nodes of it, and from other groups
    for (const std::int64_t device : wants) {
      needs_[device] += bytes;
      out_->needed += bytes;
      const bool had = std::binary_search(has.begin(), has.end(), device);
      (had ? out_->kept : has.empty() ? out_->lost : out_->peer) += bytes;
      if (had || has.empty()) continue;
      if (nodes.contains(node_of(device))) {
        exactly(say("inside node:", node_of(device)), bytes);
        out_->taken_inside[device] += bytes;
        continue;
      }
      exactly(say("node:", node_of(device), " in"), bytes);
      out_->taken[device] += bytes;
      (groups.contains(group_of(device)) ? near : far)[group_of(device)] += bytes;
    }
    for (const auto& [group, taken] : near) {
      std::set<std::int64_t> senders;
      for (const std::int64_t node : nodes)
        if (group_of_node_[static_cast<std::size_t>(node)] == group) senders.insert(node);
      sent_by(senders, taken);
    }
    for (const auto& [group, taken] : far) {
      sent_by(nodes, taken);
      over_links(groups, group, taken);
    }
  }

  void exactly(const std::string& link, std::int64_t bytes) {
    Bounds& b = out_->links[link];
    b.least += bytes;
    b.most += bytes;
  }
  void sent_by(const std::set<std::int64_t>& senders, std::int64_t bytes) {
    for (const std::int64_t node : senders) {
      Bounds& b = out_->links[say("node:", node, " out")];
      b.most += bytes;
      if (senders.size() == 1) b.least += bytes;
    }
  }
  void over_links(const std::set<std::size_t>& from, std::size_t to, std::int64_t bytes) {
    if (cluster_.links.empty()) return;
    std::map<std::size_t, std::size_t> ways;  // by link: from how many of the groups the way goes over it
    for (const std::size_t group : from)
      for (const std::size_t link : cluster_.path(group, to).links) ++ways[link];
    for (const auto& [link, count] : ways) {
      Bounds& b = out_->links[cluster_.links[link].name()];
      b.most += bytes;
      if (count == from.size()) b.least += bytes;
    }
  }

  [[nodiscard]] std::int64_t node_of(std::int64_t device) const { return node_of_[static_cast<std::size_t>(device)]; }
  [[nodiscard]] std::size_t group_of(std::int64_t device) const {
    return group_of_node_[static_cast<std::size_t>(node_of(device))];
  }

  const MoveQuestion* q_;
  const Cluster& cluster_;
  MovedBytes* out_;
  StatePolicy each_;
  std::vector<Part> before_, after_;
  std::vector<std::int64_t> node_of_;       // of each device
  std::vector<std::size_t> group_of_node_;  // of each node
  std::set<std::int64_t> gone_;
  std::map<std::int64_t, std::int64_t> needs_;  // by device
};

}  // namespace

MovedBytes moved_bytes(const MoveQuestion& question) {
  MovedBytes out;
  Counter(question, out).count();
  ESPALIER_CHECK(out.kept + out.peer + out.lost == out.needed);
  return out;
}

}  // namespace espalier::check
