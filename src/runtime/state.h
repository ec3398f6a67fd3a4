// SPDX-License-Identifier: Apache-2.0
// Parameters, gradients and optimizer states that one rank holds of a layer, and what the ranks of its groups exchange
// of them.
//
// The elements lie one after the other as plan/ownership.h numbers them, of a rank those that it holds: one flat list.
// A shard group of g ranks divides the list into g equal parts of ⌈n/g⌉, the list padded with zeros, or by the stage's
// state shares (plan/state_units.h). By ZeRO stage (Rajbhandari et al. 2020):
//     0  values, gradients, states of the whole list; gradients are all-reduced once a step
//     1  states of the own part; gradients are reduce-scattered once a step, values gathered once a step
//     2  gradients as well: reduce-scattered after the backward of every micro-batch
//     3  values as well: gathered before a layer runs, dropped after
// Where shard groups have replicas, the parts are all-reduced among these.
// Gradients of what tensor parallelism does not split are partial under sequence parallelism, and those of keys and
// values are where several ranks hold one head, or one tile of a partitioned operator: these are summed in the tensor
// group before anything else.
//
// AdamW (Loshchilov and Hutter 2019), all parameters decayed:  m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,
// w ← w − η·(m̂ / (√v̂ + ε) + λw).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/model.h"
#include "plan/state_units.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

/// Part of a flat list.
struct Segment {
  std::int64_t offset = 0, size = 0;
};

/// Gradients of these elements are partial on each member of a group.
struct PartialSum {
  std::vector<Segment> segments;  ///< of the flat list
  Communicator* group = nullptr;  ///< null: this rank alone
};

/// What a rank holds of some operators of a layer, and with whom.
struct StateShape {
  std::int32_t layer = 0;
  ZeroStage zero = ZeroStage::none;
  StateUnit unit;
  Intervals held;                      ///< elements of the layer, by number
  Intervals counted;                   ///< of the own part, those that no rank before this one in its stage has
  std::int64_t shards = 1, shard = 0;  ///< the own part is the `shard`-th of `shards`
  std::vector<std::int64_t> shares;    ///< weights of the parts; empty: equal
  at::ScalarType type =
      at::kFloat;  ///< of the values that layers read and ranks gather; those that are updated, gradients and moments
                   ///< are fp32
  std::vector<PartialSum> sums;         ///< inside the tensor group, before anything else
  Communicator* shard_group = nullptr;  ///< null: nobody to meet
  Communicator* replicas = nullptr;
};

struct AdamW {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1;
};

class State {
 public:
  State(StateShape shape, const std::vector<float>& initial);

  [[nodiscard]] const StateShape& shape() const { return shape_; }
  /// Other values of all held elements.
  void restore(const std::vector<float>& values);
  /// Other moments of the own part.
  void restore_moments(const std::vector<float>& first, const std::vector<float>& second);
  /// Makes the whole list readable, and drops it again (ZeRO 3; otherwise nothing). Uses may be nested.
  void acquire();
  void release();
  /// The whole flat list, while it is readable.
  [[nodiscard]] at::Tensor values(const Segment& segment) const;
  /// Where gradients of a segment are added up.
  at::Tensor gradient(const Segment& segment);

  /// A micro-batch has added its gradients.
  void micro_batch_done();
  /// All have: sums over the data ranks. A second call in a step does nothing.
  void finish_gradients() { finish_gradients({this}); }
  /// The same of several: what goes to the same ranks travels together. Every rank of a group calls this with the same
  /// of its states.
  static void finish_gradients(const std::vector<State*>& states);
  /// Of the own part, after finish_gradients: gradients, and the sum of their squares over `counted`.
  [[nodiscard]] const at::Tensor& own_gradient() const { return reduced_; }
  /// The sum over stages that hold copies of a table, after finish_gradients.
  void sum_over(Communicator& copies);
  [[nodiscard]] double squares() const;
  /// Gradients times `scale`, then the update number `step` (from 1); gradients are 0 again.
  void update(const AdamW& adam, double scale, std::int64_t step);
  /// ZeRO 1 and 2: every rank gets the values that the others have updated, of several states together.
  static void publish(const std::vector<State*>& states);
  /// Whether the values are those of the last update on every rank.
  [[nodiscard]] bool fresh() const { return fresh_; }
  /// Elements of the own part, by number.
  [[nodiscard]] const Intervals& own() const { return owned_; }
  /// In fp32, whatever layers read.
  [[nodiscard]] const at::Tensor& own_values() const { return own_; }
  /// Of AdamW, of the own part.
  [[nodiscard]] const at::Tensor& first_moment() const { return first_; }
  [[nodiscard]] const at::Tensor& second_moment() const { return second_; }

 private:
  void sum_in_tensor_group();
  /// What layers read of the own part follows what was updated.
  void follow();
  void gather(const at::Tensor& part);
  void scatter(at::Tensor part);

  StateShape shape_;
  std::int64_t elements_ = 0;
  std::int64_t offset_ = 0, part_ = 0;  // of the own part in the flat list; of equal parts the last ones are padded
  std::int64_t length_ = 0;             // of the flat list with padding
  std::vector<std::int64_t> sizes_;     // of all parts, where they are unequal
  Intervals owned_;
  // whole_: what layers read; own_: fp32, where layers read fp32 and ZeRO 3 does not drop it a view of whole_; read_:
  // the own part as layers read it (ZeRO 3).
  // gradient_: of the whole list, with ZeRO 2 and 3 only between a micro-batch's backward and its reduction; reduced_:
  // of the own part, of which without them it is a view.
  at::Tensor whole_, own_, read_, gradient_, reduced_, first_, second_;
  int users_ = 0;
  bool finished_ = false, fresh_ = true;
};

}  // namespace espalier::runtime
