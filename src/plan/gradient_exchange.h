// SPDX-License-Identifier: Apache-2.0
// How gradients of the same elements meet between ranks that hold them unlike: the layers of a segment between
// pipelines of other degrees, stages and ZeRO stages (plan/join.h).
//
// Inside a pipeline gradients have been reduced before; each element then lies, complete, on the ranks that own it
// (plan/state_units.h): one, or several that hold copies. A *party* is a pipeline. Of every other party each rank is
// sent what it owns, by one of the owners there:
// number n of the owners of an element takes it from owner n mod (number of owners) of the other party, so that the
// messages are spread over them. A rank adds the parties in their order, its own in its place, so that all owners of an
// element get the same bits.
//
// A shared token table. Its copies of one pipeline are alike once its tied_reduce has run. The segment of the embedding
// adds up the owners there; the segment of the head, which runs before, the copies beside it; each takes what the other
// pipelines have on the stage that holds this segment, which is always one of the copies.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/program.h"
#include "plan/state_units.h"

namespace espalier {

/// Elements of a unit of a layer, numbered as plan/ownership.h does.
struct ExchangedPart {
  StateUnit unit;
  Intervals elements;
  bool operator==(const ExchangedPart&) const = default;
};
/// One message: all that one rank sends another.
struct ExchangeMessage {
  std::int64_t from = 0, to = 0;  ///< devices
  std::int32_t party = 0;         ///< of the sender
  std::vector<ExchangedPart> parts;
  bool operator==(const ExchangeMessage&) const = default;
};
struct GradientExchange {
  CollectiveId collective;                ///< of the program
  std::vector<ExchangeMessage> messages;  ///< by receiver, then by party, then by sender
};

/// Of every reduction between pipelines of `program`, which is that of the plan; empty where the plan has one pipeline.
/// Plans that holdings_of refuses have none.
std::vector<GradientExchange> exchanges_of(const Program& program, const Plan& plan, const Model& model);

}  // namespace espalier
