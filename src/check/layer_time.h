// SPDX-License-Identifier: Apache-2.0
// Seconds of one layer for one micro-batch on one rank, derived from both sides.
//
// Kernels by kernels.h, collectives by fabric.h, as docs/cost-model.md ("Operators", "Communication inside a layer",
// "Launches") names them. A phase lasts max(kernels and exposed communication, launches · host time of a launch). What
// may run beside compute of length w exposes of its length c
//     least   max(0, c − w)        most   c        (least ≤ any overlap ≤ one after the other)
// and `most` counts a host's waits in tensor-parallel collectives. Blocks whose operators are partitioned: least the
// products and attention divided by the devices; most the whole block on one device and every tensor gathered twice
// over the group.
#pragma once

#include "check/kernels.h"
#include "check/network_time.h"
#include "check/view.h"

namespace espalier::check {

struct LayerTime {
  double forward = 0, backward = 0;                ///< combined backward pass
  double backward_input = 0, backward_weight = 0;  ///< its halves in zero-bubble schedules
  double selective = 0;                            ///< what selective recomputation adds to backward and backward_input
};

/// `view`: under the layer's strategy.
LayerTime layer_time(const View& view, const Kernels& kernels, const FabricTimes& tensor_fabric, const LayerKind& kind, End end);

}  // namespace espalier::check
