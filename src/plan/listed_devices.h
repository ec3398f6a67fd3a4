// SPDX-License-Identifier: Apache-2.0
// Locates ranks if a plan's stages list their devices in an order of their own.
//
// Rank n of a stage runs on the n-th device of its list, and the places of ranks determine their groups
// (process_groups.h). Level k of the fabric has domains of `span` devices, device / span; c of the g devices of a
// group share a domain. The members per level that price a collective (cost/placement.h) are the fewest in any domain
// that the group reaches.
//
// One price covers all groups of a kind, so their placement must match: every group has the same numbers of members
// per domain, level by level.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier {

/// Lists the devices of every stage in rank order.
using StageDevices = std::vector<std::vector<std::int64_t>>;
StageDevices stage_devices(const Pipeline& pipeline);

/// Counts the devices of a stage, of all stages of a pipeline, or of all pipelines of a plan, whatever the size
/// of the cluster.
std::int64_t device_count(const Stage& stage);
std::int64_t device_count(const Pipeline& pipeline);
std::int64_t device_count(const Plan& plan);

/// Formats a range as in documents and labels: "0-7" first-last, "0-56:8" first-last:stride, "5" one device.
std::string text_of(const DeviceRange& range);

/// Counts the devices that share a domain of `span` devices, domain by domain, fewest first.
std::vector<std::int64_t> members_by_domain(const std::vector<std::int64_t>& devices, std::int64_t span);

/// Rejects a plan with its own order of devices in which groups of one kind differ in placement: it has no price. The
/// error names the rule (device-order).
Status unpriced_placement(const Plan& plan, const Model& model, const Cluster& cluster);

}  // namespace espalier
