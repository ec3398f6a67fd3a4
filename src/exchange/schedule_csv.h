// SPDX-License-Identifier: Apache-2.0
// Writes a pipeline's order of compute as PyTorch reads it (torch.distributed.pipelining,
// _PipelineScheduleRuntime._load_csv with "compute_only"), for torchtitan's
// --parallelism.pipeline_parallel_schedule_csv. There is a row per pipeline rank. Its cells STAGE, F | B | I | W,
// MICRO-BATCH are in the order in which they run. B computes both gradients, I that of the input, W that of the
// weights. Stages are counted along the pipeline: rank + k · pp, or down and up for zb-v.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter schedule_csv();

}  // namespace espalier::exchange
