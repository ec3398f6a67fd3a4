// SPDX-License-Identifier: Apache-2.0
// Implements espalier run --adapt FOLDER: a run that is watched, and moved to another plan when that pays.
//
// The process that starts rank 0 reads its steps. When they have become permanently slower (step_watch.h), it asks
// the ranks to look at themselves and their links. It writes the changes since their first look as an observation,
// and asks replan(). When another plan trains more in the remaining steps, the ranks leave after a checkpoint, and
// ranks of the new plan resume it. Under a launcher every host has such a process. These processes share FOLDER,
// which all hosts must see:
//
//   request              "look" or "leave", for rank 0 (runtime/steering.h)
//   observation-K.json   the observed changes, K from 1
//   plan-K.json          the plan of generation K; devices-K.txt maps each of its devices to the first plan's cluster
//   done                 marks the end of the run
//   checkpoints/         where ranks leave and resume
#pragma once

#include <optional>
#include <string>

#include "cli/change_flags.h"
#include "cli/command.h"
#include "cli/ranks.h"

namespace espalier::cli {

struct AdaptFlags {
  std::string folder;
  double factor = 1.15;  ///< multiple of a usual step from which on a step is slow
};

/// Runs the plan. `place` is that of this host under a launcher; none where all ranks are processes of this machine.
/// Returns the exit code.
int run_adapting(Context& context, const AdaptFlags& adapt, const ChangeFlags& change, RankOptions options,
                 const std::string& path, const std::string& program, const std::optional<launch::RankPlace>& place);

}  // namespace espalier::cli
