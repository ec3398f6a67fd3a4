// SPDX-License-Identifier: Apache-2.0
// Reads `training.lengths` of a job: the lengths of the sequences that make up samples.
//
//   lengths: {histogram: [[512, 3], [2048, 1]], packing: packed}     pairs of tokens and weight
//   lengths: {histogram: lengths.tsv, packing: none}                 a file: two columns, tokens and weight; lines that
//                                                                    begin with # are comments
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::job {

/// Reads the text of such a file: at most 65,536 lengths, ascending. `where` names it in messages.
Result<std::vector<LengthShare>> read_length_table(std::string_view text, const std::string& where);

/// Reads the lengths. Files are searched for below `base_directory`, then in the working directory. Errors go to the
/// reader's sink.
Lengths read_lengths(base::Reader& training, const Model& model, const Sequence& sequence, const std::string& base_directory);

}  // namespace espalier::job
