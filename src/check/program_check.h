// SPDX-License-Identifier: Apache-2.0
// Checks the structure of a plan's Program, without times.
//
//   program-shape        ranks tile the instruction array and the stages; fields in range; passes and optimizer on
//                        `compute`
//   waits                both waits of every instruction point to earlier instructions of the same rank
//   program-work         each rank: every chunk of its stage × every micro-batch: one forward; one backward, or one
//                        backward_input and one backward_weight; buckets complete and in order; nothing else
//   send-recv            every send has its recv, mutually, with equal fields; one each way per boundary and
//                        micro-batch
//   program-order        forward waits for its activation, backward for its forward and its gradient, weight
//                        gradients for input gradients, sends for the tensor that they send
//   gradient-reduction   each chunk's gradients are reduced once, after the last backward that adds to them, before
//                        the optimizer
//   parameter-gather     ZeRO 1 and 2: each chunk's parameters are gathered once, before their first use or after the
//                        optimizer
//   tied-gradient        applies if several stages hold the shared embedding table (static_memory.h) and it is
//                        trained. Each of them exchanges its gradient once, after the last backward of its layers
//                        that use it.
//   optimizer            exactly one per rank, after all gradients; only parameter gathers may follow
//   collective-order     ranks that meet in data collectives agree on their sequence
//   deadlock             an execution that starts whatever can start completes (recv waits for its send; data
//                        collectives meet)
#pragma once

#include <vector>

#include "check/check.h"
#include "check/program_tables.h"
#include "check/view.h"

namespace espalier::check {

struct ProgramCheck {
  std::vector<Finding> findings;
  bool readable = false;  ///< the program is sound and runs to its end, so it may be replayed
};

ProgramCheck check_program(const View& view, const Program& program);

/// Returns the last two findings of the list above; requires sound shape and waits.
std::vector<Finding> check_deadlock(const View& view, const Program& program);

/// Returns the findings gradient-reduction, parameter-gather, tied-gradient and optimizer; requires complete tables.
std::vector<Finding> check_updates(const View& view, const Program& program, const ProgramTables& tables);

}  // namespace espalier::check
