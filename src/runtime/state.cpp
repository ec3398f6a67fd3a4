// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/invariant.h"

namespace espalier::runtime {

State::State(StateShape shape, const std::vector<float>& initial) : shape_(std::move(shape)) {
  elements_ = elements_of(shape_.held);
  const std::vector<std::int64_t> bounds = part_bounds(elements_, shape_.shards, shape_.shares);
  const auto at = static_cast<std::size_t>(shape_.shard);
  owned_ = slice(shape_.held, bounds[at], bounds[at + 1]);
  part_ = (elements_ + shape_.shards - 1) / shape_.shards;
  offset_ = shape_.shard * part_;
  length_ = part_ * shape_.shards;
  if (!shape_.shares.empty()) {
    for (std::size_t k = 1; k < bounds.size(); ++k) sizes_.push_back(bounds[k] - bounds[k - 1]);
    offset_ = bounds[at];
    part_ = sizes_[at];
    length_ = elements_;
  }
  ESPALIER_CHECK(static_cast<std::int64_t>(initial.size()) == elements_);
  at::Tensor whole = at::zeros({length_}, at::kFloat);
  if (!initial.empty()) std::memcpy(whole.data_ptr<float>(), initial.data(), initial.size() * sizeof(float));
  own_ = whole.narrow(0, offset_, part_);
  if (shards_parameters(shape_.zero)) {
    own_ = own_.clone();
    read_ = own_.to(shape_.type);
  } else {
    whole_ = whole.to(shape_.type);
    if (shape_.type != at::kFloat) own_ = own_.clone();
  }
  if (shards_gradients(shape_.zero)) {
    reduced_ = at::zeros({part_}, at::kFloat);
  } else {
    gradient_ = at::zeros({length_}, at::kFloat);
    reduced_ = gradient_.narrow(0, offset_, part_);
  }
  first_ = at::zeros({part_}, at::kFloat);
  second_ = at::zeros({part_}, at::kFloat);
}

void State::restore(const std::vector<float>& values) {
  ESPALIER_CHECK(static_cast<std::int64_t>(values.size()) == elements_);
  at::Tensor list = at::zeros({length_}, at::kFloat);
  if (!values.empty()) std::memcpy(list.data_ptr<float>(), values.data(), values.size() * sizeof(float));
  if (whole_.defined()) whole_.copy_(list);
  own_.copy_(list.narrow(0, offset_, part_));
  follow();
}

void State::follow() {
  if (shape_.type == at::kFloat) return;  // views
  (read_.defined() ? read_ : whole_.narrow(0, offset_, part_)).copy_(own_);
}

void State::restore_moments(const std::vector<float>& first, const std::vector<float>& second) {
  const auto size = static_cast<std::size_t>(elements_of(own()));
  ESPALIER_CHECK(first.size() == size && second.size() == size && size <= static_cast<std::size_t>(part_));
  for (const auto& [tensor, values] : {std::pair(first_, &first), std::pair(second_, &second)}) {
    tensor.zero_();
    if (size > 0) std::memcpy(tensor.data_ptr<float>(), values->data(), size * sizeof(float));
  }
}

/// Gathers the parts of all members into the whole list.
void State::gather(const at::Tensor& part) {
  if (sizes_.empty())
    shape_.shard_group->all_gather(whole_, part);
  else
    shape_.shard_group->all_gather(whole_, part, sizes_);
}

/// Sums the gradients of the own part over the members.
void State::scatter(at::Tensor part) {
  if (sizes_.empty())
    shape_.shard_group->reduce_scatter(std::move(part), gradient_);
  else
    shape_.shard_group->reduce_scatter(std::move(part), gradient_, sizes_);
}

void State::acquire() {
  if (!shards_parameters(shape_.zero) || users_++ > 0) return;
  whole_ = at::empty({length_}, shape_.type);
  if (shape_.shard_group != nullptr)
    gather(read_);
  else
    whole_.copy_(read_);
}

void State::release() {
  if (!shards_parameters(shape_.zero) || --users_ > 0) return;
  whole_ = at::Tensor();
}

at::Tensor State::values(const Segment& segment) const {
  ESPALIER_CHECK(whole_.defined());
  return whole_.narrow(0, segment.offset, segment.size);
}

at::Tensor State::gradient(const Segment& segment) {
  if (!gradient_.defined()) gradient_ = at::zeros({length_}, at::kFloat);
  return gradient_.narrow(0, segment.offset, segment.size);
}

namespace {

/// Sums the segments of a list over a group in one message.
void sum_segments(at::Tensor& list, const std::vector<Segment>& segments, Communicator* group) {
  if (group == nullptr || segments.empty()) return;
  std::vector<at::Tensor> pieces;
  for (const Segment& s : segments) pieces.push_back(list.narrow(0, s.offset, s.size));
  const at::Tensor joined = at::cat(pieces);
  group->all_reduce(joined);
  std::int64_t at = 0;
  for (at::Tensor& piece : pieces) {
    piece.copy_(joined.narrow(0, at, piece.numel()));
    at += piece.numel();
  }
}

}  // namespace

void State::sum_in_tensor_group() {
  for (const PartialSum& sum : shape_.sums) sum_segments(gradient_, sum.segments, sum.group);
}

void State::micro_batch_done() {
  if (!shards_gradients(shape_.zero)) return;
  gradient({0, 0});  // every rank of the group takes part, whatever its micro-batch used
  sum_in_tensor_group();
  at::Tensor part = at::empty({part_}, at::kFloat);
  if (shape_.shard_group != nullptr)
    scatter(part);
  else
    part.copy_(gradient_);
  gradient_ = at::Tensor();
  reduced_.add_(part);
}

namespace {

/// Groups states by the group that `group_of` returns, in the order in which groups first occur, which is the same on
/// all ranks of a group. Null means that a state is in none.
template <class GroupOf>
std::vector<std::pair<Communicator*, std::vector<State*>>> by_group(const std::vector<State*>& states, const GroupOf& group_of) {
  std::vector<std::pair<Communicator*, std::vector<State*>>> all;
  for (State* state : states) {
    Communicator* group = group_of(*state);
    if (group == nullptr) continue;
    auto at = std::find_if(all.begin(), all.end(), [group](const auto& known) { return known.first == group; });
    if (at == all.end()) at = all.insert(all.end(), {group, {}});
    at->second.push_back(state);
  }
  return all;
}

}  // namespace

void State::finish_gradients(const std::vector<State*>& states) {
  std::vector<State*> now;
  for (State* state : states)
    if (!std::exchange(state->finished_, true)) now.push_back(state);
  const auto whole = [](const State& state) { return !shards_gradients(state.shape_.zero); };
  for (State* state : now)
    if (whole(*state)) state->sum_in_tensor_group();
  for (const auto& [group, members] : by_group(now, [&](const State& s) { return whole(s) ? s.shape_.shard_group : nullptr; })) {
    std::vector<at::Tensor> summed, parts, lists;
    for (State* state : members) {
      if (!shards_optimizer(state->shape_.zero)) {
        summed.push_back(state->reduced_);
      } else if (state->sizes_.empty()) {
        parts.push_back(state->reduced_);
        lists.push_back(state->gradient_);
      } else {
        state->scatter(state->reduced_);
      }
    }
    group->all_reduce(summed);
    group->reduce_scatter(parts, lists);
  }
  for (const auto& [group, members] : by_group(now, [](const State& s) { return s.shape_.replicas; })) {
    std::vector<at::Tensor> summed;
    for (State* state : members) summed.push_back(state->reduced_);
    group->all_reduce(summed);
  }
}

void State::sum_over(Communicator& copies) {
  finish_gradients();
  copies.all_reduce(reduced_);
}

namespace {

/// Limits how many elements are in double precision at a time.
constexpr std::int64_t kSummedAtOnce = 1 << 14;

}  // namespace

double State::squares() const {
  double sum = 0;
  std::int64_t at = 0;
  for (const Interval& piece : owned_) {
    for (const Interval& counted : intersection({piece}, shape_.counted)) {
      const at::Tensor g = reduced_.narrow(0, at + counted.first - piece.first, counted.size());
      for (std::int64_t first = 0; first < counted.size(); first += kSummedAtOnce) {
        const std::int64_t size = std::min(kSummedAtOnce, counted.size() - first);
        sum += g.narrow(0, first, size).to(at::kDouble).square_().sum().item<double>();
      }
    }
    at += piece.size();
  }
  return sum;
}

void State::update(const AdamW& adam, double scale, std::int64_t step) {
  ESPALIER_CHECK(finished_);
  const at::Tensor g = scale == 1 ? reduced_ : reduced_.mul_(scale);
  first_.mul_(adam.beta1).add_(g, 1 - adam.beta1);
  second_.mul_(adam.beta2).addcmul_(g, g, 1 - adam.beta2);
  const double correction1 = 1 - std::pow(adam.beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(adam.beta2, static_cast<double>(step));
  const at::Tensor root = second_.div(correction2).sqrt_().add_(adam.epsilon);
  own_.mul_(1 - adam.rate * adam.decay).addcdiv_(first_, root, -adam.rate / correction1);
  follow();
  (gradient_.defined() ? gradient_ : reduced_).zero_();
  finished_ = false;
  fresh_ = shape_.shard_group == nullptr || !shards_optimizer(shape_.zero) || shards_parameters(shape_.zero);
}

void State::publish(const std::vector<State*>& states) {
  std::vector<State*> now;
  for (State* state : states)
    if (!std::exchange(state->fresh_, true)) now.push_back(state);
  for (const auto& [group, members] : by_group(now, [](const State& s) { return s.shape_.shard_group; })) {
    std::vector<at::Tensor> wholes, parts;
    for (State* state : members) {
      const at::Tensor own = state->whole_.narrow(0, state->offset_, state->part_).clone();
      if (!state->sizes_.empty()) {
        state->gather(own);
        continue;
      }
      wholes.push_back(state->whole_);
      parts.push_back(own);
    }
    group->all_gather(wholes, parts);
  }
}

}  // namespace espalier::runtime
