// SPDX-License-Identifier: Apache-2.0
// Trains a model under a plan, as one of its ranks: the table of contents of this module. No header of libtorch is
// needed to call it.
//
//   plan ─▶ model (of the configuration that the plan embeds) ─▶ Program, a rank for every device ─▶ groups, states,
//   layers ─▶ steps
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
  std::int64_t every = 0;  ///< steps between two; 0: after the last step alone
  bool resume = false;     ///< begin where the last complete one ends, or at the beginning where there is none
  std::int64_t keep = 2;   ///< complete ones that stay
};

struct TrainOptions {
  std::int64_t steps = 20;  ///< the last one, however many a checkpoint has already
  std::uint64_t seed = 1;
  std::string data;     ///< a file of 16-bit tokens; empty: synthetic
  double rate = 1e-3;   ///< of AdamW
  double clip = 1;      ///< largest norm of gradients; 0: not clipped
  std::string weights;  ///< a folder of Hugging Face transformers to begin with; empty: runtime/initial.h
  CheckpointOptions checkpoint;
  std::string save;               ///< a folder for the last parameters, in that format; empty: nowhere
  std::string pace;               ///< a device that the ranks play (operator_clock.h); empty: none
  std::string record;             ///< where rank 0 writes how long its operators took, and the peaks of all ranks;
                                  ///< empty: nowhere
  std::string steering;           ///< a folder of requests (steering.h); empty: nothing is asked for
  std::int64_t direct_bytes = 0;  ///< Rendezvous::direct_bytes; 0: as it is
  std::string timeline;           ///< where rank 0 writes when every instruction of all ranks ran, in the step of median length;
                                  ///< empty:
                                  ///< nowhere
  CountedMemory* memory = nullptr;  ///< of this process; null: peaks are not recorded
};

struct StepReport {
  std::int64_t step = 0;  ///< from 0
  double loss = 0, gradient = 0, seconds = 0;
};

/// What a rank has of a layer's gradients in the first step, before clipping: elements by number, and their values in
/// that order.
struct GradientPart {
  std::int32_t layer = 0;
  Intervals elements;
  std::vector<float> values;
};

/// Logits of a pass in the first step: [tokens, samples, rows of the vocabulary], from this token, sample and row on.
struct LogitsPart {
  std::int64_t first_token = 0, first_sample = 0, first_row = 0;
  std::int64_t tokens = 0, samples = 0, rows = 0;
  std::vector<float> values;
};

struct Watching {
  std::function<void(const StepReport&)> step;   ///< on every rank, after each step
  std::function<void(const std::string&)> note;  ///< on every rank: what is resumed
  std::function<void(const std::string&)> seen;  ///< on rank 0: what was looked at, and that the run was left
                                                 ///< (steering.h)
  std::function<void(const std::vector<GradientPart>&)> first_gradients;  ///< on every rank, each element of the model
                                                                          ///< on one
                                                                          ///< rank
  std::function<void(const LogitsPart&)> first_logits;                    ///< on ranks that have a head
  std::function<void(const std::map<std::string, Calls>&)> calls;         ///< on every rank, after the last step: by
                                                                          ///< what
                                                                          ///< groups are for
};

/// How many ranks a plan has.
int ranks_of(const Plan& plan);

/// Runs the plan as rank `meeting.rank()`; ranks beyond those of the plan return at once. `name` is used once in a
/// meeting. A peer that is lost, a time-out and a loss that is no number are errors.
Status train(const Plan& plan, const TrainOptions& options, Meeting& meeting, const std::string& name, const Watching& watching);

}  // namespace espalier::runtime
