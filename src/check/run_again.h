// SPDX-License-Identifier: Apache-2.0
// Derives which operators of a block run again before its backward pass under a set of modules, from their position.
//
// A block is a row of pieces, each closed by a residual addition. Some pieces mix tokens (attention, scans,
// convolutions). In these, everything up to the first product after the last mixer belongs to the mixing. In the
// rest, and in other pieces, dense products and activations form the MLP. If the piece has a router, they are shared
// experts, and everything else is the routed experts. A norm that an engine fuses into the next column product does
// not count separately: it runs again with an MLP, and stays otherwise. Norms before latents are never fused with the
// products that make the latents.
#pragma once

#include <vector>

#include "check/view.h"

namespace espalier::check {

struct RunAgain {
  double share = 0;             ///< share of the operator's compute
  bool communication = false;   ///< whether communication of its forward pass runs again
  bool dropped = false;         ///< whether the operator's own tensor is dropped
  bool source_dropped = false;  ///< whether the input of a dense product or a router is dropped
  bool enters_shared = false;   ///< whether a dense product reads the router's input
};

/// Returns one entry per operator. Only blocks have operators that run again.
std::vector<RunAgain> run_again(const View& view, const LayerKind& kind);
/// Returns the modules of the view's strategy, or of its engine by default.
RecomputeModules modules_of(const View& view);
/// States whether column products of latents make q (or k and v) of the attention at `core`.
struct FromLatents {
  bool queries = false, keys = false;
};
FromLatents from_latents(const LayerKind& kind, std::size_t core);

}  // namespace espalier::check
