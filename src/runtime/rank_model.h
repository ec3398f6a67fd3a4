// SPDX-License-Identifier: Apache-2.0
// Holds one rank's part of the model under a plan: its communication groups, its states, and its layers.
//
// The owners of elements follow from plan/ownership.h, the groups from plan/process_groups.h. Nothing of it is
// derived again here. World rank r is the device with the r-th smallest id of the plan.
//
// A token table that the head shares (tied) is a separate state next to the rest of layer 0. Its ZeRO parts thus have
// the same layout on the stage of the embedding and on stages that hold a copy.
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

/// Keeps groups of ranks by purpose and members. Two purposes have separate connections, so that two threads can use
/// them.
class Groups {
 public:
  Groups(Meeting& meeting, std::string prefix) : meeting_(meeting), prefix_(std::move(prefix)) {}
  /// Makes a group. Every rank of the run calls this for the same groups in the same order.
  void make(const std::string& purpose, const std::vector<int>& members);
  /// Returns this rank's communicator; null where it would be alone.
  [[nodiscard]] Communicator* find(const std::string& purpose, const std::vector<int>& members) const;
  /// Returns the calls of this rank by purpose.
  [[nodiscard]] std::map<std::string, Calls> calls() const;

 private:
  Meeting& meeting_;
  std::string prefix_;
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<Communicator>> made_;
};

/// Describes the plan as this rank sees it.
struct RankView {
  const Plan* plan = nullptr;
  const Model* model = nullptr;
  Architecture architecture;
  std::vector<std::int64_t> devices;  ///< devices of the plan, ascending: world rank → device
  std::int64_t device = 0;            ///< device of this rank
  std::uint64_t seed = 1;
  /// Parameters begin as in runtime/initial.h. Where false, they begin with zeros, because others follow.
  bool initialised = true;
  OperatorClock* clock = nullptr;  ///< clock of all layers; null: operators are not timed
  [[nodiscard]] int rank_of(std::int64_t device) const;
  /// Returns the type of parameters as layers read them, and of activations and their gradients.
  [[nodiscard]] at::ScalarType type() const;
};

/// Returns the instruction list of a device in a program of all devices.
const RankClass& rank_class(const Program& program, std::int64_t device);

class RankModel {
 public:
  /// Makes all groups of the plan, and the states and layers of this rank. `program` is that of the plan, unfolded.
  RankModel(const RankView& view, const Program& program, Groups& groups);
  ~RankModel();
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  [[nodiscard]] Layer& layer(std::int32_t index);
  [[nodiscard]] std::vector<State*> states() const;
  /// Returns the state of a unit that this rank holds a part of; null for other units.
  [[nodiscard]] State* state_of(const StateUnit& unit) const;
  /// Returns the states whose gradients are complete once the backward of a layer's chunk has passed this layer. A
  /// table that two chunks of this rank use is not among them.
  [[nodiscard]] std::vector<State*> settled_by(std::int32_t layer) const;
  /// Returns the token table, or its copy, that several stages hold; null where this rank has none.
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
