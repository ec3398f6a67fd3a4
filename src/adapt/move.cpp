// SPDX-License-Identifier: Apache-2.0
#include "adapt/move.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "adapt/loads.h"
#include "base/invariant.h"
#include "plan/engine.h"

namespace espalier::adapt {
namespace {

constexpr std::array kMoving = {StateKind::parameters, StateKind::optimizer};

/// Holds the shares of a plan's ranks. Each share is computed once; equal shares of a holding have one number.
class HeldShares {
 public:
  HeldShares(const MoveScene& scene, std::vector<Holding> holdings) : scene_(&scene), holdings_(std::move(holdings)) {}

  [[nodiscard]] const std::vector<Holding>& holdings() const { return holdings_; }
  /// Returns the holdings that contain a layer.
  [[nodiscard]] std::vector<int> of_layer(std::int32_t layer) const {
    std::vector<int> out;
    for (std::size_t i = 0; i < holdings_.size(); ++i)
      if (holdings_[i].first_layer <= layer && layer <= holdings_[i].last_layer) out.push_back(static_cast<int>(i));
    return out;
  }
  struct Shares {
    std::vector<RankShare> different;
    std::vector<int> of_position;
  };
  const Shares& shares(int holding, std::int32_t kind) {
    const auto [at, is_new] = known_.try_emplace({holding, kind});
    if (!is_new) return at->second;
    const Holding& h = holdings_[static_cast<std::size_t>(holding)];
    const LayerKind& layer = scene_->model->kinds[static_cast<std::size_t>(kind)];
    Shares& out = at->second;
    for (std::size_t r = 0; r < h.devices.size(); ++r) {
      RankShare share = share_of(h, *scene_->model, layer, *scene_->engine, static_cast<std::int64_t>(r));
      const auto same = std::find(out.different.begin(), out.different.end(), share);
      out.of_position.push_back(static_cast<int>(same - out.different.begin()));
      if (same == out.different.end()) out.different.push_back(std::move(share));
    }
    return out;
  }

 private:
  const MoveScene* scene_;
  std::vector<Holding> holdings_;
  std::map<std::pair<int, std::int32_t>, Shares> known_;
};

/// Describes layers of one kind that are held alike before and after.
struct Alike {
  std::int32_t kind = 0;
  std::vector<int> before, after;
  auto operator<=>(const Alike&) const = default;
};
std::map<Alike, std::int64_t> layers_alike(const Model& model, const HeldShares& before, const HeldShares& after) {
  std::map<Alike, std::int64_t> out;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const auto layer = static_cast<std::int32_t>(l);
    ++out[{model.layers[l], before.of_layer(layer), after.of_layer(layer)}];
  }
  return out;
}

/// Holds a device of the whole cluster and the intervals that it holds.
struct DeviceHolding {
  std::int64_t device = 0;
  const Intervals* set = nullptr;
};

/// Lists the holders of each piece between two interval borders of any device.
class HeldPieces {
 public:
  explicit HeldPieces(const std::vector<DeviceHolding>& owners) {
    for (const DeviceHolding& owner : owners)
      for (const Interval& piece : *owner.set) borders_.insert(borders_.end(), {piece.first, piece.last});
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
    holders_.resize(borders_.size());
    for (const DeviceHolding& owner : owners)
      for (const Interval& piece : *owner.set)
        for (std::size_t k = place(piece.first); borders_[k] < piece.last; ++k) holders_[k].push_back(owner.device);
  }
  /// Calls visit(elements, holders) for every part of `missing`. `holders` is null if there are none.
  template <class Visit>
  void each(const Interval& missing, const Visit& visit) const {
    std::int64_t at = missing.first;
    auto border = std::upper_bound(borders_.begin(), borders_.end(), at);
    for (; at < missing.last; ++border) {
      const std::int64_t end = border == borders_.end() ? missing.last : std::min(missing.last, *border);
      const auto k = static_cast<std::size_t>(border - borders_.begin());
      const std::vector<std::int64_t>* holders = k == 0 || holders_[k - 1].empty() ? nullptr : &holders_[k - 1];
      visit(end - at, holders);
      at = end;
      if (border == borders_.end()) break;
    }
  }

