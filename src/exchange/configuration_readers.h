// SPDX-License-Identifier: Apache-2.0
// Declares readers for the configurations of frameworks that shard data-parallel ranks, one per file.
//
//   torchtitan  TOML (up to 0.2.1), or the command line of newer ones: --parallelism.tensor_parallel_degree 2
//               (b5bcd76c). Fields and defaults follow torchtitan/config. Fully sharded data parallelism keeps
//               parameters gathered between forward and backward where there is a pipeline ("default"), which is zero 2
//               here. Without a pipeline it gathers them again, which is zero 3.
//   deepspeed   JSON (0.19.6): train_batch_size = micro-batch · accumulation · replicas. Two of the three suffice.
//   accelerate  YAML (1.15): FSDP, version 1 and 2, DeepSpeed with its own keys or with the JSON that it names, or
//               plain data parallelism.
#pragma once

#include "exchange/settings.h"

namespace espalier::exchange {

ConfigurationFormat torchtitan_configuration();
ConfigurationFormat deepspeed_configuration();
ConfigurationFormat accelerate_configuration();

/// Takes the values that the training script sets from the request into `out`: micro-batch, sequence length, global
/// batch and recomputation. `global` and `micro` are those of the file, 0 where it does not have them. `replicas`
/// counts the ranks that take separate samples.
void take_batch(SettingReader& reader, const ConfigurationRequest& request, std::int64_t micro, std::int64_t global,
                std::int64_t replicas, ImportedConfiguration& out);
/// Takes the recomputation that the request names.
void take_recompute(SettingReader& reader, const ConfigurationRequest& request, ImportedConfiguration& out);
/// Reads DeepSpeed's own keys.
Result<ImportedConfiguration> read_deepspeed(const ConfigurationRequest& request);

}  // namespace espalier::exchange
