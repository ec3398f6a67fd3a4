// SPDX-License-Identifier: Apache-2.0
// Implements token buckets of the flow-level network: tokens flow in at the sustained rate and out with the bytes.
// Without tokens the link slows down.
#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "sim/flow_network.h"

namespace espalier::sim {
namespace {

/// Defines the relative difference of rates that counts as rounding.
constexpr double kEqualRates = 1e-9;

}  // namespace

void FlowNetwork::add_bucket(LinkId id, double full, double sustained, double size) {
  ESPALIER_CHECK(id >= 0 && id < links() && link(id).bucket < 0 && link(id).flows.empty());
  ESPALIER_CHECK(sustained > 0.0 && full >= sustained && std::isfinite(full) && size >= 0.0 && std::isfinite(size));
  BucketState state;
  state.link = id;
  state.full = full * kPerNanosecond;
  state.sustained = sustained * kPerNanosecond;
  state.size = size;
  state.tokens = state.least = size;
  state.since = now_;
  if (link(id).nominal > 0.0) state.factor = link(id).capacity / link(id).nominal;
  link(id).bucket = static_cast<std::int32_t>(buckets_.size());
  set_capacity(id, capacity_of(state));
  buckets_.push_back(state);
}

double FlowNetwork::capacity_of(const BucketState& bucket) const {
  const double nominal = links_[static_cast<std::size_t>(bucket.link)].nominal * bucket.factor;
  return std::min(nominal, bucket.spent ? bucket.sustained : bucket.full);
}

double FlowNetwork::tokens(std::size_t index) const {
  const BucketState& state = buckets_.at(index);
  const auto passed = static_cast<double>(now_ - state.since);
  return std::clamp(state.tokens + (state.sustained - state.used) * passed, 0.0, state.size);
}

double FlowNetwork::least_tokens(std::size_t index) const { return std::min(buckets_.at(index).least, tokens(index)); }

void FlowNetwork::set_tokens(std::size_t index, double tokens) {
  BucketState& state = buckets_.at(index);
  ESPALIER_CHECK(now_ == 0 && active_ == 0 && tokens >= 0.0 && tokens <= state.size);
  state.tokens = state.least = tokens;
}

/// Returns when the next bucket runs empty, as far as known now.
std::optional<std::int64_t> FlowNetwork::next_empty_bucket() {
  while (!bucket_events_.empty()) {
    const BucketEvent next = bucket_events_.top();
    if (buckets_[static_cast<std::size_t>(next.bucket)].empty_at == next.at) return next.at;
    bucket_events_.pop();
  }
  return std::nullopt;
}

/// Sets the tokens of buckets that run out at this moment to zero; settle() slows their links down.
void FlowNetwork::empty_buckets() {
  for (auto next = next_empty_bucket(); next && *next == now_; next = next_empty_bucket()) {
    BucketState& state = buckets_[static_cast<std::size_t>(bucket_events_.top().bucket)];
    bucket_events_.pop();
    state.tokens = state.least = 0.0;
    state.since = now_;
    state.empty_at = kNoTime;
    touch(state.link);
  }
}

/// Updates the tokens of all links whose use may have changed. Returns true if a link's capacity changed, so that
/// rates must be solved again.
bool FlowNetwork::settle_buckets() {
  if (buckets_.empty()) return false;
  bool again = false;
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    const std::int32_t bucket = link(touched_[i]).bucket;
    if (bucket >= 0 && settle_bucket(bucket)) again = true;
  }
  return again;
}

bool FlowNetwork::settle_bucket(std::int32_t index) {
  BucketState& state = buckets_[static_cast<std::size_t>(index)];
  const auto passed = static_cast<double>(now_ - state.since);
  state.tokens = std::clamp(state.tokens + (state.sustained - state.used) * passed, 0.0, state.size);
  state.least = std::min(state.least, state.tokens);
  state.since = now_;
  state.used = link(state.link).used;
  const bool drains = state.used > state.sustained * (1.0 + kEqualRates);
  const bool fills = state.used < state.sustained * (1.0 - kEqualRates);
  const bool was_spent = state.spent;
  if (!state.spent && drains && state.tokens <= 0.0) state.spent = true;
  // A link that is not full limits no flow: once it has tokens again, the present rates remain valid.
  if (state.spent && fills && state.size > 0.0) state.spent = false;
  const double lasts = drains ? state.tokens / (state.used - state.sustained) : kForever;
  const bool empties = !state.spent && lasts < kForever - static_cast<double>(now_);
  const std::int64_t empty_at = empties ? now_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(lasts))) : kNoTime;
  if (empty_at != state.empty_at && empty_at != kNoTime) bucket_events_.push({empty_at, index});
  state.empty_at = empty_at;
  if (state.spent == was_spent) return false;
  set_capacity(state.link, capacity_of(state));
  return true;
}

}  // namespace espalier::sim
