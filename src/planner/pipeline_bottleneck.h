// SPDX-License-Identifier: Apache-2.0
// Describes in one sentence what a pipeline waits for. The rank that finishes last may have idled most of the step.
// The stage that idles least bounds the step. If idling is the largest part of even that stage, the pipeline bubble
// bounds the step.
#pragma once

#include <string>

#include "espalier/planner.h"
#include "planner/time_parts.h"

namespace espalier::planner {

/// Returns a named share such as "compute (62.3 %)".
std::string named_share(const TimePart& part, std::int64_t iteration_ns);
/// Returns the sentence for a plan of several stages.
///
///     "The step is bound by stage 3, busy 94.0 % of it: compute (90.1 %), exposed communication (3.2 %);
///     13 of 16 stages are busy within 5 % of that; 1.2 s of communication runs under compute."
std::string pipeline_bottleneck(const Prediction& p, HostWork host = HostWork::framework);

}  // namespace espalier::planner
