// SPDX-License-Identifier: Apache-2.0
// Gradients of the layers of a segment between pipelines: the messages of plan/gradient_exchange.h, and their sums.
#pragma once

#include <map>

#include "plan/gradient_exchange.h"
#include "runtime/rank_model.h"

namespace espalier::runtime {

class GradientMeeting {
 public:
  /// `everyone`: all ranks of the run; used by this alone. Null: one pipeline, which meets nobody.
  GradientMeeting(const RankView& view, const Program& program, Communicator* everyone);
  /// Completes the gradients of the segment's layers inside the pipeline, then adds those of the others. Every rank of
  /// the segment takes part.
  void run(CollectiveId collective, RankModel& model);

 private:
  [[nodiscard]] static std::int64_t elements_of(const ExchangeMessage& message);

  const RankView& view_;
  const Program& program_;
  Communicator* everyone_;
  std::int32_t party_;                                  // this rank's pipeline
  std::map<std::int32_t, GradientExchange> exchanges_;  // by collective; messages of this rank alone
};

}  // namespace espalier::runtime
