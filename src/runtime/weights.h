// SPDX-License-Identifier: Apache-2.0
// Reads and writes parameters of a run in a folder of Hugging Face transformers. Every rank reads the elements that
// it holds. Rank 0 writes the elements that all ranks send it, layer by layer. Only rank 0 thus needs the folder, and
// only one layer's memory.
#pragma once

#include <string>
#include <vector>

#include "runtime/rank_model.h"

namespace espalier::runtime {

/// Holds elements of a layer that a rank counts as its own (StateShape::counted), and a value of each.
struct CountedPart {
  std::int32_t layer = 0;
  Intervals elements;
  std::vector<float> values;
};
/// Returns the counted part of a tensor with the layout of the state's own part.
CountedPart counted_part(const State& state, const at::Tensor& own);

/// Every rank of the run calls these functions, and all ranks return the same error.
Status load_weights(const std::string& path, const RankView& view, RankModel& model, Communicator* world);
Status save_weights(const std::string& folder, const RankView& view, const RankModel& model, Communicator* world);

}  // namespace espalier::runtime
