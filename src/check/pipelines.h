// SPDX-License-Identifier: Apache-2.0
// Checks plans of several pipelines. Each pipeline is checked as a plan of its own, on its own part of the program.
// The findings here cover the conditions between pipelines:
//
//   pipeline-samples    ids differ, every pipeline has samples, and together they make the global batch: gradients
//                       are weighted by samples of the pipeline / global batch
//   pipeline-devices    no device is in two pipelines
//   gradient-meetings   the layers are cut where some pipeline cuts them. Pieces come from the last to the first.
//                       Every rank class that holds a piece meets the others once, after all its own backward passes
//                       of the piece and before its update.
//
// The part of a program that belongs to one pipeline has its instructions without the meetings. An instruction that
// waited for a meeting waits for the collective before it, as the order of the stream requires anyway.
#pragma once

#include <vector>

#include "check/check.h"
#include "plan/program.h"

namespace espalier::check {

/// Returns each pipeline as a plan of its own.
std::vector<Plan> plans_alone(const Plan& plan);
/// Checks plans with several pipelines. The program check requires that each pipeline's own part was found sound.
std::vector<Finding> check_pipelines(const Plan& plan, const Cluster& cluster);
Finding check_meetings(const Plan& plan, const Program& program);
/// Checks that the program has a part for each pipeline whose tables and lists lie inside its own.
Finding check_parts(const Plan& plan, const Program& program);
/// Returns pipeline `k` of a program that check_parts accepts.
Program part_of(const Program& program, std::size_t k);
/// Returns the claims about the stages and chunks of pipeline `k`. Claims are ordered by pipeline.
Claims part_of(const Claims& claims, const Plan& plan, std::size_t k);

}  // namespace espalier::check
