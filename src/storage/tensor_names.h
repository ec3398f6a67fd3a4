// SPDX-License-Identifier: Apache-2.0
// Where each parameter of a layer stands in the tensors of Hugging Face transformers, by family.
//
// The numbering of a layer's elements (plan/ownership.h) has, operator by operator:
//     column linear      output by output its weights, then its bias; of queries, keys and values all queries, then
//                        head by head key and value;
//                        of a gated MLP gate and up in turn
//     row linear         the bias, then input by input the outputs
//     norm               scale, then shift;  tables and logits: row by row
// transformers has a tensor [outputs, inputs] for each projection (gpt2's Conv1D: [inputs, outputs], queries, keys and
// values in one) and the biases apart. A TensorBlock is a part of a layer that lies regularly in one tensor: element
// number = layer_offset + Σ iₖ·in_layer, place in the tensor = tensor_offset + Σ iₖ·in_tensor, over 0 ≤ iₖ < size of
// every axis k.
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
  std::string tensor;               ///< as a model for causal language modelling is saved:
                                    ///< "model.layers.0.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;  ///< of the tensor
  std::int64_t tensor_offset = 0, layer_offset = 0;
  std::vector<TensorAxis> axes;  ///< outermost in the layer first; no two elements of the layer are one
  bool operator==(const TensorBlock&) const = default;
};

/// All elements of a layer, each in one block. Refused: families and operators whose names are not known here.
Result<std::vector<TensorBlock>> blocks_of(const Model& model, std::int32_t layer);

/// Elements that follow each other with equal steps both in the layer and in the tensor.
struct ElementRun {
  std::int64_t layer_first = 0, layer_step = 1, tensor_first = 0, tensor_step = 1, count = 0;
  bool operator==(const ElementRun&) const = default;
};
/// The elements of a block that lie in an interval of the layer, run by run; the time is that of what it gives.
void runs_in(const TensorBlock& block, const Interval& interval, const std::function<void(const ElementRun&)>& each);

/// Names under which files have a tensor: with the prefix of the family's model ("model.", "transformer.") and without.
std::vector<std::string> names_in_files(const std::string& tensor, const Model& model);
/// Tensors that files hold beside the parameters: masks, frequencies, and the output of a model whose output is tied.
bool is_no_parameter(const std::string& tensor, const Model& model);

}  // namespace espalier::storage