 private:
  [[nodiscard]] std::size_t place(std::int64_t x) const {
    return static_cast<std::size_t>(std::lower_bound(borders_.begin(), borders_.end(), x) - borders_.begin());
  }
  std::vector<std::int64_t> borders_;
  std::vector<std::vector<std::int64_t>> holders_;  // one entry per pair of neighbouring borders
};

class Mover {
 public:
  Mover(const MoveScene& scene, const Placed& from, const Placed& to)
      : scene_(&scene),
        from_(&from),
        to_(&to),
        states_(states_of(*scene.engine, scene.training)),
        loads_(*scene.cluster, scene.state) {
    for (const std::int64_t node : scene.state.away) {
      const std::int64_t first = scene.cluster->first_device_of_node(node);
      const std::int64_t count = scene.cluster->groups[scene.cluster->group_of_node(node)].devices_per_node;
      for (std::int64_t d = first; d < first + count; ++d) gone_.insert(d);
    }
  }

  Move price(HeldShares& before, HeldShares& after) {
    for (const auto& [alike, layers] : layers_alike(*scene_->model, before, after))
      for (const StateKind state : kMoving)
        if (bytes_of(state, states_) > 0) move_state(alike, layers, state, before, after);
    Move& m = move_;
    m.restart_s = scene_->options.restart_s;
    m.warm_up_s = scene_->options.warm_up_s;
    // States of the last checkpoint are older than those of the peers: all ranks go back to them, or none.
    if (m.lost_bytes > 0 || storage_s() + scene_->options.checkpoint_age_s < loads_.seconds()) {
      from_storage();
      return m;
    }
    m.links = loads_.links();
    m.transfer_s = loads_.seconds();
    return m;
  }

 private:
  void move_state(const Alike& alike, std::int64_t layers, StateKind state, HeldShares& before, HeldShares& after) {
    std::vector<DeviceHolding> owners;
    std::map<std::int64_t, const Intervals*> own;
    for (const int h : alike.before) {
      const Holding& holding = before.holdings()[static_cast<std::size_t>(h)];
      const HeldShares::Shares& shares = before.shares(h, alike.kind);
      for (std::size_t r = 0; r < holding.devices.size(); ++r) {
        const std::int64_t device = from_->devices[static_cast<std::size_t>(holding.devices[r])];
        if (gone_.count(device) > 0) continue;
        const RankShare& share = shares.different[static_cast<std::size_t>(shares.of_position[r])];
        owners.push_back({device, &held_of(share, state, holding.strategy.zero)});
        own[device] = owners.back().set;
      }
    }
    const HeldPieces pieces(owners);
    const std::int64_t each = bytes_of(state, states_) * layers;
    for (const int h : alike.after) {
      const Holding& holding = after.holdings()[static_cast<std::size_t>(h)];
      const HeldShares::Shares& shares = after.shares(h, alike.kind);
      for (std::size_t r = 0; r < holding.devices.size(); ++r) {
        const std::int64_t device = to_->devices[static_cast<std::size_t>(holding.devices[r])];
        const RankShare& share = shares.different[static_cast<std::size_t>(shares.of_position[r])];
        const Intervals& needs = held_of(share, state, holding.strategy.zero);
        const auto has = own.find(device);
        const Intervals missing = has == own.end() ? needs : difference(needs, *has->second);
        reads_[device] += elements_of(needs) * each;
        move_.kept_bytes += (elements_of(needs) - elements_of(missing)) * each;
        for (const Interval& interval : missing)
          pieces.each(interval, [&](std::int64_t elements, const std::vector<std::int64_t>* holders) {
            fetch(device, elements * each, holders);
          });
      }
    }
  }

  /// Returns the sources for a device. Holders on its own node come first, then those of its group if one of
  /// them has its full path to the network, then all others.
  std::vector<std::int64_t> sources(std::int64_t device, const std::vector<std::int64_t>& holders) {
    std::vector<std::int64_t> all, near;
    bool inside = false, wide = false;
    for (const std::int64_t holder : holders) {
      if (!loads_.reaches(holder, device)) continue;
      all.push_back(holder);
      const int distance = loads_.distance(holder, device);
      if (distance == 0 && !std::exchange(inside, true)) near.clear();
      if (distance == (inside ? 0 : 1)) near.push_back(holder);
      wide |= distance == 1 && !loads_.narrowed(holder);
    }
    return inside || wide ? near : all;
  }

