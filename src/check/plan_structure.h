// SPDX-License-Identifier: Apache-2.0
// Checks what a plan must satisfy before anything can be computed from it.
//
//   schedule          as many stages and chunks as the schedule states; v ≥ 2 (interleaved), 2 (ZB-V), 1 (all others)
//   coverage          every layer of the model exactly once, in order, along the pipeline
//   devices-once      every device of the cluster exactly once
//   strategies        all layers of a micro-batch take the same samples and overlap alike, and every stage takes the
//                     whole micro-batch
//   degrees           tp·cp·dp·pp = devices; every degree ≥ 1
//   stage-placement   every stage holds devices / pp of them. Under a rank order with dimensions d₁ (innermost) … d₄
//                     they are those with id = x₁ + n₁(x₂ + n₂(x₃ + n₃·x₄)), x of its own stage, listed by ascending
//                     id
//   device-order      where a plan lists them differently, all groups of a kind lie alike in the fabric (listed.h).
//                     The list determines which devices form a tensor, context or data group, and one price covers
//                     all groups of a kind.
#pragma once

#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// Returns the findings in the order above. After the first finding that is not ok the later ones may be missing.
std::vector<Finding> check_structure(const Plan& plan, const Model& model, const Cluster& cluster,
                                     PlanPart part = PlanPart::whole);

}  // namespace espalier::check
