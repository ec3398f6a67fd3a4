// SPDX-License-Identifier: Apache-2.0
// Defines the words that files use for the enums of espalier/cluster.h, in the order of the enumerators.
#pragma once

#include <array>
#include <string_view>

#include "espalier/cluster.h"

namespace espalier::cluster {

inline constexpr std::array<std::string_view, kPrecisions> kPrecisionNames = {"fp32", "tf32",  "fp16", "bf16",
                                                                              "fp8",  "mxfp8", "nvfp4"};

inline constexpr std::array<std::string_view, 9> kFabricKindNames = {
    "nvswitch", "nvlink_mesh", "pcie_tree", "nvl72", "rail_optimized", "fat_tree", "ethernet", "on_chip", "other"};
static_assert(static_cast<std::size_t>(FabricKind::other) + 1 == kFabricKindNames.size());

inline constexpr std::array<std::string_view, 3> kLinkSharingNames = {"line", "node", "node_pair"};
static_assert(static_cast<std::size_t>(LinkSharing::node_pair) + 1 == kLinkSharingNames.size());

inline constexpr std::array<std::string_view, 5> kEventNames = {"join", "leave", "slow", "link", "route"};
static_assert(static_cast<std::size_t>(ClusterEventKind::route) + 1 == kEventNames.size());

}  // namespace espalier::cluster
