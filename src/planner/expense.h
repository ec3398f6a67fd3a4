// SPDX-License-Identifier: Apache-2.0
// What a step costs in money:
//
//     step = Σ over nodes that the plan uses, all devices of the node, of price_per_device_hour · seconds / 3600
//          + Σ over ordered pairs of node groups of egress price · 10⁻⁹ · bytes from one to the other
//
// A node is paid for whole, as clouds let them. Bytes between groups are those of activations and their gradients (what
// every rank of the sending stage sends, per micro-batch; a rank that sends its tensor-parallel part counts with the
// part), and of gradients that meet between pipelines: in a ring of P pipelines each rank passes 2·(P − 1)/P of what it
// answers for on to the next pipeline.
#pragma once

#include <optional>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/prediction.h"

namespace espalier::planner {

/// Nothing where a node that the plan uses has no price, or the cluster no price at all.
std::optional<Expense> expense_of(const Job& job, const EngineModel& engine, const Timed& timed, double tokens_per_step);

}  // namespace espalier::planner
