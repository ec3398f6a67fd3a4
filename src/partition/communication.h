// SPDX-License-Identifier: Apache-2.0
// Messages between an operator's devices under a partition sequence, derived from the slice indices alone.
//
// Let tile_X^φ(D, t) be the slice indices of tensor X's axes on device D at step t of phase φ.
//   transfers    A device receives an operand's tile of step t + 1 during the compute of step t if it differs from
//                that of step t. The tile comes from a device that has it (double buffers). After the last step the
//                operand goes where its next phase reads it: I as a stash from forward to gradient, W from forward to
//                backward. W then goes back to its place of the first forward step. A gradient dW goes to the place of
//                W, so that the optimizer updates in place. With P all of these are in place already, except for W's
//                way back. An output whose tile changes from step t − 1 to t is an accumulator. It is passed on during
//                step t, before the product of step t is added (dW, once).
//                The sender is the device of least reach that has the tile, then that of fewest differing bits, then
//                that of lowest id. The result is a permutation: every device sends to one and receives from one.
//   reductions   Devices with the same output tile whose summed slices differ add up their parts (all-reduce) after
//                the last step. They are the devices that agree in all bits outside a group indicator, a subset of the
//                bits of the device id (PrimePar, ASPLOS 2024).
// The derived transfers of P are the paper's Table 1 (communication_test.cpp). Edges between operators: layout.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/layout.h"
#include "partition/operator_splits.h"

namespace espalier::partition {

/// Holds bits of the device id as a mask: d_1 is bit n − 1, d_n bit 0.
using GroupIndicator = std::uint32_t;

/// Describes one tensor's tiles that are passed on during one step. All devices do it at once.
struct TileTransfer {
  Phase phase = Phase::forward;
  int step = 0;  ///< the step whose compute hides it
  TensorUse tensor;
  /// If true, it moves before the step's product is added; otherwise it is needed for the step after.
  bool accumulator = false;
  std::int64_t elements = 0;         ///< one tile
  int reach = 0;                     ///< largest over devices (layout.h)
  std::vector<std::int16_t> sender;  ///< [receiver]; the receiver itself where nothing moves
};

/// Describes an all-reduce of the output tiles after the last step of a phase. Groups are disjoint and work at once.
struct Reduction {
  Phase phase = Phase::forward;
  TensorUse tensor;
  GroupIndicator indicator = 0;
  std::int64_t elements = 0;  ///< one tile, on each device
  int group_size = 1;         ///< 2^(bits of the indicator)
};

struct Communication {
  std::vector<TileTransfer> transfers;  ///< by phase, step, then tensor
  std::vector<Reduction> reductions;    ///< by phase, in the order of the products
};

/// Returns the messages of an operator. The sequence must be legal for it.
Communication communication(const OperatorShape& op, const PartitionSequence& sequence);

/// Describes what one device passes on of a tensor during a step: it sends to `to` and receives from `from`. Both are
/// the device itself where nothing moves for it.
struct Shift {
  TensorUse tensor;
  bool accumulator = false;
  int from = 0, to = 0;
  bool operator==(const Shift&) const = default;
};
/// Returns the shifts of `device` during a step, in the order of the transfers.
std::vector<Shift> shifts_of(const Communication& communication, Phase phase, int step, int device);

/// Returns the elements of one tile of a tensor on one device.
std::int64_t tile_elements(const OperatorShape& op, const PartitionSequence& sequence, int tensor);
/// Returns the devices that `device` reduces with, ascending, itself included.
std::vector<int> group_of(int device, GroupIndicator indicator);
/// Returns "(d1,d3)", or "()" when empty. `bits`: n.
std::string indicator_text(GroupIndicator indicator, int bits);
/// Returns the most elements that are received into second buffers at any time: the largest sum over steps of the
/// tiles in flight.
std::int64_t receive_buffer_elements(const Communication& communication);

}  // namespace espalier::partition
