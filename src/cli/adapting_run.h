// SPDX-License-Identifier: Apache-2.0
// espalier run --adapt FOLDER: a run that is watched, and moved to another plan when that pays.
//
// The process that starts rank 0 reads its steps. When they have become slower for good (step_watch.h) it asks the
// ranks to look at themselves and their links, writes what changed since they looked first as an observation, and asks
// replan(). When another plan trains more in the steps that are left, the ranks leave after a checkpoint, and ranks of
// the new plan resume it. Under a launcher every host has such a process; they meet in FOLDER, which all hosts must
// see:
//
//   request             "look" or "leave", for rank 0 (runtime/steering.h)
//   observation-K.json  what was seen, K from 1
//   plan-K.json         the plan of generation K, and devices-K.txt: by device of it, its number in the first plan's
//                       cluster
//   done                the run has ended
//   checkpoints/        where ranks leave and resume
#pragma once

#include <optional>
#include <string>

#include "cli/change_flags.h"
#include "cli/command.h"
#include "cli/ranks.h"

namespace espalier::cli {

struct AdaptFlags {
  std::string folder;
  double factor = 1.15;  ///< of a usual step, from which on one is slow
};

/// `place`: of this host under a launcher; none: all ranks are processes of this machine. Returns the exit code.
int run_adapting(Context& context, const AdaptFlags& adapt, const ChangeFlags& change, RankOptions options,
                 const std::string& path, const std::string& program, const std::optional<launch::RankPlace>& place);

}  // namespace espalier::cli
