// SPDX-License-Identifier: Apache-2.0
// Plans of several pipelines. Each pipeline is checked as the plan that it is by itself, on its own part of the
// program; here is what only holds between them:
//
//   pipeline-samples    ids differ, every pipeline has samples, and together they have the global batch: gradients are
//                       weighted by
//                       samples of the pipeline / global batch
//   pipeline-devices    no device is in two pipelines
//   gradient-meetings   the layers are cut where some pipeline cuts them; for each piece, from the last to the first,
//                       every rank class that holds it
//                       meets the others once, after all its own backward passes of it and before its update
//
// The part of a program that belongs to one pipeline has its instructions without the meetings; whoever waited for a
// meeting waits for the collective before it, which the order of the stream makes it wait for anyway.
#pragma once

#include <vector>

#include "check/check.h"
#include "plan/program.h"

namespace espalier::check {

/// Returns each pipeline as a plan of its own.
std::vector<Plan> plans_alone(const Plan& plan);
/// Of a plan with several pipelines. The program check needs that each pipeline's own part was found sound.
std::vector<Finding> check_pipelines(const Plan& plan, const Cluster& cluster);
Finding check_meetings(const Plan& plan, const Program& program);
/// Whether the program has a part for each pipeline whose tables and lists lie inside its own.
Finding check_parts(const Plan& plan, const Program& program);
/// Pipeline `k` of a program that check_parts accepts.
Program part_of(const Program& program, std::size_t k);
/// The claims about its stages and chunks, which come pipeline after pipeline.
Claims part_of(const Claims& claims, const Plan& plan, std::size_t k);

}  // namespace espalier::check