  /// Fetches bytes in parts, each from the source whose path would have carried it first.
  void fetch(std::int64_t device, std::int64_t bytes, const std::vector<std::int64_t>* holders) {
    const std::vector<std::int64_t> from = holders == nullptr ? std::vector<std::int64_t>() : sources(device, *holders);
    if (from.empty()) {
      move_.lost_bytes += bytes;
      return;
    }
    move_.peer_bytes += bytes;
    constexpr std::size_t kMostParts = 8;
    const auto parts = static_cast<std::int64_t>(std::min(from.size(), kMostParts));
    for (std::int64_t k = 0; k < parts; ++k) {
      const std::int64_t part = bytes / parts + (k < bytes % parts ? 1 : 0);
      if (part == 0) continue;
      std::int64_t first = from.front();
      double least = loads_.busy_s(first, device, part);
      for (const std::int64_t holder : from)
        if (const double busy = loads_.busy_s(holder, device, part); busy < least) {
          least = busy;
          first = holder;
        }
      loads_.send(first, device, part);
    }
  }

  /// Returns the seconds for the device that reads most of a checkpoint.
  [[nodiscard]] double storage_s() const {
    std::int64_t most = 0;
    for (const auto& [device, bytes] : reads_) most = std::max(most, bytes);
    return static_cast<double>(most) / scene_->options.storage_per_device;
  }

  void from_storage() {
    Move& m = move_;
    m.kept_bytes = m.peer_bytes = 0;
    for (const auto& [device, bytes] : reads_) m.storage_bytes += bytes;
    m.storage_s = storage_s();
    m.rollback_s = scene_->options.checkpoint_age_s;
    m.links = {{"storage", m.storage_bytes, m.storage_s}};
  }

  const MoveScene* scene_;
  const Placed *from_, *to_;
  StatePolicy states_;
  Loads loads_;
  std::set<std::int64_t> gone_;
  std::map<std::int64_t, std::int64_t> reads_;  // by device: all that it will hold
  Move move_;
};

}  // namespace

Move restart_alone(const MoveOptions& options) {
  Move m;
  m.restart_s = options.restart_s;
  m.warm_up_s = options.warm_up_s;
  return m;
}

Result<Move> move_of(const MoveScene& scene, const Placed& from, const Placed& to) {
  auto before = holdings_of(*from.plan, *scene.model);
  if (!before) return before.error();
  auto after = holdings_of(*to.plan, *scene.model);
  if (!after) return after.error();
  HeldShares held_before(scene, std::move(*before)), held_after(scene, std::move(*after));
  return Mover(scene, from, to).price(held_before, held_after);
}

Result<std::vector<std::vector<std::int64_t>>> kept_bytes(const MoveScene& scene, const Placed& from, const Plan& to,
                                                          const std::vector<std::int64_t>& devices) {
  auto before = holdings_of(*from.plan, *scene.model);
  if (!before) return before.error();
  auto after = holdings_of(to, *scene.model);
  if (!after) return after.error();
  HeldShares old(scene, std::move(*before)), now(scene, std::move(*after));
  std::map<std::int64_t, std::size_t> place;  // index of a device of the whole cluster
  for (std::size_t i = 0; i < devices.size(); ++i) place[devices[i]] = i;
  const StatePolicy states = states_of(*scene.engine, scene.training);
  std::vector<std::vector<std::int64_t>> out(devices.size(), std::vector<std::int64_t>(devices.size()));
  for (const auto& [alike, layers] : layers_alike(*scene.model, old, now)) {
    std::map<std::tuple<int, int, int, int>, std::int64_t> known;  // bytes common to a new and an old share
    for (const int b : alike.after)
      for (const int a : alike.before) {
        const Holding &hb = now.holdings()[static_cast<std::size_t>(b)], &ha = old.holdings()[static_cast<std::size_t>(a)];
        const HeldShares::Shares &sb = now.shares(b, alike.kind), &sa = old.shares(a, alike.kind);
        for (std::size_t i = 0; i < hb.devices.size(); ++i)
          for (std::size_t j = 0; j < ha.devices.size(); ++j) {
            const auto at = place.find(from.devices[static_cast<std::size_t>(ha.devices[j])]);
            if (at == place.end()) continue;
            const auto [bytes, is_new] = known.try_emplace({b, sb.of_position[i], a, sa.of_position[j]}, 0);
            if (is_new)
              for (const StateKind state : kMoving)
                bytes->second +=
                    layers * bytes_of(state, states) *
                    elements_of(intersection(
                        held_of(sb.different[static_cast<std::size_t>(sb.of_position[i])], state, hb.strategy.zero),
                        held_of(sa.different[static_cast<std::size_t>(sa.of_position[j])], state, ha.strategy.zero)));
            out[static_cast<std::size_t>(hb.devices[i])][at->second] += bytes->second;
          }
      }
  }
  return out;
}

}  // namespace espalier::adapt
