// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>

#include "base/invariant.h"
#include "runtime/agreement.h"
#include "storage/pretrained.h"

namespace espalier::runtime {
namespace {

constexpr int kWeightsTag = 1 << 30;  // distinct from the tags of transfers

/// Gathers, on rank 0, the elements that all ranks count of a layer, in their order. The result is empty on the other
/// ranks.
class Gathering {
 public:
  Gathering(const RankView& view, const RankModel& model, Communicator* world) : view_(view), model_(model), world_(world) {}

  std::vector<float> layer(std::int32_t layer) {
    std::vector<CountedPart> own;
    for (const State* state : model_.states())
      if (state->shape().layer == layer) own.push_back(counted_part(*state, state->own_values()));
    if (world_ != nullptr && world_->rank() != 0) {
      send(own);
      return {};
    }
    std::vector<float> out(static_cast<std::size_t>(numbered_elements(view_.model->layer(static_cast<std::size_t>(layer)))));
    std::int64_t filled = 0;
    for (const CountedPart& part : own) filled += put(part.elements, part.values.data(), out);
    for (int rank = 1; world_ != nullptr && rank < world_->size(); ++rank) filled += receive(rank, out);
    ESPALIER_CHECK(filled == static_cast<std::int64_t>(out.size()));
    return out;
  }

 private:
  static std::int64_t put(const Intervals& elements, const float* values, std::vector<float>& out) {
    const float* from = values;
    for (const Interval& piece : elements) {
      std::copy(from, from + piece.size(), out.begin() + piece.first);
      from += piece.size();
    }
    return from - values;
  }

  /// Sends the numbers of intervals and elements, then the intervals, then the elements.
  void send(const std::vector<CountedPart>& parts) {
    Intervals all;
    std::vector<float> values;
    for (const CountedPart& part : parts) {
      all.insert(all.end(), part.elements.begin(), part.elements.end());
      values.insert(values.end(), part.values.begin(), part.values.end());
    }
    at::Tensor sizes = at::empty({2}, at::kLong);
    sizes.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(all.size());
    sizes.data_ptr<std::int64_t>()[1] = static_cast<std::int64_t>(values.size());
    world_->send(sizes, 0, kWeightsTag).wait();
    if (values.empty()) return;
    at::Tensor bounds = at::empty({2 * static_cast<std::int64_t>(all.size())}, at::kLong);
    for (std::size_t k = 0; k < all.size(); ++k) {
      bounds.data_ptr<std::int64_t>()[2 * k] = all[k].first;
      bounds.data_ptr<std::int64_t>()[2 * k + 1] = all[k].last;
    }
    at::Tensor list = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
    std::copy(values.begin(), values.end(), list.data_ptr<float>());
    world_->send(bounds, 0, kWeightsTag).wait();
    world_->send(list, 0, kWeightsTag).wait();
  }

  std::int64_t receive(int rank, std::vector<float>& out) {
    const at::Tensor sizes = at::empty({2}, at::kLong);
    world_->receive(sizes, rank, kWeightsTag).wait();
    const std::int64_t intervals = sizes.data_ptr<std::int64_t>()[0], elements = sizes.data_ptr<std::int64_t>()[1];
    if (elements == 0) return 0;
    const at::Tensor bounds = at::empty({2 * intervals}, at::kLong), list = at::empty({elements}, at::kFloat);
    world_->receive(bounds, rank, kWeightsTag).wait();
    world_->receive(list, rank, kWeightsTag).wait();
    Intervals all;
    for (std::int64_t k = 0; k < intervals; ++k)
      all.push_back({bounds.data_ptr<std::int64_t>()[2 * k], bounds.data_ptr<std::int64_t>()[2 * k + 1]});
    return put(all, list.data_ptr<float>(), out);
  }

  const RankView& view_;
  const RankModel& model_;
  Communicator* world_;
};

}  // namespace

CountedPart counted_part(const State& state, const at::Tensor& own) {
  CountedPart part;
  part.layer = state.shape().layer;
  const float* values = own.data_ptr<float>();
  std::int64_t at = 0;
  for (const Interval& piece : state.own()) {
    for (const Interval& counted : intersection({piece}, state.shape().counted)) {
      part.elements.push_back(counted);
      const float* from = values + at + counted.first - piece.first;
      part.values.insert(part.values.end(), from, from + counted.size());
    }
    at += piece.size();
  }
  return part;
}

Status load_weights(const std::string& path, const RankView& view, RankModel& model, Communicator* world) {
  const auto folder = storage::Pretrained::open(path, *view.model);
  if (Status status = agreed(folder ? Status() : Status(folder.error()), world); !status.ok()) return status;
  for (State* state : model.states()) state->restore(folder->elements(state->shape().layer, state->shape().held));
  return {};
}

Status save_weights(const std::string& folder, const RankView& view, const RankModel& model, Communicator* world) {
  std::optional<storage::PretrainedWriter> writer;
  Status failed;
  if (world == nullptr || world->rank() == 0) {
    auto created = storage::PretrainedWriter::create(folder, *view.model, view.plan->model_source);
    if (created)
      writer.emplace(std::move(*created));
    else
      failed = created.error();
  }
  if (Status status = agreed(failed, world); !status.ok()) return status;
  Gathering gathering(view, model, world);
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(view.model->layers.size()); ++l) {
    const std::vector<float> elements = gathering.layer(l);
    if (writer && failed.ok()) failed = writer->add(l, elements);
  }
  if (writer && failed.ok()) failed = writer->finish();
  return agreed(failed, world);
}

}  // namespace espalier::runtime
