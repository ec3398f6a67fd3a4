// SPDX-License-Identifier: Apache-2.0
// Writes a plan as the configuration file of Hugging Face Accelerate (1.15, FSDP2 with parallelism_config): sharded
// data parallelism, tensor and context parallelism. Accelerate has no pipelines. The script sets the micro-batches,
// so a comment states their size.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter accelerate_fsdp();

}  // namespace espalier::exchange
