// SPDX-License-Identifier: Apache-2.0
// What layers and stages of one plan may differ in under an engine (data/engines.yaml: per_layer, per_stage), and
// whether those of a plan do.
//
// A dimension that is not listed has one value in the whole plan: for layers that have something to say about it.
// Recomputation means something to blocks alone, sequence parallelism to tensor groups (tp > 1), the kind of context
// parallelism to cp > 1, a ZeRO stage where ranks share weights, a shard group where states are sharded. dp and the
// micro-batch follow from tp, cp and the samples; shard groups are compared by how often states are held (data ranks /
// shard). Overlap is one switch for all layers in every engine.
//
// Some values exclude each other in one plan although each of them is allowed: `together` lists, of a dimension, the
// sets of values that may stand beside each other.
//
// A LayerClass is what the layers of one plan share. The plans of an engine are the plans of its classes, so a search
// of every class in which layers are free to differ in the rest is a search of exactly what the engine can run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/dimension.h"

namespace espalier {

struct LayerFreedom {
  DimensionSet differ_in = 0;  ///< of layers
  bool partition = false;      ///< layers may differ in operator partitions too
  std::vector<std::vector<std::int64_t>> zero_together,
      sp_together;                 ///< sets of values, one of them in a plan; empty: any values
  bool embedding_as_head = false;  ///< embedding and head have equal tp, sp, cp, zero and shard
  bool any_stage = false;          ///< a stage may have any number of layers
  bool blocks_everywhere = false;  ///< every stage has a block
};

/// Every dimension in which layers of a plan can differ at all, in the order in which they are named.
std::vector<Dimension> layer_dimensions();
/// Whether there is any plan beyond one strategy for all layers and stages cut by policy.
bool has_freedom(const LayerFreedom& freedom);
/// Whether every plan of the layer-wise space is allowed.
bool is_unrestricted(const LayerFreedom& freedom);
/// "layers may differ in: recompute, zero; stages in: layers", or "… in: nothing; …".
std::string to_string(const LayerFreedom& freedom);

/// The values that layers of one plan share; of dimensions in which they may differ the index of the set that is
/// allowed, or 0.
struct LayerClass {
  std::vector<std::int64_t> values;  ///< in the order of layer_dimensions
  BlockPartition partition;
  auto operator<=>(const LayerClass&) const = default;
};
/// The classes that a layer with this strategy can belong to. A block: whether recomputation means something to the
/// layer.
std::vector<LayerClass> classes_of(const LayerFreedom& freedom, const Strategy& strategy);
bool admits(const LayerFreedom& freedom, const LayerClass& all, const Strategy& strategy, bool block);

/// What layers and stages of a plan differ in and may not, a sentence each; `chunks` in pipeline order, `stages` of
/// them in a round.
std::vector<std::string> layer_faults(const LayerFreedom& freedom, const Model& model, const Schedule& schedule,
                                      const std::vector<std::vector<LayerRange>>& chunks);
/// The same of a plan of sound structure; a uniform plan has no faults.
std::vector<std::string> layer_faults(const LayerFreedom& freedom, const Model& model, const Plan& plan);

}  // namespace espalier
