// SPDX-License-Identifier: Apache-2.0
// What the instructions of a program put on the links of a cluster, rank class by rank class.
//
// A rank class stands for devices that do the same at the same time. What all of them move is one flow: its weights say
// what each link carries of the messages of all members of the class together, so that nobody of the class runs ahead
// of the others, and NICs that the devices of a class share are loaded as the closed form has it. A byte of the flow is
// a byte on the link that it fills most.
//
// Between stages of unlike numbers of devices each device of the larger one talks to the one at its share of the
// smaller one's list; what all ranks of the stage that an activation leaves send is divided evenly among these pairs. A
// reduction between pipelines is a ring through the stages that meet, and stands with the first of them: the others end
// no earlier (flow_executor.h).
//
// An instruction of nominal duration N is a list of pieces. A piece starts when the instruction has made `offset` of
// its N ns, and is an activity of the flow network with D = `duration`, of which V = what the bytes take on its fullest
// link alone can be stretched, F = D − V cannot (latency, start, ramp). It is due at `due` ≥ offset + D: the
// instruction goes no further until the piece has ended. due > offset + D where the piece runs beside compute. Where
// the closed form is faster than the links (reduction inside switches, traffic that it counts as waiting elsewhere),
// bytes are scaled to what the links carry in D, so that alone the piece takes D.
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

/// Bytes by link of everything that moves together.
using LinkLoads = std::map<cluster::LinkId, double>;
/// A piece from `offset_ns` on that carries `loads` in `duration_ns` where nothing else is on its links.
TrafficPiece piece_of(const cluster::Topology& topology, const LinkLoads& loads, std::int64_t offset_ns,
                      std::int64_t duration_ns);

/// `program` folded, of `plan`, priced (its parts are filled in). Devices of the program are devices of the topology.
/// What runs inside works are the steps of their chunks (cost/chunk_steps.h), each its message or messages at once.
/// `contexts`: under which the ranks were priced (cost/rank_contexts.h).
ProgramTraffic traffic_of(const cost::RankContexts& contexts, const Plan& plan, const Program& program, const cost::Costs& costs,
                          const cluster::Topology& topology);

}  // namespace espalier::sim
