// SPDX-License-Identifier: Apache-2.0
// A plan as the configuration file of Hugging Face Accelerate (1.15, FSDP2 with parallelism_config): sharded data
// parallelism, tensor and context parallelism. It has no pipelines; micro-batches are the script's own, so that their
// size is said in a comment.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter accelerate_fsdp();

}  // namespace espalier::exchange
