// SPDX-License-Identifier: Apache-2.0
// Defines in which dimensions layers and stages of one plan may differ under an engine (data/engines.yaml: per_layer,
// per_stage), and checks a plan against it.
//
// A dimension that is not listed has one value in the whole plan, among the layers to which it applies. Recomputation
// applies only to blocks, sequence parallelism to tensor groups (tp > 1), and the kind of context parallelism to cp >
// 1. A ZeRO stage applies if ranks share weights, and a shard group if states are sharded. dp and the micro-batch
// follow from tp, cp and the samples. Shard groups are compared by the number of copies of the states (data ranks /
// shard). Overlap is one switch for all layers in every engine.
//
// Some values exclude each other in one plan although each of them is allowed: for such a dimension, `together` lists
// the sets of values that may occur together.
//
// A LayerClass holds the values that the layers of one plan share. The plans of an engine are the plans of its classes.
// So searching every class, with layers free to differ in the rest, covers exactly the plans that the engine can run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/dimension.h"

namespace espalier {

struct LayerFreedom {
  DimensionSet differ_in = 0;  ///< dimensions in which layers may differ
  bool partition = false;      ///< layers may also differ in operator partitions
  std::vector<std::vector<std::int64_t>> zero_together,
      sp_together;                 ///< sets of values, one of them in a plan; empty: any values
  bool embedding_as_head = false;  ///< embedding and head have equal tp, sp, cp, zero and shard
  bool any_stage = false;          ///< a stage may have any number of layers
  bool blocks_everywhere = false;  ///< every stage has a block
};

/// Returns every dimension in which layers of a plan can differ at all, in the order in which they are named.
std::vector<Dimension> layer_dimensions();
/// Returns whether any plan exists beyond one strategy for all layers and stages cut by policy.
bool has_freedom(const LayerFreedom& freedom);
/// Returns whether every plan of the layer-wise space is allowed.
bool is_unrestricted(const LayerFreedom& freedom);
/// Returns "layers may differ in: recompute, zero; stages in: layers", or "… in: nothing; …".
std::string to_string(const LayerFreedom& freedom);

/// Holds the values that layers of one plan share. For dimensions in which they may differ, it holds the index of the
/// allowed set, or 0.
struct LayerClass {
  std::vector<std::int64_t> values;  ///< in the order of layer_dimensions
  BlockPartition partition;
  RecomputeModules modules;  ///< modules that the strategy names, where layers may not differ in recomputation
  auto operator<=>(const LayerClass&) const = default;
};
/// Returns the classes to which a layer with this strategy can belong. In admits(), `block` states whether
/// recomputation applies to the layer.
std::vector<LayerClass> classes_of(const LayerFreedom& freedom, const Strategy& strategy);
bool admits(const LayerFreedom& freedom, const LayerClass& all, const Strategy& strategy, bool block);

/// Returns one sentence for each forbidden difference between layers or stages of a plan. `chunks` are in pipeline
/// order, `stages` of them in a round.
std::vector<std::string> layer_faults(const LayerFreedom& freedom, const Model& model, const Schedule& schedule,
                                      const std::vector<std::vector<LayerRange>>& chunks);
/// Returns the faults of a plan of sound structure; a uniform plan has none.
std::vector<std::string> layer_faults(const LayerFreedom& freedom, const Model& model, const Plan& plan);

}  // namespace espalier
