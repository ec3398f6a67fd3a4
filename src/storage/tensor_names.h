// SPDX-License-Identifier: Apache-2.0
// Maps each parameter of a layer to its place in the tensors of Hugging Face transformers, by family.
//
// The numbering of a layer's elements (plan/ownership.h) has, operator by operator:
//     column linear       output by output its weights, then its bias. Queries, keys and values: all queries, then head
//                         by head key and value. A gated MLP: gate and up in turn.
//     row linear          the bias, then input by input the outputs.
//     norm                scale, then shift.
//     tables and logits   row by row.
//
// For each projection, transformers has a tensor [outputs, inputs], with separate biases. In gpt2's Conv1D it is
// [inputs, outputs], with queries, keys and values in one.
//
// A TensorBlock is a part of a layer that lies regularly in one tensor, over 0 ≤ iₖ < size of every axis k:
//
//     element number        =   layer_offset + Σ iₖ·in_layer
//     place in the tensor   =   tensor_offset + Σ iₖ·in_tensor
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "plan/ownership.h"

namespace espalier::storage {

struct TensorAxis {
  std::int64_t size = 1, in_tensor = 0, in_layer = 0;
  bool operator==(const TensorAxis&) const = default;
};

struct TensorBlock {
  /// This is the name in a saved model for causal language modelling: "model.layers.0.mlp.up_proj.weight".
  std::string tensor;
  std::vector<std::int64_t> shape;  ///< shape of the tensor
  std::int64_t tensor_offset = 0, layer_offset = 0;
  std::vector<TensorAxis> axes;  ///< outermost in the layer first; each element of the layer occurs once
  bool operator==(const TensorBlock&) const = default;
};

/// Returns all elements of a layer, each in one block. Rejects families and operators whose names are not known here.
Result<std::vector<TensorBlock>> blocks_of(const Model& model, std::int32_t layer);

/// Describes elements that follow each other with equal steps both in the layer and in the tensor.
struct ElementRun {
  std::int64_t layer_first = 0, layer_step = 1, tensor_first = 0, tensor_step = 1, count = 0;
  bool operator==(const ElementRun&) const = default;
};
/// Calls `each` for the elements of a block in an interval of the layer, run by run. The time is proportional to the
/// runs.
void runs_in(const TensorBlock& block, const Interval& interval, const std::function<void(const ElementRun&)>& each);

/// Returns names under which files have a tensor: with the prefix of the family's model ("model.", "transformer.")
/// and without.
std::vector<std::string> names_in_files(const std::string& tensor, const Model& model);
/// Returns whether files may hold a tensor in addition to the parameters: masks, frequencies, and the output of a
/// model whose output is tied.
bool is_no_parameter(const std::string& tensor, const Model& model);

}  // namespace espalier::storage
