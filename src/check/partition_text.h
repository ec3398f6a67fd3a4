// SPDX-License-Identifier: Apache-2.0
// Reads operator partitions (Strategy::partition) and counts them again, from the text alone: "attn.qkv K,P2;
// attn.core H,H; …".
//
// A letter cuts its dimension in two for each time it is named, P with q cuts M, N and K in q each and takes log2 q²
// bits of the device number. With s_X slices of dimension X, on one device:
//     linear        B M N K P   parameters in/s_N · out/s_K, and its bias out/s_K; keeps its input
//                               a·T/(s_B·s_M)·in/s_N, except after fused attention that keeps it already, if the
//                               linear's K is whole
//     norm          B M N R     parameters/s_N; keeps a·in/s_N and (fused) 4 bytes a token
//     activation    B M N R     keeps a·in/s_N
//     addition      B M N R     nothing
//     attention     B M H       fused: queries, output and 4 bytes a head of T/(s_B·s_M) tokens and heads/s_H.
//                               Keys and values of all tokens of T/s_B and kv/min(s_H, kv) heads.
//       scores B M H L, softmax B M H, values B M H L where attention is three operators.
//
// Rotary embeddings, dropout (keeps a byte an element) and norms of single heads follow the layout of the next
// operator, or, at the end, of the previous one. Full recomputation keeps the tile that enters, in the layout of the
// last operator.
#pragma once

#include <cstdint>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// Returns whether the strategy partitions the operators of the layer one by one.
bool partitions(const Strategy& strategy, const LayerKind& kind);
/// Checks the partition of view.strategy on every block kind: operators in order, letters that they have, slices of
/// equal size, bits = log2 tp.
Finding check_operator_partition(const View& view);

/// These functions require that finding to be ok. `kind` is a block.
std::int64_t partitioned_parameters(const View& view, const LayerKind& kind);
double partitioned_saved_bytes(const View& view, const LayerKind& kind, bool recomputed);
/// Bounds from above the working set of the block's largest operator in addition to saved tensors, in bytes.
double partitioned_working_set(const View& view, const LayerKind& kind);
/// Returns the bytes of the tile that a block outputs.
std::int64_t partitioned_boundary_bytes(const View& view, const LayerKind& kind);

}  // namespace espalier::check
