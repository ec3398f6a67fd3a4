// SPDX-License-Identifier: Apache-2.0
// Holds a layer's parameters, gradients and optimizer states on one rank, and exchanges them in the rank's groups.
//
// Elements are in one flat list, in the order of plan/ownership.h; a rank lists the elements that it holds. A shard
// group of g ranks divides the list into g equal parts of ⌈n/g⌉, padded with zeros, or by the stage's state shares
// (plan/state_units.h). The ZeRO stage decides what is sharded (Rajbhandari et al. 2020):
//     0  nothing: gradients are all-reduced once per step.
//     1  states: gradients are reduce-scattered once per step, values gathered once per step.
//     2  also gradients: they are reduce-scattered after the backward of every micro-batch.
//     3  also values: they are gathered before a layer runs and dropped after.
// Where shard groups have replicas, the parts are all-reduced among these.
//
// Gradients of weights that tensor parallelism does not split are partial under sequence parallelism. Gradients of
// keys and values are partial where several ranks hold one head, or one tile of a partitioned operator. These are
// summed in the tensor group before anything else.
//
// AdamW (Loshchilov and Hutter 2019), all parameters decayed:
//     m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  w ← w − η·(m̂ / (√v̂ + ε) + λw)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/model.h"
#include "plan/state_units.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

/// Marks a part of a flat list.
struct Segment {
  std::int64_t offset = 0, size = 0;
};

/// Names elements whose gradients are partial on each member of a group.
struct PartialSum {
  std::vector<Segment> segments;  ///< within the flat list
  Communicator* group = nullptr;  ///< null: this rank alone
};

/// Describes the elements that a rank holds of some operators of a layer, and its groups for them.
struct StateShape {
  std::int32_t layer = 0;
  ZeroStage zero = ZeroStage::none;
  StateUnit unit;
  Intervals held;                      ///< elements of the layer, by number
  Intervals counted;                   ///< elements of the own part that no earlier rank of the stage has
  std::int64_t shards = 1, shard = 0;  ///< the own part is the `shard`-th of `shards`
  std::vector<std::int64_t> shares;    ///< weights of the parts; empty: equal
  /// This is the type of the values that layers read and ranks gather. The updated values, gradients and moments are
  /// fp32.
  at::ScalarType type = at::kFloat;
  std::vector<PartialSum> sums;         ///< sums inside the tensor group, before anything else
  Communicator* shard_group = nullptr;  ///< null: this rank alone
  Communicator* replicas = nullptr;
};

struct AdamW {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1;
};

class State {
 public:
  State(StateShape shape, const std::vector<float>& initial);

  [[nodiscard]] const StateShape& shape() const { return shape_; }
  /// Replaces the values of all held elements.
  void restore(const std::vector<float>& values);
  /// Replaces the moments of the own part.
  void restore_moments(const std::vector<float>& first, const std::vector<float>& second);
  /// Make the whole list readable and drop it again (ZeRO 3; otherwise nothing). Uses may be nested.
  void acquire();
  void release();
  /// Returns a segment of the whole flat list while it is readable.
  [[nodiscard]] at::Tensor values(const Segment& segment) const;
  /// Returns the tensor in which gradients of a segment are added up.
  at::Tensor gradient(const Segment& segment);

  /// Marks that a micro-batch has added its gradients.
  void micro_batch_done();
  /// Sums over the data ranks, once all micro-batches have added their gradients. A second call in a step does
  /// nothing.
  void finish_gradients() { finish_gradients({this}); }
  /// Finishes several states; data for the same ranks travels together. Every rank of a group calls this with the
  /// same list of states.
  static void finish_gradients(const std::vector<State*>& states);
  /// Return the gradients of the own part, and the sum of their squares over `counted`. Both need finish_gradients
  /// first.
  [[nodiscard]] const at::Tensor& own_gradient() const { return reduced_; }
  /// Sums over stages that hold copies of a table, after finish_gradients.
  void sum_over(Communicator& copies);
  [[nodiscard]] double squares() const;
  /// Runs update number `step` (from 1) with gradients times `scale`, then sets gradients to 0.
  void update(const AdamW& adam, double scale, std::int64_t step);
  /// Sends updated values to the other ranks of the group (ZeRO 1 and 2), for several states together.
  static void publish(const std::vector<State*>& states);
  /// Returns whether the values are those of the last update on every rank.
  [[nodiscard]] bool fresh() const { return fresh_; }
  /// Returns the elements of the own part, by number.
  [[nodiscard]] const Intervals& own() const { return owned_; }
  /// Returns the own values in fp32, whatever type layers read.
  [[nodiscard]] const at::Tensor& own_values() const { return own_; }
  /// Return the AdamW moments of the own part.
  [[nodiscard]] const at::Tensor& first_moment() const { return first_; }
  [[nodiscard]] const at::Tensor& second_moment() const { return second_; }

 private:
  void sum_in_tensor_group();
  /// Copies the updated values into the own part that layers read.
  void follow();
  void gather(const at::Tensor& part);
  void scatter(at::Tensor part);

  StateShape shape_;
  std::int64_t elements_ = 0;
  std::int64_t offset_ = 0, part_ = 0;  // own part in the flat list; of equal parts the last ones are padded
  std::int64_t length_ = 0;             // length of the flat list with padding
  std::vector<std::int64_t> sizes_;     // sizes of all parts, where they are unequal
  Intervals owned_;
  // `whole_` is the list that layers read. `own_` is fp32, and a view of `whole_` where layers read fp32 and ZeRO 3
  // does not drop it. `read_` is the own part as layers read it (ZeRO 3). `gradient_` covers the whole list, with
  // ZeRO 2 and 3 only between a micro-batch's backward and its reduction. `reduced_` covers the own part and is a
  // view of `gradient_` under ZeRO 0 and 1.
  at::Tensor whole_, own_, read_, gradient_, reduced_, first_, second_;
  int users_ = 0;
  bool finished_ = false, fresh_ = true;
};

}  // namespace espalier::runtime
