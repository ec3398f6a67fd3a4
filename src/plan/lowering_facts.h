// SPDX-License-Identifier: Apache-2.0
// Which step-end communication a configuration has: the facts of Lowering, from the strategy alone.
//
//   reduce_gradients    data_ranks > 1 and the shard group does not reduce per micro-batch (ZeRO ≤ 1) or has replicas
//                       (ZeRO ≥ 2 with shard < data_ranks); or experts with replicas under ZeRO ≤ 1
//   gather_parameters   ZeRO 1 and 2: parameters are whole during the step and gathered once after the update
//   table_chunks        copies of a shared token table on different stages (zb-v: stage 0 holds embedding and head)
//   pieces              buckets of a chunk: its layers (at most kMaxPieces) when reduction or gathering runs beside compute, else 1
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/program.h"

namespace espalier {

bool has_experts(const Model& model);

/// `layers[c]` = layers of pipeline chunk c. Reuses the memory of `out`.
void lowering_facts(const Model& model, const Strategy& strategy, const Schedule& schedule,
                    const std::vector<std::int32_t>& layers, Lowering& out);

/// The same of a plan whose layers have strategies of their own: a collective is there when any strategy needs it.
void lowering_facts(const Model& model, const std::vector<const Strategy*>& strategies, const Schedule& schedule,
                    const std::vector<std::int32_t>& layers, Lowering& out);

}  // namespace espalier
