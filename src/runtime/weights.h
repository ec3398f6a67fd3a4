// SPDX-License-Identifier: Apache-2.0
// Parameters of a run in a folder of Hugging Face transformers. Every rank reads what it holds; rank 0 writes what all
// send it, layer by layer, so that only it needs the folder and only one layer's memory.
#pragma once

#include <string>
#include <vector>

#include "runtime/rank_model.h"

namespace espalier::runtime {

/// Elements of a layer that a rank counts as its own (StateShape::counted), and something of each.
struct CountedPart {
  std::int32_t layer = 0;
  Intervals elements;
  std::vector<float> values;
};
/// Of a tensor that lies as the own part of the state does.
CountedPart counted_part(const State& state, const at::Tensor& own);

/// Every rank of the run calls these; an error is that of all of them.
Status load_weights(const std::string& path, const RankView& view, RankModel& model, Communicator* world);
Status save_weights(const std::string& folder, const RankView& view, const RankModel& model, Communicator* world);

}  // namespace espalier::runtime
