// SPDX-License-Identifier: Apache-2.0
// Bounds the seconds of one layer for one micro-batch on one rank from both sides.
//
// Kernels follow kernels.h and collectives network_time.h, as defined in docs/cost-model.md ("Operators",
// "Communication inside a layer", "Launches"). A phase lasts max(kernels and exposed communication, launches · host
// time of a launch). Communication of length c that may overlap compute of length w exposes
//     least   max(0, c − w)        most   c        (least ≤ any overlap ≤ one after the other)
// and `most` counts a host's waits in tensor-parallel collectives. For blocks whose operators are partitioned,
// `least` is the products divided by the devices; `most` is the whole block on one device and every tensor gathered
// twice over the group.
#pragma once

#include "check/kernels.h"
#include "check/network_time.h"
#include "check/view.h"

namespace espalier::check {

struct LayerTime {
  double forward = 0, backward = 0;                ///< combined backward pass
  double backward_input = 0, backward_weight = 0;  ///< its two halves in zero-bubble schedules
  /// Holds the time that selective recomputation adds to backward and backward_input.
  double selective = 0;
};

/// Returns the seconds of a layer. `view` must be under the layer's strategy.
LayerTime layer_time(const View& view, const Kernels& kernels, const FabricTimes& tensor_fabric, const LayerKind& kind, End end);

}  // namespace espalier::check
