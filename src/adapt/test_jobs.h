// SPDX-License-Identifier: Apache-2.0
// Provides small jobs and plans for the tests of this module.
#pragma once

#include <string>

#include "adapt/situation.h"
#include "espalier/adapt.h"
#include "espalier/job.h"

namespace espalier::adapt {

inline constexpr const char* kSmallModel =
    R"({model_type: llama, hidden_size: 1024, intermediate_size: 2816, num_attention_heads: 16, num_key_value_heads: 8, num_hidden_layers: 8, vocab_size: 32000, max_position_embeddings: 2048})";

inline Job small_job(const std::string& cluster, const std::string& search = "{}") {
  return load_job(std::string("{model: ") + kSmallModel + ", cluster: " + cluster +
                      ", training: {sequence_length: 1024, global_batch: 64}, search: " + search + "}",
                  "test", "", {})
      .value();
}

/// Returns a plan of tp × pp × dp with one sample a micro-batch, under 1f1b.
inline Plan small_plan(const Job& job, std::int32_t tp, std::int32_t pp, std::int32_t dp, ZeroStage zero = ZeroStage::none) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.zero = zero;
  if (zero != ZeroStage::none) s.shard = dp;
  Schedule schedule;
  schedule.stages = pp;
  schedule.micro_batch = 1;
  schedule.microbatches = static_cast<std::int32_t>(job.training.global_batch / dp);
  return estimate(job, s, schedule).value().plan;
}

}  // namespace espalier::adapt
