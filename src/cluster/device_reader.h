// SPDX-License-Identifier: Apache-2.0
// Reads a device: an entry of the catalogue, or `device: {base: h100-sxm-80gb, memory: 94GiB, …}` inside a cluster
// file.
//
// Fields are peak_tflops {fp32, tf32, fp16, bf16, fp8} (dense TFLOP/s), memory, context_reserve, memory_bandwidth,
// efficiency {…}, sources {field: text}. Absent fields keep the value of the base.
#pragma once

#include "base/document.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// Lists the fields that have a source in the catalogue.
inline constexpr std::array<std::string_view, 6> kSourcedFields = {"peak_tflops",      "memory",     "context_reserve",
                                                                   "memory_bandwidth", "efficiency", "node"};

/// Overwrites the fields of `device` that the mapping gives. Leaves other keys for the caller; does not call finish().
void read_device_fields(base::Reader& reader, DeviceKind& device);

/// Records an error if the device cannot be planned on: no peak at all, no memory, reserve larger than memory, no
/// bandwidth.
void check_device(base::Reader& reader, const DeviceKind& device);

}  // namespace espalier::cluster
