// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/invariant.h"
#include "plan/process_groups.h"
#include "runtime/step_clock.h"

namespace espalier::runtime {

using at::Tensor;
using Kind = InstructionKind;

Executor::Executor(const RankView& view, const Program& program, RankModel& model, Communicator* world, const TokenSource& data,
                   const TrainingRecipe& recipe, Communicator* meetings)
    : view_(view),
      steps_(view.clock != nullptr ? view.clock->steps() : nullptr),
      program_(program),
      rank_(rank_class(program, view.device)),
      model_(model),
      world_(world),
      data_(data),
      recipe_(recipe),
      pipeline_(program.pipelines[static_cast<std::size_t>(rank_.pipeline)]),
      moves_(view, program, rank_, world),
      meeting_(view, program, meetings) {
  for (std::int32_t index = rank_.begin; index < rank_.end; ++index) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(index)];
    if (i.peer >= 0) reached_[i.peer] = 0;
    if (i.kind == Kind::send && i.microbatch == 0) ++sends_[i.id];
  }
}

// ---- the step -----------------------------------------------------------------------------------------------------

StepResult Executor::step(std::int64_t step, const std::function<void(RankModel&)>& look) {
  const auto count = static_cast<std::size_t>(rank_.end - rank_.begin);
  step_ = step;
  loss_ = 0;
  look_ = &look;
  messages_.assign(count, {});
  tasks_.assign(count, 0);
  offered_.assign(count, false);
  for (auto& [peer, reached] : reached_) reached = program_.ranks[static_cast<std::size_t>(peer)].begin;
  if (steps_ != nullptr) steps_->begin_step(step);
  for (std::int32_t index = rank_.begin; index < rank_.end; ++index) run(index);
  for (std::int32_t index = rank_.begin; index < rank_.end; ++index) await(index);
  queue_.wait_for_all();
  if (steps_ != nullptr) steps_->end_step();
  ESPALIER_CHECK(passes_.empty() && entering_.empty() && leaving_.empty());
  return result_;
}

void Executor::run(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  offer_receives(index);
  const auto wait = [&] {
    wait_for(i.wait0);
    wait_for(i.wait1);
  };
  if (i.stream == Stream::compute)
    waiting(index, wait);
  else if (i.kind != Kind::recv)  // a receive is posted at once; the instruction that needs it waits for it
    wait();
  switch (i.kind) {
    case Kind::send: return send(index);
    case Kind::recv: return receive(index);
    case Kind::grad_reduce: return reduce(index);
    case Kind::param_gather: return gather(index);
    case Kind::tied_reduce: return tie(index);
    default: return compute(index);
  }
}

