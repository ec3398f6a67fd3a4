// SPDX-License-Identifier: Apache-2.0
// `adapter`, `freeze` and `lengths` of a training, as jobs and plans write them; each stands there where it says
// something.
//
//   adapter   {kind: lora, rank: 16, alpha: 32, targets: [q_proj, v_proj], quantize_base: none | nf4 | int8}
//   freeze    [embedding, head, layers 0-15]
//   lengths   {histogram: [[tokens, weight], …], packing: none | packed | balanced}; a job may name a file in place of the list
#pragma once

#include <string>
#include <string_view>

#include "base/document.h"
#include "espalier/plan.h"

namespace espalier {

void write_trained_parts(base::JsonWriter& w, const Training& training);
/// Errors go to the reader's sink.
void read_trained_parts(base::Reader& training, Training& out);

/// The parts of it, for a job, which reads files as well.
Adapter read_adapter(base::Reader& training);
std::vector<std::string> read_freeze(base::Reader& training);
/// Pairs of tokens and weight, `node` at `key` of `r`; in any order, and sorted then.
std::vector<LengthShare> read_histogram(base::Reader& r, std::string_view key, const base::Node& node);
Packing read_packing(base::Reader& lengths);

}  // namespace espalier
