// SPDX-License-Identifier: Apache-2.0
#include "plan/step_tokens.h"

#include <algorithm>

#include "plan/sample_tokens.h"
#include "plan/sequence_lengths.h"

namespace espalier {

double tokens_of_step(const Training& training) {
  return static_cast<double>(training.global_batch) *
         static_cast<double>(std::max<std::int64_t>(1, sample_tokens(training.sequence)));
}

double real_tokens_of_step(const Training& training) { return tokens_of_step(training) * real_token_share(training); }

double steps_of_run(const Training& training) { return training.tokens / real_tokens_of_step(training); }

}  // namespace espalier
