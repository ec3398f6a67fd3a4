// SPDX-License-Identifier: Apache-2.0
// Computes the price of a step:
//
//     step = Σ price_per_device_hour · seconds / 3600               over all devices of the nodes that the plan uses
//          + Σ egress price · 10⁻⁹ · bytes from one to the other    over ordered pairs of node groups
//
// Nodes are paid for whole, as clouds rent them out. Bytes between groups come from two sources. The first is
// activations and their gradients: what every rank of the sending stage sends per micro-batch. A rank that sends only
// its tensor-parallel part counts with that part. The second is gradients that are reduced between pipelines: in a
// ring of P pipelines each rank passes 2·(P − 1)/P of its part on to the next pipeline.
#pragma once

#include <optional>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/prediction.h"

namespace espalier::planner {

/// Returns the price; nullopt if the plan uses a node without a price, or the cluster has no prices at all.
std::optional<Expense> expense_of(const Job& job, const EngineModel& engine, const Timed& timed, double tokens_per_step);

}  // namespace espalier::planner
