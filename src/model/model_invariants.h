// SPDX-License-Identifier: Apache-2.0
// The border of the module: every model that leaves it is checked, so that those who count its layers need not look again.
//
//   layers       at least an embedding and a head, the first and the last; every index names a kind
//   kinds        tokens: a fixed number, or those of a stream over `tokens_divisor`; names of operators stand once a layer
//   operators    sizes are never negative; `parameters_unsplit` is a part of `parameters`; attention has whole groups of query heads for each key-value head
//                and features of queries and keys in every head; each token goes through at most as many experts as there are; as loaded nothing is frozen
//   the model    a shared table has rows; what multi-token prediction holds is part of all parameters
#pragma once

#include "espalier/model.h"

namespace espalier::model {

/// Throws base::InternalError where a model breaks one of these: a bug of the reader of its family.
void check_model(const Model& model);

}  // namespace espalier::model
