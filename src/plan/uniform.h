// SPDX-License-Identifier: Apache-2.0
// Builds the pipeline of a uniform plan, and plans of one pipeline.
#pragma once

#include <string>

#include "espalier/plan.h"

namespace espalier {

/// Returns the pipeline of make_uniform_plan, with all samples of the training.
Pipeline uniform_pipeline(const Model& model, const Training& training, const Strategy& strategy, const Schedule& schedule,
                          SplitPolicy policy);

/// Returns the plan that has this pipeline alone, with the names of its inputs.
Plan plan_of_pipeline(const Model& model, const Cluster& cluster, const Training& training, const std::string& engine,
                      Pipeline pipeline);

}  // namespace espalier
