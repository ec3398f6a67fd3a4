// SPDX-License-Identifier: Apache-2.0
#include "runtime/gradient_meeting.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <utility>
#include <vector>

#include "base/invariant.h"

namespace espalier::runtime {

using at::Tensor;

namespace {

/// Calls f(part of the own gradient, part of a message) for each contiguous run of message elements in the own part
/// of a state.
template <class Function>
void for_each_run(const std::vector<ExchangedPart>& parts, const Tensor& message, const RankModel& model,
                  const std::function<Tensor(State*)>& list_of, const Function& f) {
  std::int64_t at = 0;
  for (const ExchangedPart& part : parts) {
    State* state = model.state_of(part.unit);
    ESPALIER_CHECK(state != nullptr);
    const Tensor list = list_of(state);
    for (const Interval& piece : part.elements) {
      std::int64_t offset = 0;
      for (const Interval& own : state->own()) {
        for (const Interval& run : intersection({own}, {piece})) {
          f(list.narrow(0, offset + run.first - own.first, run.size()),
            message.narrow(0, at + run.first - piece.first, run.size()));
        }
        offset += own.size();
      }
      at += piece.size();
    }
  }
  ESPALIER_CHECK(at == message.numel());
}

}  // namespace

std::int64_t GradientMeeting::elements_of(const ExchangeMessage& message) {
  std::int64_t n = 0;
  for (const ExchangedPart& part : message.parts) n += espalier::elements_of(part.elements);
  return n;
}

GradientMeeting::GradientMeeting(const RankView& view, const Program& program, Communicator* everyone)
    : view_(view), program_(program), everyone_(everyone), party_(rank_class(program, view.device).pipeline) {
  for (GradientExchange& exchange : exchanges_of(program, *view.plan, *view.model)) {
    GradientExchange& own = exchanges_[exchange.collective.value];
    own.collective = exchange.collective;
    for (ExchangeMessage& message : exchange.messages)
      if (message.from == view.device || message.to == view.device) own.messages.push_back(std::move(message));
  }
}

void GradientMeeting::run(CollectiveId collective, RankModel& model) {
  const GradientExchange& exchange = exchanges_.at(collective.value);
  const LayerSpan layers = program_.collectives[collective].layers;
  for (std::int32_t l = layers.first; l <= layers.last; ++l) State::finish_gradients(model.layer(l).states());
  const auto own_gradient = [](State* state) { return state->own_gradient(); };
  std::vector<std::pair<Message, Tensor>> under_way;
  std::vector<std::pair<const ExchangeMessage*, Tensor>> arriving;
  for (const ExchangeMessage& message : exchange.messages) {
    const Tensor buffer = at::empty({elements_of(message)}, at::kFloat);
    if (message.to == view_.device) {
      arriving.emplace_back(&message, buffer);
      under_way.emplace_back(everyone_->receive(buffer, view_.rank_of(message.from), collective.value), buffer);
    } else {
      for_each_run(message.parts, buffer, model, own_gradient, [](const Tensor& own, const Tensor& sent) { sent.copy_(own); });
      under_way.emplace_back(everyone_->send(buffer, view_.rank_of(message.to), collective.value), buffer);
    }
  }
  for (auto& [message, buffer] : under_way) message.wait();
  // Sums in the order of the parties, so that owners of the same elements get the same bits.
  std::map<State*, Tensor> sums;
  for (const auto& [message, buffer] : arriving)
    for (const ExchangedPart& part : message->parts) {
      State* state = model.state_of(part.unit);
      if (sums.count(state) == 0) sums[state] = at::zeros_like(state->own_gradient());
    }
  const auto pipelines = static_cast<std::int32_t>(program_.pipelines.size());
  for (std::int32_t party = 0; party < pipelines; ++party) {
    for (auto& [state, sum] : sums)
      if (party == party_) sum.add_(state->own_gradient());
    for (const auto& [message, buffer] : arriving)
      if (message->party == party)
        for_each_run(
            message->parts, buffer, model, [&](State* state) { return sums.at(state); },
            [](const Tensor& own, const Tensor& received) { own.add_(received); });
  }
  for (auto& [state, sum] : sums) state->own_gradient().copy_(sum);
}

}  // namespace espalier::runtime
