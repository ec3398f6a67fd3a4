// SPDX-License-Identifier: Apache-2.0
// A plan as Python for Megatron-Bridge (0.6): planned(cfg) sets on the ConfigContainer of any recipe of the model what
// the plan decides. Names are those of cfg.model (megatron-core's TransformerConfig), cfg.train, cfg.dataset, cfg.ddp,
// cfg.optimizer and cfg.comm_overlap in 0.6.2; the rules are Megatron's ("MEG-"), the layout of uneven stages is
// megatron_layout().
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter megatron_bridge();

}  // namespace espalier::exchange
