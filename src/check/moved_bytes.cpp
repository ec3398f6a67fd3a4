// SPDX-License-Identifier: Apache-2.0
#include "check/moved_bytes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "base/invariant.h"
#include "check/held_elements.h"
#include "check/static_memory.h"
#include "check/verdict.h"
#include "check/view.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Describes layers that some ranks hold in the same way.
struct HeldPart {
  std::int32_t first = 0, last = 0;
  std::size_t pipeline = 0;
  HeldUnder how;
  std::vector<std::int64_t> devices;  // in rank order, numbered in the whole cluster
};

bool uses_table(const Model& model, std::int32_t layer) {
  if (model.vocabulary == 0) return false;
  const LayerKind& kind = model.layer(static_cast<std::size_t>(layer));
  if (layer == 0 || (kind.role == LayerRole::head && model.tied_embeddings)) return true;
  return kind.role != LayerRole::embedding && std::any_of(kind.operators.begin(), kind.operators.end(), [](const Operator& op) {
           return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab && op.parameters == 0;
         });
}

/// Returns all parts of a plan: its ranges, and copies of the token table on stages that use it but lack the
/// embedding.
std::vector<HeldPart> parts_of(const PlanOnCluster& placed, const Model& model, std::int64_t row_unit) {
  std::vector<HeldPart> out;
  for (std::size_t p = 0; const Pipeline& pipeline : placed.plan->pipelines) {
    for (const Stage& stage : pipeline.stages) {
      HeldPart part;
      part.pipeline = p;
      for (const DeviceRange& range : stage.devices)
        for (std::int64_t k = 0; k < range.count; ++k)
          part.devices.push_back(placed.devices[static_cast<std::size_t>(range.first + k * range.stride)]);
      part.how.state_shares = stage.state_shares;
      part.how.vocabulary = model.vocabulary;
      part.how.row_unit = row_unit;
      HeldPart copy = part;
      copy.how.table_only = true;
      bool has_copy = false, has_embedding = false;
      for (const Chunk& chunk : stage.chunks)
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
    ++p;
  }
  return out;
}

std::vector<std::size_t> parts_with(const std::vector<HeldPart>& parts, std::int32_t layer) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].first <= layer && layer <= parts[i].last) out.push_back(i);
  return out;
}

enum class State : std::uint8_t { parameters, optimizer };

bool sharded(State state, const Strategy& s) { return state == State::parameters ? s.shards_parameters() : s.shards_optimizer(); }

/// Cuts a layer into pieces and visits the pieces of given spans.
class LayerPieces {
 public:
  void cut(const std::vector<ElementSpan>& spans) {
    for (const ElementSpan& span : spans) borders_.insert(borders_.end(), {span.from, span.to});
  }
  void close() {
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  }
  [[nodiscard]] std::size_t count() const { return borders_.empty() ? 0 : borders_.size() - 1; }
  [[nodiscard]] std::int64_t size(std::size_t piece) const { return borders_[piece + 1] - borders_[piece]; }
  template <class Visit>
  void each_of(const std::vector<ElementSpan>& spans, const Visit& visit) const {
    for (const ElementSpan& span : spans) {
      auto at = static_cast<std::size_t>(std::lower_bound(borders_.begin(), borders_.end(), span.from) - borders_.begin());
      for (; borders_[at] < span.to; ++at) visit(at);
    }
  }

 private:
  std::vector<std::int64_t> borders_;
};

/// Describes the part of a layer's state that one rank holds.
struct Holder {
  std::int64_t device = 0;
  std::size_t pipeline = 0;
  std::vector<ElementSpan> spans;
};

