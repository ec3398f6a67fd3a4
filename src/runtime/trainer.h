// SPDX-License-Identifier: Apache-2.0
// Trains a model under a plan, as one of its ranks. This header is the table of contents of the module. Callers need
// no header of libtorch.
//
//   plan ─▶ model (of the configuration that the plan embeds) ─▶ Program, a rank for every device
//        ─▶ groups, states, layers ─▶ steps
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/result.h"
#include "plan/ownership.h"
#include "runtime/communicator.h"
#include "runtime/counted_memory.h"

namespace espalier::runtime {

struct CheckpointOptions {
  std::string folder;      ///< empty: none are written
  std::int64_t every = 0;  ///< steps between two checkpoints; 0: only after the last step
  /// Resumes from the last complete checkpoint, or begins at the beginning where there is none.
  bool resume = false;
  std::int64_t keep = 2;  ///< complete checkpoints to keep
};

struct TrainOptions {
  std::int64_t steps = 20;  ///< number of the last step, including those that a checkpoint already contains
  std::uint64_t seed = 1;
  std::string data;     ///< a file of 16-bit tokens; empty: synthetic
  double rate = 1e-3;   ///< learning rate of AdamW
  double clip = 1;      ///< largest norm of gradients; 0: not clipped
  std::string weights;  ///< a folder of Hugging Face transformers to begin with; empty: runtime/initial.h
  CheckpointOptions checkpoint;
  std::string save;  ///< a folder for the last parameters, in that format; empty: not saved
  std::string pace;  ///< a device that the ranks emulate (operator_clock.h); empty: none
  /// Rank 0 writes the times of its operators and the peaks of all ranks to this file. Where it is empty, nothing is
  /// written.
  std::string record;
  std::string steering;           ///< a folder of requests (steering.h); empty: no requests
  std::int64_t direct_bytes = 0;  ///< Rendezvous::direct_bytes; 0: unchanged
  /// Rank 0 writes to this file when every instruction of all ranks ran, in the step of median length. Where it is
  /// empty, nothing is written.
  std::string timeline;
  CountedMemory* memory = nullptr;  ///< counter of this process; null: peaks are not recorded
};

struct StepReport {
  std::int64_t step = 0;  ///< from 0
  double loss = 0, gradient = 0, seconds = 0;
};

/// Holds a rank's part of a layer's gradients in the first step, before clipping: elements by number, and their
/// values in that order.
struct GradientPart {
  std::int32_t layer = 0;
  Intervals elements;
  std::vector<float> values;
};

/// Holds the logits of a pass in the first step: [tokens, samples, rows of the vocabulary], starting at this token,
/// sample and row.
struct LogitsPart {
  std::int64_t first_token = 0, first_sample = 0, first_row = 0;
  std::int64_t tokens = 0, samples = 0, rows = 0;
  std::vector<float> values;
};

struct Watching {
  std::function<void(const StepReport&)> step;   ///< on every rank, after each step
  std::function<void(const std::string&)> note;  ///< on every rank: the checkpoint that is resumed
  /// This runs on rank 0 with the results of a look, and when the run has left (steering.h).
  std::function<void(const std::string&)> seen;
  /// This runs on every rank; each element of the model is on one rank.
  std::function<void(const std::vector<GradientPart>&)> first_gradients;
  std::function<void(const LogitsPart&)> first_logits;  ///< on ranks that have a head
  /// This runs on every rank after the last step, with the calls by purpose of the groups.
  std::function<void(const std::map<std::string, Calls>&)> calls;
};

/// Returns the number of ranks of a plan.
int ranks_of(const Plan& plan);

/// Runs the plan as rank `meeting.rank()`. Ranks beyond those of the plan return at once. `name` is used once in a
/// meeting. A lost peer, a time-out and a loss that is NaN or infinite are errors.
Status train(const Plan& plan, const TrainOptions& options, Meeting& meeting, const std::string& name, const Watching& watching);

}  // namespace espalier::runtime
