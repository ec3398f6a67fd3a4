// SPDX-License-Identifier: Apache-2.0
// A plan as a Python module for PyTorch's fully_shard: the mesh, and for each block whether its parameters are freed
// after the forward pass and what of it is recomputed. Tensor and context parallelism are applied by the user's code
// over the mesh that the module returns.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter fsdp2_recipe();

}  // namespace espalier::exchange