void Executor::waiting(std::int32_t index, const std::function<void()>& body) {
  if (steps_ == nullptr) return body();
  const auto begin = std::chrono::steady_clock::now();
  body();
  steps_->waited(row_of(index), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

/// Waits until the message of `index` has arrived or left.
void Executor::await(std::int32_t index) {
  const std::size_t row = row_of(index);
  // Sends are timed at the instruction itself.
  const bool asked = steps_ != nullptr && offered_[row] && !steps_->ended(row);
  if (asked) steps_->begin(row);
  messages_[row].wait();
  if (asked) steps_->end(row);
}

void Executor::wait_for(std::int32_t index) {
  if (index < 0) return;
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  if (i.kind == Kind::recv) wait_for(i.wait0);
  const auto at = static_cast<std::size_t>(index - rank_.begin);
  await(index);
  queue_.wait(tasks_[at]);
  // Sends and receives of one value are adjacent; wait for all of them.
  if (i.peer < 0 || at == 0) return;
  const Instruction& before = program_.instructions[static_cast<std::size_t>(index - 1)];
  if (before.kind == i.kind && before.id == i.id && before.microbatch == i.microbatch) wait_for(index - 1);
}

// ---- computations -------------------------------------------------------------------------------------------------

void Executor::compute(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  if (steps_ == nullptr) return carry_out(i, index);
  const OperatorClock& clock = *view_.clock;
  const double operators = clock.operator_seconds() + clock.update_seconds(), collectives = clock.collective_seconds();
  steps_->begin(row_of(index));
  carry_out(i, index);
  steps_->end(row_of(index));
  steps_->inside(row_of(index), clock.operator_seconds() + clock.update_seconds() - operators,
                 clock.collective_seconds() - collectives);
}

/// Moves a value between layers of different strategies. The time counts as communication of the surrounding
/// computation.
Tensor Executor::moved(const Tensor& x, const ActivationMoves::Side& from, const ActivationMoves::Side& to,
                       std::int32_t microbatch, bool gradient) {
  if (view_.clock == nullptr) return moves_.moved(x, from, to, microbatch, gradient);
  Tensor out;
  view_.clock->communicate([&] { out = moves_.moved(x, from, to, microbatch, gradient); });
  return out;
}

void Executor::carry_out(const Instruction& i, std::int32_t index) {
  const Work& work = program_.works[i.work()];
  switch (i.kind) {
    case Kind::forward: return forward(work, i);
    case Kind::backward: return backward(work, i, true);
    case Kind::backward_input: return backward(work, i, false);
    case Kind::backward_weight: return weight_gradients(work, i);
    case Kind::optimizer: return update(index);
    default: ESPALIER_CHECK(false);
  }
}

LayerSpan Executor::chunk_layers(ChunkId chunk) const {
  const Work& work = program_.works[WorkId(pipeline_.first_work + pipeline_.structure.forward(chunk).value)];
  return {program_.ranges[static_cast<std::size_t>(work.ranges_begin)].first,
          program_.ranges[static_cast<std::size_t>(work.ranges_end - 1)].last};
}

LayerSpan Executor::layers_of(const Instruction& i, ChunkId chunk, bool forward) const {
  const LayerSpan all = chunk_layers(chunk);
  return bucket_layers(all.first, all.last, forward, i.bucket, i.buckets);
}

std::int32_t Executor::range_of(const Work& work, std::int32_t layer) const {
  for (std::int32_t r = work.ranges_begin; r < work.ranges_end; ++r)
    if (layer <= program_.ranges[static_cast<std::size_t>(r)].last) return r;
  ESPALIER_CHECK(false);
  return -1;
}

Executor::Pass& Executor::pass_of(const Work& work, std::int32_t microbatch) { return passes_[{work.chunk.value, microbatch}]; }

/// Returns the first sample of this rank's part of a micro-batch, counted over the step.
std::int64_t Executor::first_sample(std::int32_t range, std::int32_t microbatch) const {
  return pipeline_.first_sample + microbatch * pipeline_.microbatch_samples + moves_.samples(range).first;
}

/// Returns the tokens of this rank's samples and the labels that follow them.
Batch Executor::batch_of(std::int32_t range, std::int32_t microbatch) {
  const Training& training = view_.plan->training;
  const std::int64_t length = training.sequence.main;
  const std::int64_t first = step_ * training.global_batch + first_sample(range, microbatch);
  const Extent samples = moves_.samples(range);
  Batch batch{at::empty({length, samples.size()}, at::kLong), at::empty({length, samples.size()}, at::kLong)};
  for (std::int64_t k = 0; k < samples.size(); ++k) {
    std::vector<std::int64_t> tokens = data_.tokens(first + k, length, 0, length + 1);
    const Tensor row = at::from_blob(tokens.data(), {length + 1}, at::kLong);
    batch.tokens.select(1, k).copy_(row.narrow(0, 0, length));
    batch.labels.select(1, k).copy_(row.narrow(0, 1, length));
  }
  return batch;
}

void Executor::forward(const Work& work, const Instruction& i) {
  const LayerSpan all = chunk_layers(work.chunk), span = layers_of(i, work.chunk, true);
  const std::int32_t last_layer = static_cast<std::int32_t>(view_.model->layers.size()) - 1;
  Pass& pass = pass_of(work, i.microbatch);
  if (span.first == all.first && all.first > 0) {
    pass.value = taken(work.chunk, false, i.microbatch);
    const Transfer& into = transfer_into(work.chunk, false);
    if (!into.boxes) pass.value = moved(pass.value, moves_.before(into), moves_.behind(into), i.microbatch, false);
  }
  for (std::int32_t l = span.first; l <= span.last; ++l) {
    if (l > all.first) pass.value = moved(pass.value, side_of(work, l - 1), side_of(work, l), i.microbatch, false);
    for (State* state : model_.layer(l).states()) ESPALIER_CHECK(state->fresh());
    Frame& frame = pass.frames[l];
    if (l == 0 || l == last_layer) frame.batch = &(pass.batches[l] = batch_of(range_of(work, l), i.microbatch));
    WatchLogits watch;
    if (l == last_layer && watch_logits_) watch = watch_logits_(first_sample(range_of(work, l), i.microbatch));
    frame.logits = watch ? &watch : nullptr;
    pass.value = model_.layer(l).forward(frame, pass.value);
    frame.logits = nullptr;
    loss_ += std::exchange(frame.loss, 0);
  }
  if (span.last < all.last) return;
  if (all.last < last_layer) keep(ChunkId(work.chunk.value + 1), false, i.microbatch, pass.value);
  pass.value = Tensor();
}

void Executor::backward(const Work& work, const Instruction& i, bool whole) {
  const LayerSpan all = chunk_layers(work.chunk), span = layers_of(i, work.chunk, false);
  const std::int32_t last_layer = static_cast<std::int32_t>(view_.model->layers.size()) - 1;
  Pass& pass = pass_of(work, i.microbatch);
  if (span.last == all.last && all.last < last_layer) pass.value = taken(ChunkId(work.chunk.value + 1), true, i.microbatch);
  for (std::int32_t l = span.last; l >= span.first; --l) {
    pass.value = model_.layer(l).backward(pass.frames.at(l), std::exchange(pass.value, Tensor()), whole);
    pass.frames.at(l).loss = 0;  // from the repeated forward
    if (l > all.first) pass.value = moved(pass.value, side_of(work, l), side_of(work, l - 1), i.microbatch, true);
  }
  if (span.first > all.first) return;
  if (all.first > 0) {
    const Transfer& out = transfer_into(work.chunk, true);
    if (!out.boxes) pass.value = moved(pass.value, moves_.behind(out), moves_.before(out), i.microbatch, true);
    keep(work.chunk, true, i.microbatch, pass.value);
  }
  pass.value = Tensor();
  if (whole) passes_.erase({work.chunk.value, i.microbatch});
}

void Executor::weight_gradients(const Work& work, const Instruction& i) {
  const LayerSpan all = chunk_layers(work.chunk), span = layers_of(i, work.chunk, false);
  Pass& pass = pass_of(work, i.microbatch);
  for (std::int32_t l = span.last; l >= span.first; --l) model_.layer(l).weight_gradients(pass.frames.at(l));
  if (span.first == all.first) passes_.erase({work.chunk.value, i.microbatch});
}

void Executor::update(std::int32_t index) {
  waiting(index, [this] { queue_.wait_for_all(); });
  State::finish_gradients(model_.states());
  if (look_ != nullptr && *look_) (*look_)(model_);
  Tensor sums = at::zeros({3}, at::kDouble);
  double squares = 0;
  for (State* state : model_.states()) squares += state->squares();
  sums[0] = loss_;
  sums[1] = squares;
  sums[2] = wish_;
  waiting(index, [&] {
    if (world_ != nullptr) world_->all_reduce(sums);
  });
  if (steps_ != nullptr) steps_->begin(row_of(index));  // before this point the reduction waited for other instructions
  result_.loss = sums[0].item<double>();
  result_.wish = sums[2].item<double>();
  result_.gradient = std::sqrt(sums[1].item<double>());
  const bool clips = recipe_.clip > 0 && result_.gradient > recipe_.clip;
  const double scale = clips ? recipe_.clip / (result_.gradient + 1e-6) : 1;
  std::int64_t elements = 0;
  for (const State* state : model_.states()) elements += elements_of(state->own());
  const auto update = [&] {
    for (State* state : model_.states()) state->update(recipe_.adam, scale, step_ + 1);
  };
  if (view_.clock == nullptr) return update();
  view_.clock->update(elements, update);
}

// ---- data parallelism ---------------------------------------------------------------------------------------------

void Executor::queue(std::int32_t index, std::function<void()> task) {
  const std::size_t row = row_of(index);
  tasks_[row] = queue_.add([this, row, task = std::move(task)] {
    if (steps_ != nullptr) steps_->begin(row);
    task();
    if (steps_ != nullptr) steps_->end(row);
  });
}

void Executor::reduce(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  if (program_.collectives[i.collective()].pipelines.valid()) {
    queue(index, [this, id = i.collective()] { meeting_.run(id, model_); });
    return;
  }
  const LayerSpan span = layers_of(i, program_.chunk_of(i), false);
  std::vector<State*> states;
  for (std::int32_t l = span.last; l >= span.first; --l)
    for (State* state : model_.settled_by(l)) states.push_back(state);
  queue(index, [states] { State::finish_gradients(states); });
}

void Executor::gather(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const LayerSpan span = layers_of(i, program_.chunk_of(i), true);
  std::set<State*> seen;
  std::vector<State*> states;
  for (std::int32_t l = span.first; l <= span.last; ++l)
    for (State* state : model_.layer(l).states())
      if (seen.insert(state).second) states.push_back(state);
  queue(index, [states] { State::publish(states); });
}

void Executor::tie(std::int32_t index) {
  tasks_[static_cast<std::size_t>(index - rank_.begin)] =
      queue_.add([table = model_.copied_table(), copies = model_.copies()] { table->sum_over(*copies); });
}

// ---- messages -----------------------------------------------------------------------------------------------------

const Transfer& Executor::transfer_into(ChunkId chunk, bool gradient) const {
  return program_.transfers[TransferId(pipeline_.first_transfer + pipeline_.structure.transfer(chunk, gradient).value)];
}

void Executor::keep(ChunkId chunk, bool gradient, std::int32_t microbatch, const Tensor& value) {
  const std::int32_t other = gradient ? chunk.value - 1 : chunk.value;
  const Work& next = program_.works[WorkId(pipeline_.first_work + pipeline_.structure.forward(ChunkId(other)).value)];
  const std::int32_t transfer = pipeline_.first_transfer + pipeline_.structure.transfer(chunk, gradient).value;
  const auto sends = sends_.find(transfer);
  const std::int32_t uses = next.stage == rank_.stage ? 1 : sends == sends_.end() ? 0 : sends->second;
  if (uses > 0) values_of(gradient)[{chunk.value, microbatch}] = {value, {}, uses};
}

Tensor Executor::taken(ChunkId chunk, bool gradient, std::int32_t microbatch) {
  const auto at = values_of(gradient).find({chunk.value, microbatch});
  ESPALIER_CHECK(at != values_of(gradient).end());
  const Tensor value = at->second.assembled();
  if (--at->second.uses == 0) values_of(gradient).erase(at);
  return value;
}

void Executor::send(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const Transfer& transfer = program_.transfers[i.transfer()];
  if (steps_ != nullptr) steps_->begin(row_of(index));
  messages_[row_of(index)] = moves_.send(i, taken(transfer.chunk, transfer.gradient, i.microbatch));
  if (steps_ != nullptr) steps_->end(row_of(index));
}

void Executor::receive(std::int32_t index) {
  const auto at = static_cast<std::size_t>(index - rank_.begin);
  if (offered_[at]) return;
  offered_[at] = true;
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const Transfer& transfer = program_.transfers[i.transfer()];
  messages_[at] = moves_.receive(i, values_of(transfer.gradient)[{transfer.chunk.value, i.microbatch}]);
}

void Executor::offer_receives(std::int32_t now) {
  const std::int32_t here = static_cast<std::int32_t>(&rank_ - program_.ranks.data());
  for (auto& [peer, reached] : reached_) {
    for (; reached < program_.ranks[static_cast<std::size_t>(peer)].end; ++reached) {
      const Instruction& theirs = program_.instructions[static_cast<std::size_t>(reached)];
      if (theirs.peer != here) continue;
      if (theirs.kind == Kind::recv && theirs.match >= now) break;
      if (theirs.kind == Kind::send) receive(theirs.match);
    }
  }
}

}  // namespace espalier::runtime
