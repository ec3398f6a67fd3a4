// SPDX-License-Identifier: Apache-2.0
// The order of compute of a pipeline as PyTorch reads it (torch.distributed.pipelining,
// _PipelineScheduleRuntime._load_csv with "compute_only"), for
// torchtitan's --parallelism.pipeline_parallel_schedule_csv: a row a pipeline rank, cells STAGE, F | B | I | W,
// MICRO-BATCH in the order in which
// they run. B is both gradients, I that of the input, W that of the weights. Stages are counted along the pipeline:
// rank + k · pp, or, of zb-v, there and back.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter schedule_csv();

}  // namespace espalier::exchange
