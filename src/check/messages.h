// SPDX-License-Identifier: Apache-2.0
// Bytes that cross the boundaries of the pipeline, per rank, micro-batch and direction.
//
// Entering chunk c: micro_batch · E · a / cp, divided by tp with sequence parallelism (rounded up), where E = what the
// last layer of chunk c − 1 hands on per sample: hidden · tokens, and the encoder's output (its width · its tokens)
// where it travels along; a = bytes of an activation element. 0 into chunk 0 and between chunks of one stage.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

std::vector<std::int64_t> boundary_bytes_per_chunk(const View& view);
/// The same as the receiving stage holds it: what a rank of it takes in, where stages are not alike.
std::vector<std::int64_t> taken_bytes_per_chunk(const View& view);

}  // namespace espalier::check
