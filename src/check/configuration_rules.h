// SPDX-License-Identifier: Apache-2.0
// Checks divisibility and consistency of the configuration itself, written again from first principles. (The
// definition of the space is espalier::violations; a test compares the two, which share no code.) Requires a plan of
// sound structure.
//
//   engine              the engine is known
//   homogeneous         a uniform plan needs equal devices
//   precision           the devices support it
//   batch               global batch = micro_batch · dp · m
//   positions           learned positions suffice for the sequence
//   sequence            cp (twice in a causal ring) and the sequence parts of tp divide the tokens of every block;
//                       one text
//   heads               query heads divide over tp (and over cp with all-to-all); key/value heads divide or are
//                       divided
//   features            the inner width of every MLP divides over tp, of every expert over etp
//   experts             ep divides the experts; ep·etp divides tp·cp·dp; etp is 1 or tp; both 1 without experts
//   sharding            ZeRO stage 0…3; the shard group divides the data ranks; it is 1 exactly without ZeRO; ZeRO ≤
//                       1 with zero-bubble schedules
//   sequence-parallel   needs tp > 1
//   recompute           a layer count only with full recomputation: at least 1, at most the blocks of the model, or
//                       of its range where strategies differ by layer
//   overlap             only what there is to overlap
//   tied-table          embedding and head of a model with tied embeddings share tp, sp, cp, dp, zero and shard: they
//                       are one parameter
//   engine-layers       layers and stages differ only where the plan's engine allows it (check/engine_layers.h)
//   pipeline            one stage is 1F1B; interleaved: p divides m; no order that is another's name
#pragma once

#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

std::vector<Finding> check_rules(const View& view);

}  // namespace espalier::check
