// SPDX-License-Identifier: Apache-2.0
// Defines the output check of the module: every model that leaves it is checked. Code that counts its layers need not
// check again.
//
//   layers       at least an embedding and a head, the first and the last; every index names a kind
//   kinds        tokens: a fixed number, or those of a stream over `tokens_divisor`; names of operators are unique
//   operators    sizes are never negative. `parameters_unsplit` is a part of `parameters`. Each key-value head serves
//                whole groups of query heads, with features in every head. A token goes through at most as many experts
//                as there are. As loaded nothing is frozen
//   the model    a shared table has rows; multi-token prediction holds a part of all parameters
#pragma once

#include "espalier/model.h"

namespace espalier::model {

/// Throws base::InternalError if a model violates one of these. This indicates a bug in its family's reader.
void check_model(const Model& model);

}  // namespace espalier::model
