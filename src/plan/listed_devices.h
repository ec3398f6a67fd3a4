// SPDX-License-Identifier: Apache-2.0
// Where ranks lie when a plan's stages list their devices in an order of their own.
//
// Rank n of a stage runs on the n-th device of its list, and which ranks form a group follows from their places
// (process_groups.h). Of a group of g devices level k of the fabric has domains of `span` devices, device / span; c of
// the members share a domain. The members a level that price a collective (cost/placement.h) are the fewest that a
// domain it reaches holds.
//
// One price stands for all groups of a kind, so they must lie alike: of every group the same numbers of members a
// domain, level by level.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier {

/// Devices of every stage in rank order.
using StageDevices = std::vector<std::vector<std::int64_t>>;
StageDevices stage_devices(const Pipeline& pipeline);

/// Counts the devices of a stage, of all stages of a pipeline, and of all pipelines of a plan, however many the cluster
/// has.
std::int64_t device_count(const Stage& stage);
std::int64_t device_count(const Pipeline& pipeline);
std::int64_t device_count(const Plan& plan);

/// A range as documents and labels write it: "0-7" first-last, "0-56:8" first-last:stride, "5" one device.
std::string text_of(const DeviceRange& range);

/// How many of the devices share a domain of `span` devices, domain by domain, fewest first.
std::vector<std::int64_t> members_by_domain(const std::vector<std::int64_t>& devices, std::int64_t span);

/// A plan in whose own order of devices some groups of a kind lie otherwise than others, which has no price, by name
/// (device-order).
Status unpriced_placement(const Plan& plan, const Model& model, const Cluster& cluster);

}  // namespace espalier
