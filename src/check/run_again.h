// SPDX-License-Identifier: Apache-2.0
// Operators of a block that run again before its backward pass under a set of modules, derived one by one from their
// position.
//
// A block is a row of pieces, each closed by a residual addition. In a piece that mixes tokens (attention, scans,
// convolutions) all up to the first product behind the last mixer belongs to the mixing; of what is left, or of another
// piece, dense products and activations are the MLP, or shared experts where the piece has a router, and everything
// else next to a router the routed experts. A norm that an engine fuses into the column product behind it is no part of
// its own: it runs again with an MLP, and stays otherwise. Norms before latents are never fused with what makes the
// latents.
#pragma once

#include <vector>

#include "check/view.h"

namespace espalier::check {

struct RunAgain {
  double share = 0;             ///< of the compute of the operator
  bool communication = false;   ///< of its forward pass, too
  bool dropped = false;         ///< what the operator keeps by itself
  bool source_dropped = false;  ///< what a dense product or a router reads
  bool enters_shared = false;   ///< a dense product that reads what the router reads
};

/// By operator; nothing runs again of other layers than blocks.
std::vector<RunAgain> run_again(const View& view, const LayerKind& kind);
/// The modules of the view's strategy, or those of its engine.
RecomputeModules modules_of(const View& view);
/// Whether q (or k and v) of the attention at `core` are made by column products of latents.
struct FromLatents {
  bool queries = false, keys = false;
};
FromLatents from_latents(const LayerKind& kind, std::size_t core);

}  // namespace espalier::check
