// SPDX-License-Identifier: Apache-2.0
// Which plan of a search becomes the answer: the fastest, or the simplest within the loss that the caller accepts.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/question.h"
#include "search/phases.h"

namespace espalier::planner {

struct Choice {
  Plan fastest;
  std::int64_t fastest_ns = 0;
  /// One pipeline on equal devices: engines, options and batches can be searched for it (answer_extras.h).
  bool equal_stages = true;
  std::optional<Simplest> simplest;
  bool simple = false;  ///< the answer is `simplest`, not `fastest`

  [[nodiscard]] const Plan& plan() const { return simple ? *simplest->plan : fastest; }
  [[nodiscard]] std::int64_t iteration_ns() const { return simple ? simplest->iteration_ns : fastest_ns; }
};

/// `found` has a best plan.
Choice choose(const Question& question, const search::SearchResult& found, search::Evaluator& evaluator);

}  // namespace espalier::planner
