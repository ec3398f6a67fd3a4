// SPDX-License-Identifier: Apache-2.0
// Reads `adapter`, `freeze` and `lengths` of a training, as jobs and plans write them. Each is written only if
// it has content.
//
//   adapter   {kind: lora, rank: 16, alpha: 32, targets: [q_proj, v_proj], quantize_base: none | nf4 | int8}
//   freeze    [embedding, head, layers 0-15]
//   lengths   {histogram: [[tokens, weight], …], packing: none | packed | balanced};
//             a job may name a file in place of the list
#pragma once

#include <string>
#include <string_view>

#include "base/document.h"
#include "espalier/plan.h"

namespace espalier {

void write_trained_parts(base::JsonWriter& w, const Training& training);
/// Reads the parts into `out`; errors go to the reader's sink.
void read_trained_parts(base::Reader& training, Training& out);

/// Reads the parts one by one, for a job, which also reads files.
Adapter read_adapter(base::Reader& training);
std::vector<std::string> read_freeze(base::Reader& training);
/// Reads pairs of tokens and weight in any order and sorts them; `node` is the value at `key` of `r`.
std::vector<LengthShare> read_histogram(base::Reader& r, std::string_view key, const base::Node& node);
Packing read_packing(base::Reader& lengths);

}  // namespace espalier
