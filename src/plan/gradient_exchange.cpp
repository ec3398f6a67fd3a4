// SPDX-License-Identifier: Apache-2.0
#include "plan/gradient_exchange.h"

#include <algorithm>
#include <map>

#include "base/invariant.h"
#include "plan/engine.h"

namespace espalier {
namespace {

/// Holds the elements of a unit that a rank owns.
struct UnitOwner {
  std::int32_t party = 0;
  std::int64_t device = 0;
  Intervals elements;
  bool takes = true;  ///< receives gradients of other parties; otherwise it only sends
};

/// Splits a unit's elements at the ends of all intervals: every owner has all elements of an atom or none.
std::vector<Interval> atoms_of(const std::vector<UnitOwner>& owners) {
  std::vector<std::int64_t> ends;
  for (const UnitOwner& owner : owners)
    for (const Interval& piece : owner.elements) {
      ends.push_back(piece.first);
      ends.push_back(piece.last);
    }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<Interval> atoms;
  for (std::size_t k = 1; k < ends.size(); ++k) atoms.push_back({ends[k - 1], ends[k]});
  return atoms;
}

bool has(const Intervals& set, const Interval& atom) {
  const auto at =
      std::upper_bound(set.begin(), set.end(), atom.first, [](std::int64_t e, const Interval& piece) { return e < piece.last; });
  return at != set.end() && at->first <= atom.first && atom.last <= at->last;
}

class Exchanger {
 public:
  Exchanger(const Program& program, const Plan& plan, const Model& model)
      : program_(program), model_(model), engine_(*find_engine(plan.engine)), parties_(plan.pipelines.size()) {
    const auto holdings = holdings_of(plan, model);
    if (holdings) holdings_ = *holdings;
  }

  GradientExchange of(CollectiveId id) {
    messages_.clear();
    const Collective& meeting = program_.collectives[id];
    const auto head = static_cast<std::int32_t>(model_.layers.size()) - 1;
    for (std::int32_t l = meeting.layers.first; l <= meeting.layers.last; ++l) add_layer(meeting, l);
    if (meeting.layers.last == head && meeting.layers.first > 0) add_copies(meeting);
    GradientExchange out{id, {}};
    for (auto& [key, parts] : messages_) out.messages.push_back({key.from, key.to, key.party, std::move(parts)});
    return out;
  }

 private:
  struct Key {
    std::int64_t to = 0;
    std::int32_t party = 0;
    std::int64_t from = 0;
    auto operator<=>(const Key&) const = default;
  };

  void add_layer(const Collective& meeting, std::int32_t layer);
  void add_copies(const Collective& meeting);
  void add_owners(const Holding& holding, const StateUnit& unit, bool takes, std::vector<UnitOwner>& owners) const;
  void exchange(const StateUnit& unit, const std::vector<UnitOwner>& owners);
  /// Returns whether the ranks of a holding take part in a reduction.
  [[nodiscard]] bool meets(const Holding& holding, const Collective& meeting) const {
    for (const std::int32_t r : program_.groups[meeting.pipelines].members) {
      const RankClass& rank = program_.ranks[static_cast<std::size_t>(r)];
      if (rank.pipeline == holding.pipeline && rank.stage.value == holding.stage) return true;
    }
    return false;
  }

  const Program& program_;
  const Model& model_;
  const EngineModel& engine_;
  std::size_t parties_;
  std::vector<Holding> holdings_;
  std::map<Key, std::vector<ExchangedPart>> messages_;
};

void Exchanger::add_owners(const Holding& holding, const StateUnit& unit, bool takes, std::vector<UnitOwner>& owners) const {
  for (std::size_t p = 0; p < holding.devices.size(); ++p)
    owners.push_back({holding.pipeline, holding.devices[p],
                      share_of(holding, model_, engine_, unit, static_cast<std::int64_t>(p)).own, takes});
}

/// Exchanges a layer between the ranks of all its holdings; a pipeline without one here takes part with the copy
/// of its table.
void Exchanger::add_layer(const Collective& meeting, std::int32_t layer) {
  std::map<Intervals, std::pair<StateUnit, std::vector<UnitOwner>>> units;
  for (const Holding& holding : holdings_) {
    if (holding.table_copy || layer < holding.first_layer || layer > holding.last_layer || !meets(holding, meeting)) continue;
    Holding one = holding;
    one.first_layer = one.last_layer = layer;
    for (const StateUnit& unit : units_of(one, model_)) {
      auto& entry = units[unit.elements];
      entry.first = unit;
      add_owners(holding, unit, true, entry.second);
    }
  }
  for (const auto& [elements, entry] : units) exchange(entry.first, entry.second);
}

/// Exchanges the token table next to the head. Copies receive here. The embedding's own table, if it is on the same
/// stage, sends here and receives with its own segment.
void Exchanger::add_copies(const Collective& meeting) {
  std::vector<UnitOwner> owners;
  StateUnit table;
  for (const Holding& holding : holdings_) {
    if (!holding.table_copy && holding.first_layer > 0) continue;
    if (!meets(holding, meeting)) continue;
    Holding one = holding;
    one.first_layer = one.last_layer = 0;
    for (const StateUnit& unit : units_of(one, model_)) {
      if (!unit.table) continue;
      table = unit;
      add_owners(holding, unit, holding.table_copy, owners);
    }
  }
  if (!owners.empty()) exchange(table, owners);
}

void Exchanger::exchange(const StateUnit& unit, const std::vector<UnitOwner>& owners) {
  for (const Interval& atom : atoms_of(owners)) {
    std::vector<std::vector<const UnitOwner*>> having(parties_);
    for (const UnitOwner& owner : owners)
      if (has(owner.elements, atom)) having[static_cast<std::size_t>(owner.party)].push_back(&owner);
    for (std::size_t taker = 0; taker < parties_; ++taker)
      for (std::size_t n = 0; n < having[taker].size(); ++n)
        for (std::size_t giver = 0; giver < parties_; ++giver) {
          if (giver == taker || !having[taker][n]->takes) continue;
          ESPALIER_CHECK(!having[giver].empty());  // every pipeline holds the whole model
          const UnitOwner& from = *having[giver][n % having[giver].size()];
          auto& parts = messages_[{having[taker][n]->device, from.party, from.device}];
          if (parts.empty() || !(parts.back().unit == unit)) parts.push_back({unit, {}});
          Intervals& elements = parts.back().elements;
          if (!elements.empty() && elements.back().last == atom.first)
            elements.back().last = atom.last;
          else
            elements.push_back(atom);
        }
  }
}

}  // namespace

std::vector<GradientExchange> exchanges_of(const Program& program, const Plan& plan, const Model& model) {
  std::vector<CollectiveId> meetings;
  for (CollectiveId id(0); id.value < static_cast<std::int32_t>(program.collectives.size()); ++id.value)
    if (program.collectives[id].pipelines.valid()) meetings.push_back(id);
  std::vector<GradientExchange> out;
  if (meetings.empty()) return out;
  Exchanger exchanger(program, plan, model);
  for (const CollectiveId id : meetings) out.push_back(exchanger.of(id));
  return out;
}

}  // namespace espalier
