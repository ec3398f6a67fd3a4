// SPDX-License-Identifier: Apache-2.0
// Counts the tokens of a step. With B samples of sample_tokens each (sample_tokens.h; at least one: models of
// images count samples):
//
//     all    B · tokens of a sample     the count of a framework's log, including padding and empty places
//     real   all · real_token_share     those that are trained on, with sequences of different lengths
//                                       (sequence_lengths.h): the count of `training.tokens`,
//                                       tokens per second and costs per token
#pragma once

#include "espalier/plan.h"

namespace espalier {

double tokens_of_step(const Training& training);
double real_tokens_of_step(const Training& training);
/// Returns the steps of a run that trains on `training.tokens`; 0: not known.
double steps_of_run(const Training& training);

}  // namespace espalier
