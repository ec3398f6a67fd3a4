// SPDX-License-Identifier: Apache-2.0
// What one rank has of the model under a plan: the groups in which it meets others, the states it holds, and its
// layers.
//
// Who holds what follows from plan/ownership.h, who meets whom from plan/process_groups.h; nothing of it is derived
// again here. World rank r is the device with the r-th smallest id of the plan.
//
// A token table that the head shares (tied) is a state of its own beside the rest of layer 0, so that its ZeRO parts
// lie alike on the stage of the embedding and on stages that hold a copy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/ownership.h"
#include "plan/program.h"
#include "plan/state_units.h"
#include "runtime/architecture.h"
#include "runtime/communicator.h"
#include "runtime/layer.h"

namespace espalier::runtime {

/// Groups of ranks by what they are for and who is in them; two purposes have connections of their own, so that two
/// threads can use them.
class Groups {
 public:
  Groups(Meeting& meeting, std::string prefix) : meeting_(meeting), prefix_(std::move(prefix)) {}
  /// Every rank of the run calls this for the same groups in the same order.
  void make(const std::string& purpose, const std::vector<int>& members);
  /// Of this rank; null where it would be alone.
  [[nodiscard]] Communicator* find(const std::string& purpose, const std::vector<int>& members) const;
  /// What this rank has called, by purpose.
  [[nodiscard]] std::map<std::string, Calls> calls() const;

 private:
  Meeting& meeting_;
  std::string prefix_;
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<Communicator>> made_;
};

/// The plan as this rank sees it.
struct RankView {
  const Plan* plan = nullptr;
  const Model* model = nullptr;
  Architecture architecture;
  std::vector<std::int64_t> devices;  ///< of the plan, ascending: world rank → device
  std::int64_t device = 0;            ///< of this rank
  std::uint64_t seed = 1;
  bool initialised = true;         ///< parameters begin as runtime/initial.h says; false: with zeros, as others follow
  OperatorClock* clock = nullptr;  ///< of all layers; null: operators are not timed
  [[nodiscard]] int rank_of(std::int64_t device) const;
  /// Of parameters as layers read them, and of activations and their gradients.
  [[nodiscard]] at::ScalarType type() const;
};

/// The list of a device in a program of all devices.
const RankClass& rank_class(const Program& program, std::int64_t device);

class RankModel {
 public:
  /// Makes all groups of the plan and the states and layers of this rank; `program` is that of the plan, unfolded.
  RankModel(const RankView& view, const Program& program, Groups& groups);
  ~RankModel();
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  [[nodiscard]] Layer& layer(std::int32_t index);
  [[nodiscard]] std::vector<State*> states() const;
  /// Of a unit that this rank holds some of; null: none.
  [[nodiscard]] State* state_of(const StateUnit& unit) const;
  /// Those whose gradients are complete when the backward of a layer's chunk has come to this layer. A table that is
  /// used by two chunks of this rank is none of them.
  [[nodiscard]] std::vector<State*> settled_by(std::int32_t layer) const;
  /// The token table, or its copy, that several stages hold; null: not here.
  [[nodiscard]] State* copied_table() const { return copied_table_; }
  [[nodiscard]] Communicator* copies() const { return copies_; }

 private:
  class Builder;
  std::map<std::int32_t, std::unique_ptr<Layer>> layers_;
  std::vector<std::unique_ptr<State>> states_;
  std::map<std::int32_t, std::vector<State*>> settled_;
  State* copied_table_ = nullptr;
  Communicator* copies_ = nullptr;
};

}  // namespace espalier::runtime
