// SPDX-License-Identifier: Apache-2.0
// Tokens of a step. With B samples of sample_tokens each (sample_tokens.h; at least one: models of images count
// samples),
//
//     all    B · tokens of a sample        what a framework's log counts, padding and empty places with it
//     real   all · real_token_share        of sequences of unlike length (sequence_lengths.h), those that are trained on: what `training.tokens`, tokens
//                                          per second and costs per token count
#pragma once

#include "espalier/plan.h"

namespace espalier {

double tokens_of_step(const Training& training);
double real_tokens_of_step(const Training& training);
/// Steps of a run that trains on `training.tokens`; 0: not known.
double steps_of_run(const Training& training);

}  // namespace espalier
