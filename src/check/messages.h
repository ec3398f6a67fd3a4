// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that cross the boundaries of the pipeline, per rank, micro-batch and direction.
//
// Entering chunk c: micro_batch · E · a / cp bytes, divided by tp with sequence parallelism (rounded up). E is the
// output size per sample of the last layer of chunk c − 1: hidden · tokens, plus the encoder's output (its width ·
// its tokens) where it travels along. An activation element has a bytes. The result is 0 into chunk 0 and between
// chunks of one stage.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

std::vector<std::int64_t> boundary_bytes_per_chunk(const View& view);
/// Counts the same bytes on the receiving stage, where stages are not alike.
std::vector<std::int64_t> taken_bytes_per_chunk(const View& view);

}  // namespace espalier::check
