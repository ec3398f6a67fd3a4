// SPDX-License-Identifier: Apache-2.0
// Reads the device of a group of nodes: a name of the catalogue or of its driver, a catalogue device with other
// figures, or one described in place.
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

/// Reads the key `device` of a group.
ChosenDevice read_device(base::Reader& reader, std::vector<std::string>& notes);
/// Returns all devices of the catalogue: those with the most similar names first, then those of the same maker.
std::vector<std::string> devices_near(std::string_view name);
/// Returns the source of a device's figure; "default" if none is stated.
std::string source_of(const DeviceKind& device, std::string_view field);

}  // namespace espalier::cluster
