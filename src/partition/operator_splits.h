// SPDX-License-Identifier: Apache-2.0
// How a partition sequence may split each kind of operator, and which tensors its phases read, write and sum.
//
// An operator is described by its dimensions (letters), its tensors (which dimensions index them) and its products.
// There is one product for each thing that a phase computes, out = Σ_{summed} f(operands). All communication follows
// from this and the slice indices (communication.h, layout.h); no operator has rules of its own.
//
//     operator                dimensions (may be split)   tensors and products
//     linear                  B M N K, and P              F  O[BMK] = Σ_N I[BMN]·W[NK]; B  dI = Σ_K dO·W;
//                                                         G  dW = Σ_BM I·dO
//     attention scores QKᵀ    B M H L  (E not)            S[BMHL] = Q[BMH]·K[BLH]; dQ = Σ_L dS·K; dK = Σ_M Q·dS
//     softmax                 B M H    (L not)            P[BMHL] = softmax_L S
//     attention values A·V    B M H L  (E not)            O[BMH] = Σ_L A[BMHL]·V[BLH]; dA = dO·V; dV = Σ_M A·dO
//     fused attention         B M H    (L, E not)         O[BMH] from Q[BMH], K[BLH], V[BLH]; dK, dV = Σ_M
//     norm                    B M N                       statistics[BM] = Σ_N …, in B again; dγ[N] = Σ_BM
//     norm of each head       B M H    (E not)            nothing summed but dγ[E] = Σ_BMH
//     element-wise            B M N                       gated activations read `copies` = 2
//     add                     B M N
//     embedding               B M V N                     O[BMN] = Σ_V onehot·W[VN]; dW = Σ_BM
//     cross-entropy           B M K                       statistics[BM] = Σ_K …: maximum, Σ exp, the label's logit
// The letters are B samples, M (query) positions, N and K features in and out, H query heads, L key positions, V rows
// of the table. The features E of a head are never split and count as the tensor's `width`. A summed dimension that
// is split requires a reduction over those devices. In grouped-query attention K and V have fewer heads than H;
// slices of H beyond them share (replicate) a head of K and V. In a gated MLP gate and up share their input: they are
// one linear whose weight and output have width 2 (K = ffn), and a slice of K holds both.
//
// Tensors on an edge match by position of their axes: [batch, positions, features or heads, …]. So O[BMK] of a linear
// feeds I[BMN] of the next, and Q[BMH] or K[BLH] of attention. The features of a QKV linear are ordered by groups of
// heads, so that a slice of K holds Q, K and V of the same heads. Each of the three is an edge of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/result.h"
#include "partition/sequence.h"
#include "partition/slices.h"

namespace espalier::partition {

struct OperatorDimension {
  char letter = 0;
  std::int64_t size = 0;
  bool splittable = true;
  bool operator==(const OperatorDimension&) const = default;
};

/// Describes a dimension as an axis of a tensor. `size` is smaller than the dimension's where devices share slices
/// (heads of K and V).
struct Axis {
  char letter = 0;
  std::int64_t size = 0;
  bool operator==(const Axis&) const = default;
};

enum class TensorRole : std::uint8_t {
  input,      ///< activation from another operator
  parameter,  ///< stays from step to step; its gradient is what the optimizer needs
  output,     ///< activation for other operators
  statistic,  ///< small, internal: sums over a dimension
};

struct Tensor {
  std::string name;  ///< "I", "W", "O", "Q" …
  TensorRole role = TensorRole::input;
  std::vector<Axis> axes;
  /// Counts the elements for each index: features that are never split, gate and up, number of statistics.
  std::int64_t width = 1;
  bool operator==(const Tensor&) const = default;
};

/// Refers to a tensor or its gradient.
struct TensorUse {
  std::int8_t tensor = 0;  ///< index into OperatorShape::tensors
  bool gradient = false;
  bool operator==(const TensorUse&) const = default;
};

struct Product {
  Phase phase = Phase::forward;
  TensorUse output;
  std::vector<TensorUse> operands;
  std::string summed;  ///< letters of the summed dimensions
  bool operator==(const Product&) const = default;
};

struct OperatorShape {
  std::string name;
  std::vector<OperatorDimension> dimensions;
  bool primitive = false;  ///< P allowed (dimensions M, N, K)
  std::vector<Tensor> tensors;
  std::vector<Product> products;  ///< in execution order
  bool operator==(const OperatorShape&) const = default;
};

OperatorShape linear_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t in, std::int64_t out,
                           std::int64_t width = 1);
struct AttentionSizes {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head_dim = 1;
  std::int64_t value_dim = 0;  ///< features per head of V and O; 0 = head_dim
};
OperatorShape attention_scores_shape(std::string name, const AttentionSizes& sizes);
OperatorShape softmax_shape(std::string name, const AttentionSizes& sizes);
OperatorShape attention_values_shape(std::string name, const AttentionSizes& sizes);
OperatorShape fused_attention_shape(std::string name, const AttentionSizes& sizes);
/// Returns a norm with `weights` vectors of N parameters: 1 for RMSNorm, 2 for LayerNorm, 0 for none.
OperatorShape norm_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t features, int weights);
/// Returns an RMSNorm over the features of each head (queries and keys), with one weight vector for all heads.
OperatorShape head_norm_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t heads,
                              std::int64_t head_dim);
/// Returns an operator that reads `copies` tensors of the output's size, interleaved (gated activations: 2).
OperatorShape elementwise_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t features,
                                std::int64_t copies = 1);
OperatorShape add_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t features);
OperatorShape embedding_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t rows,
                              std::int64_t features);
OperatorShape cross_entropy_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t classes);

/// Returns the shape of a model's operator on `batch` samples of `positions` tokens each; biases of linears are left
/// out (small). Returns an error for operators without one: mixture of experts, cross-attention, pooling.
Result<OperatorShape> shape_of(const Operator& op, std::int64_t batch, std::int64_t positions);

/// Returns the elements of the whole tensor: width · Π sizes.
std::int64_t elements(const Tensor& tensor);
/// Returns the letters that may be split, in the operator's order.
std::string splittable_dimensions(const OperatorShape& op);
/// Returns whether the sequence splits only what it may, and every slice is of equal length. Slices must divide the
/// size of each axis, or the axis (heads of K and V) is a power of two that divides them.
bool is_legal(const OperatorShape& op, const PartitionSequence& sequence);
/// Returns all legal sequences of `bits` bits, in the order of enumerate_sequences.
std::vector<PartitionSequence> partition_space(const OperatorShape& op, int bits);

/// Returns the index points of a product (its operands' and output's dimensions, without width) that one device
/// covers in one step.
std::int64_t points_per_step(const OperatorShape& op, const Product& product, const PartitionSequence& sequence);

}  // namespace espalier::partition
