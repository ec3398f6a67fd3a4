// SPDX-License-Identifier: Apache-2.0
// The Program of a plan, taken apart without times.
//
//   program-shape       ranks tile the instruction array and the stages; fields in range; passes and optimizer on
//                       `compute`
//   waits               both waits of every instruction point to earlier instructions of the same rank
//   program-work        each rank: every chunk of its stage × every micro-batch: one forward; one backward, or one
//                       backward_input and one backward_weight; buckets complete and in order; nothing else
//   send-recv           every send has its recv, mutually, with equal fields; one each way per boundary and micro-batch
//   program-order       forward waits for its activation, backward for its forward and its gradient, weight gradients
//                       for input
//                       gradients, sends for what they send
//   gradient-reduction  each chunk's gradients reduced once, after the last backward that adds to them, before the
//   optimizer
//   parameter-gather    ZeRO 1 and 2: each chunk's parameters gathered once, before their first use or after the
//                       optimizer
//   tied-gradient       every stage that holds the shared embedding table (static_memory.h), where there are several
//                       and it is trained, exchanges its
//                       gradient once, after the last backward of its layers that use the table
//   optimizer           exactly one per rank, after all gradients; only parameter gathers may follow
//   collective-order    ranks that meet in data collectives agree on their sequence
//   deadlock            an execution that starts whatever can start completes (recv waits for its send; data
//                       collectives meet)
#pragma once

#include <vector>

#include "check/check.h"
#include "check/program_tables.h"
#include "check/view.h"

namespace espalier::check {

struct ProgramCheck {
  std::vector<Finding> findings;
  bool readable = false;  ///< all of it is sound and runs to its end: the program may be replayed
};

ProgramCheck check_program(const View& view, const Program& program);

/// The last two of the list above; requires sound shape and waits.
std::vector<Finding> check_deadlock(const View& view, const Program& program);

/// gradient-reduction, parameter-gather, tied-gradient, optimizer; requires complete tables.
std::vector<Finding> check_updates(const View& view, const Program& program, const ProgramTables& tables);

}  // namespace espalier::check
