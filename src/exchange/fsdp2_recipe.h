// SPDX-License-Identifier: Apache-2.0
// Writes a plan as a Python module for PyTorch's fully_shard: the mesh, and per block whether its parameters are
// freed after the forward pass and which part is recomputed. The user's code applies tensor and context parallelism
// over the mesh that the module returns.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter fsdp2_recipe();

}  // namespace espalier::exchange
