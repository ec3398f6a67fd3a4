// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of a segment's layers between pipelines, with the messages of plan/gradient_exchange.h.
#pragma once

#include <map>

#include "plan/gradient_exchange.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

class GradientMeeting {
 public:
  /// `everyone` holds all ranks of the run, and only this class uses it. Null means one pipeline, which exchanges
  /// nothing.
  GradientMeeting(const RankView& view, const Program& program, Communicator* everyone);
  /// Completes the gradients of the segment's layers inside the pipeline, then adds those of the other pipelines.
  /// Every rank of the segment takes part.
  void run(CollectiveId collective, RankModel& model);

 private:
  [[nodiscard]] static std::int64_t elements_of(const ExchangeMessage& message);

  const RankView& view_;
  const Program& program_;
  Communicator* everyone_;
  std::int32_t party_;                                  // this rank's pipeline
  std::map<std::int32_t, GradientExchange> exchanges_;  // by collective; only messages of this rank
};

}  // namespace espalier::runtime
