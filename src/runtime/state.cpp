// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace espalier::runtime {

Intervals slice(const Intervals& list, std::int64_t from, std::int64_t to) {
  Intervals out;
  std::int64_t at = 0;
  for (const Interval& piece : list) {
    const std::int64_t first = std::max<std::int64_t>(from - at, 0), last = std::min(to - at, piece.size());
    if (first < last) out.push_back({piece.first + first, piece.first + last});
    at += piece.size();
  }
  return out;
}

Intervals part_of(const Intervals& held, std::int64_t shards, std::int64_t shard) {
  const std::int64_t n = elements_of(held), part = (n + shards - 1) / shards;
  return slice(held, std::min(n, shard * part), std::min(n, (shard + 1) * part));
}

State::State(StateShape shape, const std::vector<float>& initial) : shape_(std::move(shape)) {
  elements_ = elements_of(shape_.held);
  part_ = (elements_ + shape_.shards - 1) / shape_.shards;
  ESPALIER_CHECK(static_cast<std::int64_t>(initial.size()) == elements_);
  at::Tensor whole = at::zeros({part_ * shape_.shards}, at::kFloat);
  if (!initial.empty()) std::memcpy(whole.data_ptr<float>(), initial.data(), initial.size() * sizeof(float));
  own_ = whole.narrow(0, shape_.shard * part_, part_);
  if (shards_parameters(shape_.zero))
    own_ = own_.clone();
  else
    whole_ = whole;
  first_ = at::zeros({part_}, at::kFloat);
  second_ = at::zeros({part_}, at::kFloat);
}

void State::acquire() {
  if (!shards_parameters(shape_.zero) || users_++ > 0) return;
  whole_ = at::empty({part_ * shape_.shards}, at::kFloat);
  if (shape_.shard_group != nullptr)
    shape_.shard_group->all_gather(whole_, own_);
  else
    whole_.copy_(own_);
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
  if (!gradient_.defined()) gradient_ = at::zeros({part_ * shape_.shards}, at::kFloat);
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
  sum_segments(gradient_, shape_.partial, shape_.tensor);
  sum_segments(gradient_, shape_.shared_heads, shape_.heads);
}

void State::micro_batch_done() {
  if (!shards_gradients(shape_.zero)) return;
  gradient({0, 0});  // every rank of the group takes part, whatever its micro-batch touched
  sum_in_tensor_group();
  at::Tensor part = at::empty({part_}, at::kFloat);
  if (shape_.shard_group != nullptr)
    shape_.shard_group->reduce_scatter(part, gradient_);
  else
    part.copy_(gradient_);
  if (reduced_.defined())
    reduced_.add_(part);
  else
    reduced_ = part;
  gradient_ = at::Tensor();
}

void State::finish_gradients() {
  if (finished_) return;
  finished_ = true;
  if (!shards_gradients(shape_.zero)) {
    gradient({0, 0});
    sum_in_tensor_group();
    if (shape_.shard_group == nullptr || !shards_optimizer(shape_.zero)) {
      reduced_ = gradient_.narrow(0, shape_.shard * part_, part_);
      if (shape_.shard_group != nullptr) shape_.shard_group->all_reduce(reduced_);
    } else {
      reduced_ = at::empty({part_}, at::kFloat);
      shape_.shard_group->reduce_scatter(reduced_, gradient_);
    }
    gradient_ = at::Tensor();
  }
  if (shape_.replicas != nullptr) shape_.replicas->all_reduce(reduced_);
}

void State::sum_over(Communicator& copies) {
  finish_gradients();
  copies.all_reduce(reduced_);
}

double State::squares() const {
  const Intervals own = this->own();
  double sum = 0;
  std::int64_t at = 0;
  for (const Interval& piece : own) {
    for (const Interval& counted : intersection({piece}, shape_.counted)) {
      const at::Tensor g = reduced_.narrow(0, at + counted.first - piece.first, counted.size());
      sum += g.to(at::kDouble).square().sum().item<double>();
    }
    at += piece.size();
  }
  return sum;
}

void State::update(const AdamW& adam, double scale, std::int64_t step) {
  ESPALIER_CHECK(reduced_.defined());
  const at::Tensor g = scale == 1 ? reduced_ : reduced_.mul(scale);
  first_.mul_(adam.beta1).add_(g, 1 - adam.beta1);
  second_.mul_(adam.beta2).addcmul_(g, g, 1 - adam.beta2);
  const double correction1 = 1 - std::pow(adam.beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(adam.beta2, static_cast<double>(step));
  const at::Tensor root = second_.div(correction2).sqrt_().add_(adam.epsilon);
  own_.mul_(1 - adam.rate * adam.decay).addcdiv_(first_, root, -adam.rate / correction1);
  reduced_ = at::Tensor();
  finished_ = false;
  fresh_ = shape_.shard_group == nullptr || !shards_optimizer(shape_.zero) || shards_parameters(shape_.zero);
}

void State::publish() {
  if (fresh_) return;
  shape_.shard_group->all_gather(whole_, own_.clone());
  fresh_ = true;
}

}  // namespace espalier::runtime
