// SPDX-License-Identifier: Apache-2.0
// Writes a plan as DeepSpeed's JSON (0.19): batch, ZeRO, AutoTP, Ulysses. Pipelines are defined in Python there, and
// recomputation by the model. A key that DeepSpeed does not read records that recomputation is wanted.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter deepspeed_json();

}  // namespace espalier::exchange
