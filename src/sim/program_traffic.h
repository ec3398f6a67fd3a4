// SPDX-License-Identifier: Apache-2.0
// Derives the load of a program's instructions on the links of a cluster, by rank class.
//
// A rank class represents devices that do the same at the same time. Their traffic is one flow. Its weights are the
// total load of each link from the messages of all members. No member thus runs ahead of the others, and NICs shared
// by devices of a class are loaded as in the closed form. A byte of the flow is a byte on the link that it fills
// most.
//
// Between stages of unlike size each device of the larger one communicates with the device at its share of the
// smaller one's list. The total bytes sent by the stage that an activation leaves are divided evenly among these
// pairs. A reduction between pipelines is a ring through the stages that meet, and belongs to the first of them: the
// others end no earlier (flow_executor.h).
//
// An instruction of nominal duration N is a list of pieces. A piece starts when the instruction has made `offset` of
// its N ns. It is an activity of the flow network with D = `duration`. V, the time of its bytes on its fullest link
// alone, can be stretched; F = D − V cannot (latency, start, ramp). The piece is due at `due` ≥ offset + D: the
// instruction does not pass this point until the piece has ended. due > offset + D if compute hides the piece.
//
// The closed form may be faster than the links (reduction inside switches, traffic that it counts as waiting
// elsewhere). Bytes are then scaled to the amount that the links carry in D, so that the piece takes D if it is
// alone.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/topology.h"
#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "cost/rank_contexts.h"
#include "plan/program.h"
#include "sim/flow_network.h"

namespace espalier::sim {

struct TrafficPiece {
  std::int64_t offset_ns = 0, due_ns = 0;
  Activity activity;
};
using Pieces = std::vector<TrafficPiece>;  ///< by offset

struct ProgramTraffic {
  std::vector<std::map<std::int32_t, Pieces>> collectives;  ///< by rank of the program, then by CollectiveId
  std::map<std::int32_t, Pieces> transfers;                 ///< by TransferId
  std::map<std::int32_t, Pieces> works;                     ///< by WorkId
};

/// Maps links to the bytes of everything that moves together.
using LinkLoads = std::map<cluster::LinkId, double>;
/// Returns a piece from `offset_ns` on that carries `loads` in `duration_ns` if nothing else is on its links.
TrafficPiece piece_of(const cluster::Topology& topology, const LinkLoads& loads, std::int64_t offset_ns,
                      std::int64_t duration_ns);

/// Derives the traffic of `program`, which must be folded, of `plan`, and priced (its parts are filled in). Devices
/// of the program are devices of the topology. Traffic inside works follows the steps of their chunks
/// (cost/chunk_steps.h); all messages of a step move at once. `contexts` are those under which the ranks were priced
/// (cost/rank_contexts.h).
ProgramTraffic traffic_of(const cost::RankContexts& contexts, const Plan& plan, const Program& program, const cost::Costs& costs,
                          const cluster::Topology& topology);

}  // namespace espalier::sim
