// SPDX-License-Identifier: Apache-2.0
// Token buckets in closed form; the equations stand in espalier/cluster_change.h.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "espalier/cluster_change.h"

namespace espalier {

TokenState full_bucket(const TokenBucket& bucket) { return {static_cast<double>(bucket.bucket.count())}; }

BytesPerSecond highest_rate(const TokenBucket& bucket, TokenState state) {
  return state.tokens > 0.0 ? bucket.full : bucket.sustained;
}

Seconds full_rate_lasts(const TokenBucket& bucket, TokenState state) {
  if (bucket.full <= bucket.sustained) return Seconds(std::numeric_limits<double>::infinity());
  return Seconds(state.tokens / (bucket.full - bucket.sustained).count());
}

TokenState after(const TokenBucket& bucket, TokenState state, BytesPerSecond rate, Seconds time) {
  ESPALIER_CHECK(time.count() >= 0.0 && rate.count() >= 0.0);
  // Without tokens nothing faster than the sustained rate gets through, so that they stay at 0.
  const double sending = std::min(rate, bucket.full).count();
  const double tokens = state.tokens + (bucket.sustained.count() - sending) * time.count();
  return {std::clamp(tokens, 0.0, static_cast<double>(bucket.bucket.count()))};
}

Seconds time_to_move(const TokenBucket& bucket, TokenState state, double bytes) {
  ESPALIER_CHECK(bytes >= 0.0 && bucket.sustained.count() > 0.0);
  const double at_full =
      bucket.full <= bucket.sustained ? bytes : std::min(bytes, bucket.full.count() * full_rate_lasts(bucket, state).count());
  return Seconds(at_full / bucket.full.count() + (bytes - at_full) / bucket.sustained.count());
}

Seconds lasting_time_to_move(const TokenBucket& bucket, double bytes, Seconds pause) {
  ESPALIER_CHECK(pause.count() >= 0.0);
  const double takes = (bucket.full - bucket.sustained).count() * bytes / bucket.full.count();
  const double brings = bucket.sustained.count() * pause.count();
  if (takes <= brings) return time_to_move(bucket, full_bucket(bucket), bytes);
  return time_to_move(bucket, {std::min(brings, static_cast<double>(bucket.bucket.count()))}, bytes);
}

}  // namespace espalier