class Counter {
 public:
  Counter(const MoveQuestion& question, MovedBytes& out) : q_(&question), cluster_(*question.cluster), out_(&out) {
    gone_.insert(question.lost_nodes.begin(), question.lost_nodes.end());
    narrowed_.insert(question.narrowed_nodes.begin(), question.narrowed_nodes.end());
    linked_ = !cluster_.links.empty();
    std::erase_if(cluster_.links, [&](const GroupLink& link) {
      return std::find(question.lost_links.begin(), question.lost_links.end(), link.name()) != question.lost_links.end();
    });
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
    // Layers of one kind that the same parts hold before and after are alike.
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
  std::vector<Holder> holders(const std::vector<HeldPart>& parts, const std::vector<std::size_t>& which, const LayerKind& kind,
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
    LayerPieces pieces;
    const std::vector<ElementSpan> all{{0, parameter_count(kind)}};
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

  /// Returns whether bytes can travel from one group to another.
  bool joined(std::size_t from, std::size_t to) { return from == to || !linked_ || way(from, to).bandwidth.count() > 0; }

  /// Returns the path between two groups over the remaining links; its bandwidth is 0 if there is none.
  const GroupPath& way(std::size_t from, std::size_t to) {
    const auto [at, is_new] = ways_.try_emplace({from, to});
    if (is_new && !cluster_.links.empty()) at->second = cluster_.path(from, to);
    return at->second;
  }

  void count_piece(std::vector<std::int64_t> has, const std::vector<std::int64_t>& wants, std::int64_t bytes) {
    std::sort(has.begin(), has.end());
    std::map<std::size_t, std::vector<std::int64_t>> reached;  // by group of a receiver: the possible senders
    // These hold the bytes that devices of a group receive from other nodes of it, and from any node.
    std::map<std::size_t, std::int64_t> near, far;
    for (const std::int64_t device : wants) {
      const std::size_t group = group_of(device);
      const auto [givers, is_new] = reached.try_emplace(group);
      if (is_new)
        std::copy_if(has.begin(), has.end(), std::back_inserter(givers->second),
                     [&](std::int64_t holder) { return joined(group_of(holder), group); });
      count_taker(device, std::binary_search(has.begin(), has.end(), device), givers->second, bytes, near, far);
    }
    for (const auto& [group, taken] : near)
      sent_by(nodes_of(reached.at(group), [&, g = group](std::int64_t device) { return group_of(device) == g; }), taken);
    for (const auto& [group, taken] : far) {
      const std::vector<std::int64_t>& givers = reached.at(group);
      sent_by(nodes_of(givers, [](std::int64_t) { return true; }), taken);
      std::set<std::size_t> groups;
      for (const std::int64_t holder : givers) groups.insert(group_of(holder));
      over_links(groups, group, taken);
    }
  }

  /// Counts one device that will hold a piece.
  void count_taker(std::int64_t device, bool had, const std::vector<std::int64_t>& givers, std::int64_t bytes,
                   std::map<std::size_t, std::int64_t>& near, std::map<std::size_t, std::int64_t>& far) {
    needs_[device] += bytes;
    out_->needed += bytes;
    (had ? out_->kept : givers.empty() ? out_->lost : out_->peer) += bytes;
    if (had || givers.empty()) return;
    const std::int64_t node = node_of(device);
    if (std::any_of(givers.begin(), givers.end(), [&](std::int64_t holder) { return node_of(holder) == node; })) {
      exactly(say("inside node:", node), bytes);
      out_->taken_inside[device] += bytes;
      return;
    }
    exactly(say("node:", node, " in"), bytes);
    out_->taken[device] += bytes;
    const bool wide = std::any_of(givers.begin(), givers.end(), [&](std::int64_t holder) {
      return group_of(holder) == group_of(device) && !narrowed_.contains(node_of(holder));
    });
    (wide ? near : far)[group_of(device)] += bytes;
  }

  template <class Which>
  std::set<std::int64_t> nodes_of(const std::vector<std::int64_t>& devices, const Which& which) const {
    std::set<std::int64_t> out;
    for (const std::int64_t device : devices)
      if (which(device)) out.insert(node_of(device));
    return out;
  }

  void exactly(const std::string& link, std::int64_t bytes) {
    MovedRange& b = out_->links[link];
    b.least += bytes;
    b.most += bytes;
  }
  void sent_by(const std::set<std::int64_t>& senders, std::int64_t bytes) {
    for (const std::int64_t node : senders) {
      MovedRange& b = out_->links[say("node:", node, " out")];
      b.most += bytes;
      if (senders.size() == 1) b.least += bytes;
    }
  }
  void over_links(const std::set<std::size_t>& from, std::size_t to, std::int64_t bytes) {
    if (!linked_) return;
    std::map<std::size_t, std::size_t> ways;  // by link: the number of groups whose path crosses it
    for (const std::size_t group : from)
      if (group != to)
        for (const std::size_t link : way(group, to).links) ++ways[link];
    for (const auto& [link, count] : ways) {
      MovedRange& b = out_->links[cluster_.links[link].name()];
      b.most += bytes;
      if (count == from.size()) b.least += bytes;
    }
  }

  [[nodiscard]] std::int64_t node_of(std::int64_t device) const { return node_of_[static_cast<std::size_t>(device)]; }
  [[nodiscard]] std::size_t group_of(std::int64_t device) const {
    return group_of_node_[static_cast<std::size_t>(node_of(device))];
  }

  const MoveQuestion* q_;
  Cluster cluster_;      // without lost links
  bool linked_ = false;  // groups are joined by links, not by a level
  std::map<std::pair<std::size_t, std::size_t>, GroupPath> ways_;
  MovedBytes* out_;
  StatePolicy each_;
  std::vector<HeldPart> before_, after_;
  std::vector<std::int64_t> node_of_;       // by device
  std::vector<std::size_t> group_of_node_;  // by node
  std::set<std::int64_t> gone_, narrowed_;
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
