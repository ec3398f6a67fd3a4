// SPDX-License-Identifier: Apache-2.0
// Writes a plan as Python for Megatron-Bridge (0.6). planned(cfg) sets the plan's values in the ConfigContainer of
// any recipe of the model. Names are those of cfg.model (megatron-core's TransformerConfig), cfg.train, cfg.dataset,
// cfg.ddp, cfg.optimizer and cfg.comm_overlap in 0.6.2. The rules are Megatron's ("MEG-"); the layout of uneven
// stages is megatron_layout().
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter megatron_bridge();

}  // namespace espalier::exchange
