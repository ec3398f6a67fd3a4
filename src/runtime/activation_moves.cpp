// SPDX-License-Identifier: Apache-2.0
#include "runtime/activation_moves.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/invariant.h"

namespace espalier::runtime {

using at::Tensor;

namespace {

/// Returns views of the parts of `t` that lie in `box`, run by run. `t` holds box `whole`. Each part comes with its
/// token range inside `box`.
std::vector<std::pair<Tensor, Extent>> parts_of(const Tensor& t, const ActivationBox& whole, const ActivationBox& box) {
  std::vector<std::pair<Tensor, Extent>> parts;
  std::int64_t begin = 0, at = 0;
  for (const Extent& run : whole.tokens) {
    for (const Extent& both : overlap({run}, box.tokens)) {
      parts.emplace_back(t.narrow(0, begin + both.first - run.first, both.size())
                             .narrow(1, box.samples.first - whole.samples.first, box.samples.size())
                             .narrow(2, box.features.first - whole.features.first, box.features.size()),
                         Extent{at, at + both.size()});
      at += both.size();
    }
    begin += run.size();
  }
  ESPALIER_CHECK(at == size_of(box.tokens));
  return parts;
}

/// Returns these parts joined into one tensor.
Tensor part_of(const Tensor& t, const ActivationBox& whole, const ActivationBox& box) {
  std::vector<Tensor> parts;
  for (const auto& [part, tokens] : parts_of(t, whole, box)) parts.push_back(part);
  return parts.size() == 1 ? parts.front().contiguous() : at::cat(parts);
}

}  // namespace

void Arrival::expect(const std::vector<std::pair<Tensor, Extent>>& parts, const Tensor& box) {
  for (const auto& [part, tokens] : parts) pieces.emplace_back(part, box.narrow(0, tokens.first, tokens.size()));
}

Tensor Arrival::assembled() {
  for (auto& [part, arrived] : pieces) part.copy_(arrived);
  pieces.clear();
  return room;
}

ActivationMoves::ActivationMoves(const RankView& view, const Program& program, const RankClass& rank, Communicator* world)
    : view_(view),
      program_(program),
      rank_(rank),
      pipeline_(program.pipelines[static_cast<std::size_t>(rank.pipeline)]),
      world_(world) {
  for (const RankClass& other : program.ranks)
    if (other.pipeline == rank.pipeline && other.stage == rank.stage) stage_devices_.push_back(other.device());
  position_ = position_of(rank);
}

// ---- layouts ------------------------------------------------------------------------------------------------------

std::int64_t ActivationMoves::ranks_beside(const RankClass& rank) const {
  return std::count_if(program_.ranks.begin(), program_.ranks.end(),
                       [&](const RankClass& other) { return other.pipeline == rank.pipeline && other.stage == rank.stage; });
}

std::int64_t ActivationMoves::position_of(const RankClass& rank) const {
  const auto first = std::find_if(program_.ranks.begin(), program_.ranks.end(), [&](const RankClass& other) {
    return other.pipeline == rank.pipeline && other.stage == rank.stage;
  });
  return &rank - &*first;
}

std::vector<ActivationBox> ActivationMoves::boxes(Side side, const RankClass& rank) const {
  const WorkRange& range = program_.ranges[static_cast<std::size_t>(side.range)];
  const LayerKind& kind = view_.model->layer(static_cast<std::size_t>(side.layer));
  const ActivationShape shape{range.samples, rank.samples_per_replica, view_.plan->training.sequence.main, kind.hidden};
  return boxes_of(program_.strategies[static_cast<std::size_t>(range.strategy)], ranks_beside(rank), shape,
                  kind.role == LayerRole::block);
}

bool ActivationMoves::same_layout(Side a, Side b) const {
  if (a.range != b.range) return false;
  const WorkRange& range = program_.ranges[static_cast<std::size_t>(a.range)];
  return program_.strategies[static_cast<std::size_t>(range.strategy)].partition.empty();
}

Extent ActivationMoves::samples(std::int32_t range) const {
  const WorkRange& r = program_.ranges[static_cast<std::size_t>(range)];
  const ActivationShape shape{r.samples, rank_.samples_per_replica, 1, 1};
  return box_of(program_.strategies[static_cast<std::size_t>(r.strategy)], position_, shape, false).samples;
}

ActivationMoves::Side ActivationMoves::before(const Transfer& transfer) const {
  return {transfer.sender, program_.ranges[static_cast<std::size_t>(transfer.sender)].last};
}

ActivationMoves::Side ActivationMoves::behind(const Transfer& transfer) const {
  return {transfer.receiver, program_.ranges[static_cast<std::size_t>(transfer.receiver)].first};
}

Tensor ActivationMoves::room_for(const ActivationBox& box) const {
  return at::empty({size_of(box.tokens), box.samples.size(), box.features.size()}, view_.type());
}

// ---- between stages -----------------------------------------------------------------------------------------------

std::int32_t ActivationMoves::tag(std::int32_t place, std::int32_t microbatch, bool gradient) const {
  return ((place * pipeline_.structure.schedule.microbatches + microbatch) << 1) | (gradient ? 1 : 0);
}

int ActivationMoves::peer_of(const Instruction& i) const {
  return view_.rank_of(program_.ranks[static_cast<std::size_t>(i.peer)].device());
}

ActivationBox ActivationMoves::box_between(const Transfer& transfer, const RankClass& from, const RankClass& to) const {
  const Side left = transfer.gradient ? behind(transfer) : before(transfer);
  const Side wanted = transfer.gradient ? before(transfer) : behind(transfer);
  for (const BoxMove& move : moves_between(boxes(left, from), boxes(wanted, to), false))
    if (move.from == position_of(from) && move.to == position_of(to)) return move.box;
  ESPALIER_CHECK(false);
  return {};
}

Message ActivationMoves::send(const Instruction& i, const Tensor& value) {
  const Transfer& transfer = program_.transfers[i.transfer()];
  Tensor sent = value;
  if (transfer.boxes) {
    const Side left = transfer.gradient ? behind(transfer) : before(transfer);
    const ActivationBox whole = boxes(left, rank_)[static_cast<std::size_t>(position_)];
    sent = part_of(value, whole, box_between(transfer, rank_, program_.ranks[static_cast<std::size_t>(i.peer)]));
  }
  return world_->send(sent.contiguous(), peer_of(i), tag(transfer.chunk.value, i.microbatch, transfer.gradient));
}

Message ActivationMoves::receive(const Instruction& i, Arrival& arrival) {
  const Transfer& transfer = program_.transfers[i.transfer()];
  // Between stages joined position by position, a value keeps the layout of the earlier stage on both sides.
  const Side side = transfer.boxes && !transfer.gradient ? behind(transfer) : before(transfer);
  const ActivationBox whole = boxes(side, rank_)[static_cast<std::size_t>(position_)];
  if (!arrival.room.defined()) arrival.room = room_for(whole);
  Tensor into = arrival.room;
  if (transfer.boxes) {
    const ActivationBox box = box_between(transfer, program_.ranks[static_cast<std::size_t>(i.peer)], rank_);
    if (!(box == whole)) {
      into = room_for(box);
      arrival.expect(parts_of(arrival.room, whole, box), into);
    }
  }
  return world_->receive(into, peer_of(i), tag(transfer.chunk.value, i.microbatch, transfer.gradient));
}

// ---- inside a stage -----------------------------------------------------------------------------------------------

Tensor ActivationMoves::moved(const Tensor& x, Side from, Side to, std::int32_t microbatch, bool gradient) {
  if (same_layout(from, to)) return x;
  const std::vector<ActivationBox> old_boxes = boxes(from, rank_), new_boxes = boxes(to, rank_);
  if (old_boxes == new_boxes) return x;
  const auto here = static_cast<std::size_t>(position_);
  const ActivationBox &had = old_boxes[here], &wants = new_boxes[here];
  Tensor y = room_for(wants);
  // These tags follow those of the transfers, which are numbered by chunk.
  const std::int32_t mark = tag(pipeline_.structure.chunks() + std::max(from.layer, to.layer), microbatch, gradient);
  const auto rank_at = [&](std::int64_t p) { return view_.rank_of(stage_devices_[static_cast<std::size_t>(p)]); };
  std::vector<std::pair<Message, Tensor>> under_way;
  Arrival arrival{y, {}};
  for (const BoxMove& move : moves_between(old_boxes, new_boxes)) {
    const bool leaves = move.from == position_, arrives = move.to == position_;
    if (leaves && arrives) {
      arrival.expect(parts_of(y, wants, move.box), part_of(x, had, move.box));
    } else if (arrives) {
      const Tensor room = room_for(move.box);
      arrival.expect(parts_of(y, wants, move.box), room);
      under_way.emplace_back(world_->receive(room, rank_at(move.from), mark), room);
    } else if (leaves) {
      const Tensor value = part_of(x, had, move.box);
      under_way.emplace_back(world_->send(value, rank_at(move.to), mark), value);
    }
  }
  for (auto& [message, tensor] : under_way) message.wait();
  return arrival.assembled();
}

}  // namespace espalier::runtime
