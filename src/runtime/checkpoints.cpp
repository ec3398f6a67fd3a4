// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoints.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/invariant.h"
#include "runtime/agreement.h"
#include "runtime/weights.h"

namespace espalier::runtime {

Checkpoints::Checkpoints(CheckpointOptions options, const RankView& view, RankModel& model, Communicator* world, std::string data)
    : options_(std::move(options)), view_(view), model_(model), world_(world) {
  training_.global_batch = view.plan->training.global_batch;
  training_.sequence_length = view.plan->training.sequence.main;
  training_.seed = view.seed;
  training_.data = std::move(data);
}

// ---- writing ------------------------------------------------------------------------------------------------------

Status Checkpoints::after(std::int64_t updates, std::int64_t steps) {
  if (options_.folder.empty()) return {};
  const bool due = updates == steps || (options_.every > 0 && updates % options_.every == 0);
  if (!due) return {};
  written_ = updates;
  return write(updates);
}

Status Checkpoints::now(std::int64_t updates) {
  if (options_.folder.empty() || written_ == updates) return {};
  return write(updates);
}

Status Checkpoints::write(std::int64_t updates) {
  const std::string partial = storage::partial_folder(options_.folder, updates);
  std::error_code none;
  Status failed;
  if (leads()) {
    std::filesystem::remove_all(partial, none);  // left by a run that was stopped while it wrote
    failed = storage::make_folder(partial);
  }
  if (Status status = agreed(failed, world_); !status.ok()) return status;
  std::vector<storage::CheckpointPiece> pieces;
  for (const State* state : model_.states()) {
    CountedPart values = counted_part(*state, state->own_values());
    if (values.elements.empty()) continue;
    pieces.push_back({values.layer,
                      std::move(values.elements),
                      {std::move(values.values), counted_part(*state, state->first_moment()).values,
                       counted_part(*state, state->second_moment()).values}});
  }
  const auto checksum = storage::write_rank(partial, world_ == nullptr ? 0 : world_->rank(), pieces);
  failed = agreed(checksum ? Status() : Status(checksum.error()), world_);
  storage::Manifest manifest{updates, content_hash(*view_.plan), view_.plan->model_hash, training_, {}};
  if (failed.ok()) manifest.ranks = texts_of_all(*checksum, world_);
  if (failed.ok() && leads()) failed = storage::complete(options_.folder, manifest, options_.keep);
  failed = agreed(failed, world_);
  if (!failed.ok() && leads()) std::filesystem::remove_all(partial, none);
  return failed;
}

// ---- resuming -----------------------------------------------------------------------------------------------------

Status Checkpoints::unlike(const storage::Manifest& manifest, const std::string& where) const {
  const auto refused = [&](std::string found, std::string expected) {
    return Error{ErrorKind::usage, where, std::move(found), std::move(expected), "another --checkpoint folder, or no --resume"};
  };
  if (manifest.model != view_.plan->model_hash)
    return refused("a checkpoint of another model", "a checkpoint of the plan's model");
  if (manifest.training == training_) return {};
  const auto text = [](const storage::TrainingFacts& t) {
    return cat("global batch ", t.global_batch, ", sequence length ", t.sequence_length, ", seed ", t.seed, ", data ",
               t.data.empty() ? "synthetic" : t.data);
  };
  return refused(text(manifest.training), text(training_));
}

/// Reads all states that this rank holds, and verifies this rank's share of the files, so that no damage goes
/// unnoticed. A failure leaves states partly overwritten; the caller then reads another checkpoint or ends the run.
Result<std::int64_t> Checkpoints::read(const std::string& step_folder) {
  auto opened = storage::Checkpoint::open(step_folder);
  if (!opened) return opened.error();
  if (Status status = unlike(opened->manifest(), step_folder); !status.ok()) return status.error();
  const auto readers = static_cast<std::size_t>(world_ == nullptr ? 1 : world_->size());
  for (std::size_t rank = static_cast<std::size_t>(world_ == nullptr ? 0 : world_->rank()); rank < opened->ranks();
       rank += readers)
    if (Status status = opened->verify(rank); !status.ok()) return status.error();
  for (State* state : model_.states()) {
    auto values = opened->read(state->shape().layer, state->shape().held, storage::StateArray::values);
    auto first = opened->read(state->shape().layer, state->own(), storage::StateArray::first);
    auto second = opened->read(state->shape().layer, state->own(), storage::StateArray::second);
    for (const auto* part : {&values, &first, &second})
      if (!*part) return part->error();
    state->restore(*values);
    state->restore_moments(*first, *second);
  }
  return opened->manifest().step;
}

Result<std::int64_t> Checkpoints::resume(const std::function<void(const std::string&)>& note) {
  const auto say = [&](const std::string& text) {
    if (note) note(text);
  };
  std::string listed;  // as rank 0 lists the folder
  if (leads())
    for (const std::int64_t step : storage::steps_in(options_.folder))
      if (listed.size() < 1900) listed += cat(step, " ");
  listed = texts_of_all(listed, world_).front();
  if (listed.empty()) {
    say(cat(options_.folder, " has no complete checkpoint: the run starts from the beginning"));
    return std::int64_t{0};
  }
  Status last;
  while (!listed.empty()) {
    const std::size_t end = listed.find(' ');
    const std::int64_t step = std::stoll(listed.substr(0, end));
    listed.erase(0, end + 1);
    const std::string folder = storage::step_folder(options_.folder, step);
    const Result<std::int64_t> updates = read(folder);
    last = agreed(updates ? Status() : Status(updates.error()), world_);
    if (last.ok()) {
      say(cat("resumed from ", folder, ", after step ", *updates));
      return *updates;
    }
    if (last.error().kind != ErrorKind::bad_input) return last.error();
    say(cat("skipped: ", last.error().message()));
  }
  return last.error();
}

}  // namespace espalier::runtime
