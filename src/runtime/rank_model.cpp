// SPDX-License-Identifier: Apache-2.0
#include "runtime/rank_model.h"

#include <algorithm>

#include "base/format.h"
#include "base/invariant.h"
#include "runtime/rank_builder.h"

namespace espalier::runtime {

// ---- groups -------------------------------------------------------------------------------------------------------

void Groups::make(const std::string& purpose, const Members& members) {
  if (members.size() < 2 || made_.count({purpose, members}) > 0) return;
  std::string name = base::cat(prefix_, "/", purpose);
  for (const int member : members) name += base::cat("-", member);
  made_[{purpose, members}] = meeting_.group(name, members);
}

Communicator* Groups::find(const std::string& purpose, const Members& members) const {
  if (members.size() < 2) return nullptr;
  const auto at = made_.find({purpose, members});
  ESPALIER_CHECK(at != made_.end() && at->second != nullptr);
  return at->second.get();
}

std::map<std::string, Calls> Groups::calls() const {
  std::map<std::string, Calls> out;
  for (const auto& [key, group] : made_) {
    if (group == nullptr) continue;
    Calls& sum = out[key.first];
    sum.collectives += group->calls().collectives;
    sum.messages += group->calls().messages;
  }
  return out;
}

int RankView::rank_of(std::int64_t d) const {
  return static_cast<int>(std::lower_bound(devices.begin(), devices.end(), d) - devices.begin());
}

at::ScalarType RankView::type() const { return plan->training.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat; }

const RankClass& rank_class(const Program& program, std::int64_t device) {
  const auto at =
      std::find_if(program.ranks.begin(), program.ranks.end(), [&](const RankClass& rank) { return rank.device() == device; });
  ESPALIER_CHECK(at != program.ranks.end());
  return *at;
}

// ---- the model ----------------------------------------------------------------------------------------------------

RankModel::RankModel(const RankView& view, const Program& program, Groups& groups) {
  Builder(view, program, groups, *this).build();
}
RankModel::~RankModel() = default;

Layer& RankModel::layer(std::int32_t index) { return *layers_.at(index); }

std::vector<State*> RankModel::states() const {
  std::vector<State*> out;
  for (const auto& state : states_) out.push_back(state.get());
  return out;
}

State* RankModel::state_of(const StateUnit& unit) const {
  for (const auto& state : states_)
    if (state->shape().unit == unit) return state.get();
  return nullptr;
}

std::vector<State*> RankModel::settled_by(std::int32_t layer) const {
  const auto at = settled_.find(layer);
  return at == settled_.end() ? std::vector<State*>{} : at->second;
}

}  // namespace espalier::runtime
