// SPDX-License-Identifier: Apache-2.0
// Which device a group of nodes has: a name of the catalogue or of its driver, a catalogued one with other figures, or
// one described in place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "cluster/catalogue.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

struct ChosenDevice {
  DeviceKind device;
  const UsualNode* usual = nullptr;  ///< nullptr for a device without a base
};

/// The key `device` of a group.
ChosenDevice read_device(base::Reader& reader, std::vector<std::string>& notes);
/// Where a figure of the device is from; "default" where nothing is said.
std::string source_of(const DeviceKind& device, std::string_view field);

}  // namespace espalier::cluster
