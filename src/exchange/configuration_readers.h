// SPDX-License-Identifier: Apache-2.0
// Readers of the configurations of frameworks that shard data-parallel ranks, one a file.
//
//   torchtitan  TOML (up to 0.2.1), or the command line of newer ones: --parallelism.tensor_parallel_degree 2
//   (b5bcd76c); fields and defaults of
//               torchtitan/config. Fully sharded data parallelism keeps parameters gathered between forward and
//               backward where there is a
//               pipeline ("default"), which is zero 2 here, and gathers them again where there is none, which is zero 3
//   deepspeed   JSON (0.19.6): train_batch_size = micro-batch · accumulation · replicas, two of the three may be given
//   accelerate  YAML (1.15): FSDP, version 1 and 2, DeepSpeed with its own keys or with the JSON that it names, or
//   plain data parallelism
#pragma once

#include "exchange/settings.h"

namespace espalier::exchange {

ConfigurationFormat torchtitan_configuration();
ConfigurationFormat deepspeed_configuration();
ConfigurationFormat accelerate_configuration();

/// What of "training script says it": micro-batch, sequence length, global batch and recomputation of the request, into
/// `out`. `global` and `micro` are those of the file, 0 where it does not say them; replicas: ranks that take samples
/// of their own.
void take_batch(SettingReader& reader, const ConfigurationRequest& request, std::int64_t micro, std::int64_t global,
                std::int64_t replicas, ImportedConfiguration& out);
/// The request's word for recomputation.
void take_recompute(SettingReader& reader, const ConfigurationRequest& request, ImportedConfiguration& out);
/// DeepSpeed's own keys.
Result<ImportedConfiguration> read_deepspeed(const ConfigurationRequest& request);

}  // namespace espalier::exchange
