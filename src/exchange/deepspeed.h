// SPDX-License-Identifier: Apache-2.0
// A plan as DeepSpeed's JSON (0.19): batch, ZeRO, AutoTP, Ulysses. Pipelines are Python there and recomputation is the
// model's own; that it is wanted stands under a key that DeepSpeed does not read.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter deepspeed_json();

}  // namespace espalier::exchange
