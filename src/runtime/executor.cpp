// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "plan/process_groups.h"

namespace espalier::runtime {

using at::Tensor;
using Kind = InstructionKind;

namespace {

const RankClass& rank_class(const Program& program, std::int64_t device) {
  for (const RankClass& rank : program.ranks)
    if (rank.device() == device) return rank;
  ESPALIER_CHECK(false);
  return program.ranks.front();
}

}  // namespace

Executor::Executor(const RankView& view, const Program& program, RankModel& model, Communicator* world, const TokenSource& data,
                   const Recipe& recipe)
    : view_(view),
      program_(program),
      rank_(rank_class(program, view.device)),
      model_(model),
      world_(world),
      data_(data),
      recipe_(recipe) {
  for (const RankClass& rank : program.ranks)
    if (rank.stage == rank_.stage) stage_devices_.push_back(rank.device());
  for (std::int32_t index = rank_.begin; index < rank_.end; ++index)
    if (const std::int32_t peer = program.instructions[static_cast<std::size_t>(index)].peer; peer >= 0) reached_[peer] = 0;
  position_ = std::find(stage_devices_.begin(), stage_devices_.end(), view.device) - stage_devices_.begin();
}

// ---- the step ----------------------------------------------------------------------------------------------------------------

StepResult Executor::step(std::int64_t step, const std::function<void(RankModel&)>& look) {
  const auto count = static_cast<std::size_t>(rank_.end - rank_.begin);
  step_ = step;
  loss_ = 0;
  look_ = &look;
  messages_.assign(count, {});
  tasks_.assign(count, 0);
  offered_.assign(count, false);
  for (auto& [peer, reached] : reached_) reached = program_.ranks[static_cast<std::size_t>(peer)].begin;
  for (std::int32_t index = rank_.begin; index < rank_.end; ++index) run(index);
  for (Message& message : messages_) message.wait();
  queue_.wait_for_all();
  ESPALIER_CHECK(passes_.empty() && entering_.empty() && leaving_.empty());
  return result_;
}

void Executor::run(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  offer_receives(index);
  if (i.kind != Kind::recv) {  // a receive is offered at once; who needs it waits for it
    wait_for(i.wait0);
    wait_for(i.wait1);
  }
  switch (i.kind) {
    case Kind::send: return send(index);
    case Kind::recv: return receive(index);
    case Kind::grad_reduce: return reduce(index);
    case Kind::param_gather: return gather(index);
    case Kind::tied_reduce: return tie(index);
    default: return compute(i);
  }
}

void Executor::wait_for(std::int32_t index) {
  if (index < 0) return;
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const auto at = static_cast<std::size_t>(index - rank_.begin);
  if (i.kind == Kind::recv) wait_for(i.wait0);
  messages_[at].wait();
  queue_.wait(tasks_[at]);
}

// ---- computations ------------------------------------------------------------------------------------------------------------

void Executor::compute(const Instruction& i) {
  const Work& work = program_.works[i.work()];
  switch (i.kind) {
    case Kind::forward: return forward(work, i);
    case Kind::backward: backward(work, i); return weight_gradients(work, i);
    case Kind::backward_input: return backward(work, i);
    case Kind::backward_weight: return weight_gradients(work, i);
    case Kind::optimizer: return update();
    default: ESPALIER_CHECK(false);
  }
}

LayerSpan Executor::chunk_layers(ChunkId chunk) const {
  const Work& work = program_.works[program_.structure().forward(chunk)];
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

/// Tokens of the own samples and those that follow them.
Batch Executor::batch_of(const WorkRange& range, std::int32_t microbatch) {
  const Training& training = view_.plan->training;
  const std::int64_t length = training.sequence.main;
  const Strategy& s = program_.strategies[static_cast<std::size_t>(range.strategy)];
  const Span samples = box_of(s, position_, range.samples, length).samples;
  const std::int64_t first = step_ * training.global_batch + microbatch * view_.plan->samples_per_microbatch() + samples.first;
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
    pass.value = entering_.extract({work.chunk.value, i.microbatch}).mapped();
    pass.value = moved(pass.value, program_.transfers[program_.structure().transfer(work.chunk, false)].sender, work.ranges_begin,
                       i.microbatch, false);
  }
  for (std::int32_t l = span.first; l <= span.last; ++l) {
    const std::int32_t r = range_of(work, l);
    const WorkRange& range = program_.ranges[static_cast<std::size_t>(r)];
    if (l == range.first && l > all.first) pass.value = moved(pass.value, r - 1, r, i.microbatch, false);
    for (State* state : model_.layer(l).states()) ESPALIER_CHECK(state->fresh());
    Frame& frame = pass.frames[l];
    if (l == 0 || l == last_layer) frame.batch = &(pass.batches[l] = batch_of(range, i.microbatch));
    pass.value = model_.layer(l).forward(frame, pass.value);
    loss_ += std::exchange(frame.loss, 0);
  }
  if (span.last < all.last) return;
  if (all.last < last_layer) entering_[{work.chunk.value + 1, i.microbatch}] = pass.value;
  pass.value = Tensor();
}

void Executor::backward(const Work& work, const Instruction& i) {
  const LayerSpan all = chunk_layers(work.chunk), span = layers_of(i, work.chunk, false);
  const std::int32_t last_layer = static_cast<std::int32_t>(view_.model->layers.size()) - 1;
  Pass& pass = pass_of(work, i.microbatch);
  if (span.last == all.last && all.last < last_layer)
    pass.value = leaving_.extract({work.chunk.value + 1, i.microbatch}).mapped();
  for (std::int32_t l = span.last; l >= span.first; --l) {
    const std::int32_t r = range_of(work, l);
    pass.value = model_.layer(l).backward(pass.frames.at(l), pass.value);
    pass.frames.at(l).loss = 0;  // of a forward that was repeated
    if (l == program_.ranges[static_cast<std::size_t>(r)].first && l > all.first)
      pass.value = moved(pass.value, r, r - 1, i.microbatch, true);
  }
  if (span.first > all.first) return;
  if (all.first > 0) {
    const std::int32_t sender = program_.transfers[program_.structure().transfer(work.chunk, false)].sender;
    leaving_[{work.chunk.value, i.microbatch}] = moved(pass.value, work.ranges_begin, sender, i.microbatch, true);
  }
  pass.value = Tensor();
}

void Executor::weight_gradients(const Work& work, const Instruction& i) {
  const LayerSpan all = chunk_layers(work.chunk), span = layers_of(i, work.chunk, false);
  Pass& pass = pass_of(work, i.microbatch);
  for (std::int32_t l = span.last; l >= span.first; --l) model_.layer(l).weight_gradients(pass.frames.at(l));
  if (span.first == all.first) passes_.erase({work.chunk.value, i.microbatch});
}

void Executor::update() {
  queue_.wait_for_all();
  for (State* state : model_.states()) state->finish_gradients();
  if (look_ != nullptr && *look_) (*look_)(model_);
  Tensor sums = at::zeros({2}, at::kDouble);
  double squares = 0;
  for (State* state : model_.states()) squares += state->squares();
  sums[0] = loss_;
  sums[1] = squares;
  if (world_ != nullptr) world_->all_reduce(sums);
  result_.loss = sums[0].item<double>();
  result_.gradient = std::sqrt(sums[1].item<double>());
  const bool clips = recipe_.clip > 0 && result_.gradient > recipe_.clip;
  const double scale = clips ? recipe_.clip / (result_.gradient + 1e-6) : 1;
  for (State* state : model_.states()) state->update(recipe_.adam, scale, step_ + 1);
}

// ---- data parallelism --------------------------------------------------------------------------------------------------------

void Executor::reduce(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const LayerSpan span = layers_of(i, program_.chunk_of(i), false);
  std::vector<State*> states;
  for (std::int32_t l = span.last; l >= span.first; --l)
    for (State* state : model_.settled_by(l)) states.push_back(state);
  tasks_[static_cast<std::size_t>(index - rank_.begin)] = queue_.add([states] {
    for (State* state : states) state->finish_gradients();
  });
}

void Executor::gather(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const LayerSpan span = layers_of(i, program_.chunk_of(i), true);
  std::set<State*> seen;
  std::vector<State*> states;
  for (std::int32_t l = span.first; l <= span.last; ++l)
    for (State* state : model_.layer(l).states())
      if (seen.insert(state).second) states.push_back(state);
  tasks_[static_cast<std::size_t>(index - rank_.begin)] = queue_.add([states] {
    for (State* state : states) state->publish();
  });
}

void Executor::tie(std::int32_t index) {
  tasks_[static_cast<std::size_t>(index - rank_.begin)] =
      queue_.add([table = model_.copied_table(), copies = model_.copies()] { table->sum_over(*copies); });
}

// ---- messages ----------------------------------------------------------------------------------------------------------------

std::int32_t Executor::tag(std::int32_t place, std::int32_t microbatch, bool gradient) const {
  return ((place * program_.schedule().microbatches + microbatch) << 1) | (gradient ? 1 : 0);
}

std::vector<Box> Executor::boxes_of(std::int32_t range) const {
  const WorkRange& r = program_.ranges[static_cast<std::size_t>(range)];
  std::vector<Box> boxes;
  for (std::size_t p = 0; p < stage_devices_.size(); ++p)
    boxes.push_back(box_of(program_.strategies[static_cast<std::size_t>(r.strategy)], static_cast<std::int64_t>(p), r.samples,
                           view_.plan->training.sequence.main));
  return boxes;
}

Tensor Executor::room_for(std::int32_t range) const {
  const WorkRange& r = program_.ranges[static_cast<std::size_t>(range)];
  const Box box = boxes_of(range)[static_cast<std::size_t>(position_)];
  return at::empty({box.tokens.size(), box.samples.size(), view_.model->layer(static_cast<std::size_t>(r.last)).hidden},
                   at::kFloat);
}

void Executor::send(std::int32_t index) {
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const Transfer& transfer = program_.transfers[i.transfer()];
  auto& values = transfer.gradient ? leaving_ : entering_;
  const Tensor value = values.extract({transfer.chunk.value, i.microbatch}).mapped().contiguous();
  const int to = view_.rank_of(program_.ranks[static_cast<std::size_t>(i.peer)].device());
  messages_[static_cast<std::size_t>(index - rank_.begin)] =
      world_->send(value, to, tag(transfer.chunk.value, i.microbatch, transfer.gradient));
}

void Executor::receive(std::int32_t index) {
  const auto at = static_cast<std::size_t>(index - rank_.begin);
  if (offered_[at]) return;
  offered_[at] = true;
  const Instruction& i = program_.instructions[static_cast<std::size_t>(index)];
  const Transfer& transfer = program_.transfers[i.transfer()];
  const Tensor room = room_for(transfer.sender);
  (transfer.gradient ? leaving_ : entering_)[{transfer.chunk.value, i.microbatch}] = room;
  const int from = view_.rank_of(program_.ranks[static_cast<std::size_t>(i.peer)].device());
  messages_[at] = world_->receive(room, from, tag(transfer.chunk.value, i.microbatch, transfer.gradient));
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

Tensor Executor::moved(const Tensor& x, std::int32_t from, std::int32_t to, std::int32_t microbatch, bool gradient) {
  const std::vector<Box> old_boxes = boxes_of(from), new_boxes = boxes_of(to);
  if (old_boxes == new_boxes) return x;
  const auto here = static_cast<std::size_t>(position_);
  const Box &had = old_boxes[here], &wants = new_boxes[here];
  const auto part = [](const Tensor& t, const Box& whole, const Box& box) {
    return t.narrow(0, box.tokens.first - whole.tokens.first, box.tokens.size())
        .narrow(1, box.samples.first - whole.samples.first, box.samples.size());
  };
  Tensor y = at::empty({wants.tokens.size(), wants.samples.size(), x.size(2)}, x.options());
  // Beside the tags of transfers, which are numbered by chunk.
  const std::int32_t mark = tag(program_.structure().chunks() + std::max(from, to), microbatch, gradient);
  const auto rank_at = [&](std::int64_t p) { return view_.rank_of(stage_devices_[static_cast<std::size_t>(p)]); };
  std::vector<std::pair<Message, Tensor>> under_way;
  std::vector<std::pair<Box, Tensor>> arriving;
  for (const Move& move : moves_between(old_boxes, new_boxes)) {
    const bool leaves = move.from == position_, arrives = move.to == position_;
    if (leaves && arrives) {
      part(y, wants, move.box).copy_(part(x, had, move.box));
    } else if (arrives) {
      const Tensor room = at::empty({move.box.tokens.size(), move.box.samples.size(), x.size(2)}, x.options());
      arriving.emplace_back(move.box, room);
      under_way.emplace_back(world_->receive(room, rank_at(move.from), mark), room);
    } else if (leaves) {
      const Tensor value = part(x, had, move.box).contiguous();
      under_way.emplace_back(world_->send(value, rank_at(move.to), mark), value);
    }
  }
  for (auto& [message, tensor] : under_way) message.wait();
  for (const auto& [box, tensor] : arriving) part(y, wants, box).copy_(tensor);
  return y;
}

}  // namespace espalier::runtime
