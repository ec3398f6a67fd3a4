// SPDX-License-Identifier: Apache-2.0
// Compares the instructions of a program with the plan and the model:
//
//   program-layers     every pass of a chunk works on the chunk's layers, range by range, under the plan's
//                      strategies, with the samples that a rank has of a micro-batch under each
//   program-messages   where bytes are written: every transfer moves the bytes derived for its boundary, equally in
//                      both directions. Messages of collectives are positive and belong to known strategies. Shares
//                      of one chunk's buckets lie in (0, 1].
#pragma once

#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

std::vector<Finding> check_payload(const View& view, const Program& program);

}  // namespace espalier::check
