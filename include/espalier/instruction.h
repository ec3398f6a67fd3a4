// SPDX-License-Identifier: Apache-2.0
// The vocabulary for the instructions of a plan's ranks. A plan is lowered to one instruction list per rank;
// timelines, programs and costs use the terms of this header.
#pragma once

#include <cstdint>
#include <string_view>

namespace espalier {

/// Selects what one instruction does.
enum class InstructionKind : std::uint8_t {
  forward,          ///< F: one chunk of layers, one micro-batch
  backward,         ///< B: gradients of inputs and of weights together
  backward_input,   ///< B of zero-bubble schedules: only the gradient of the input
  backward_weight,  ///< W of zero-bubble schedules: only the gradient of the weights
  send,             ///< an activation, or the gradient of one, to a neighbouring stage
  recv,             ///< the other end of a send
  grad_reduce,      ///< gradients of a chunk, or of a bucket of it, over the data ranks
  param_gather,     ///< parameters of a chunk, or of a bucket of it, over the shard group
  tied_reduce,      ///< gradient of a token table of which several stages hold copies
  optimizer,        ///< the update of all parameters of a rank
};
/// Returns the name used in timelines: "forward", "send", ….
std::string_view to_string(InstructionKind k);

/// Lists the in-order queues of a rank. Instructions of one stream run one after another; different streams run
/// concurrently.
enum class Stream : std::uint8_t {
  compute,
  data,  ///< collectives of data parallelism
  send,
  recv,
};
inline constexpr int kStreams = 4;
std::string_view to_string(Stream s);

/// Selects what a collective does with the tensors of its members.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  ring_shift,      ///< every member passes its tensor on to its neighbour
  point_to_point,  ///< one member to another, or both ways at once
  resharding,      ///< every member fetches the parts of another layout that it lacks
};
std::string_view to_string(CollectiveKind kind);

}  // namespace espalier
