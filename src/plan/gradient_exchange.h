// SPDX-License-Identifier: Apache-2.0
// Exchanges gradients of the same elements between ranks with different layouts: the layers of a segment between
// pipelines with different degrees, stages and ZeRO stages (plan/join.h).
//
// Gradients have already been reduced inside a pipeline. Each complete element is on the ranks that own it
// (plan/state_units.h): one, or several that hold copies. A *party* is a pipeline. Each rank receives the elements
// that it owns from every other party, sent by one of the owners there. Number n of the owners of an element takes it
// from owner n mod (number of owners) of the other party, so that the messages are spread over them. A rank adds the
// parties in their order, its own in its place, so that all owners of an element get the same bits.
//
// The copies of a shared token table in one pipeline are equal once its tied_reduce has run. The segment of the
// embedding adds up the owners of its copies. The segment of the head runs before and adds up the copies next to
// it. Each takes the gradients of the other pipelines on the stage that holds this segment, which is always one
// of the copies.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/program.h"
#include "plan/state_units.h"

namespace espalier {

/// Identifies elements of a unit of a layer, numbered as in plan/ownership.h.
struct ExchangedPart {
  StateUnit unit;
  Intervals elements;
  bool operator==(const ExchangedPart&) const = default;
};
/// Describes one message: everything that one rank sends to another.
struct ExchangeMessage {
  std::int64_t from = 0, to = 0;  ///< devices
  std::int32_t party = 0;         ///< party of the sender
  std::vector<ExchangedPart> parts;
  bool operator==(const ExchangeMessage&) const = default;
};
struct GradientExchange {
  CollectiveId collective;                ///< id in the program
  std::vector<ExchangeMessage> messages;  ///< by receiver, then by party, then by sender
};

/// Returns the exchange of every reduction between pipelines of `program`, which must be that of the plan; empty if
/// the plan has one pipeline. Plans that holdings_of rejects have none.
std::vector<GradientExchange> exchanges_of(const Program& program, const Plan& plan, const Model& model);

}  // namespace espalier
