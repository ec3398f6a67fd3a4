// SPDX-License-Identifier: Apache-2.0
// Implements the operators of a layer on one rank: forward, the gradient of the input, the gradient of the
// parameters. They are written by hand, without automatic differentiation. A rank thus saves exactly the tensors that
// the cost model counts. The two halves of a backward can run apart, and every collective runs where the Program has
// it.
//
// An activation is [tokens, samples, features]. Tokens come first, so that a gathered sequence is contiguous. For a
// column linear, a rank holds outputs, each with its weights and then its bias. For a row linear, it holds the bias
// and then inputs × outputs (plan/ownership.h). In a tensor group:
//     column   sequence parallel: all-gather, multiply; backward: reduce-scatter
//              otherwise: multiply; backward: all-reduce
//     row      multiply, then reduce-scatter (sequence parallel) or all-reduce, then the bias;
//              backward: all-gather or nothing
//     table    rows of the vocabulary: look up the own ones, then as row
//     logits   as column; the loss needs three reductions: maxima, sums, targets (Shoeybi et al. 2019)
// Matrix products and residuals run in bf16. Norms, softmax, the router's weights, the loss and all gradients of
// parameters are computed in fp32. A backward returns a new tensor, which the next one may overwrite. The loss may
// overwrite its logits.
//
// With Ulysses, parameters are whole. Around attention an all-to-all exchanges own tokens of all heads for all tokens
// of own heads. Context parallelism gives a rank some tokens of a sample in all operators. Only attention sees the
// tokens of other ranks (attention.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "espalier/model.h"
#include "plan/activation_layout.h"
#include "runtime/architecture.h"
#include "runtime/communicator.h"
#include "runtime/operator_clock.h"
#include "runtime/state.h"

namespace espalier::runtime {

/// Holds the settings and groups that the operators of one layer use on this rank.
struct OperatorPlace {
  Architecture architecture;
  at::ScalarType type = at::kFloat;  ///< type of activations and their gradients
  std::int64_t tokens = 0;           ///< tokens of a sample
  TokenRuns own_tokens;              ///< tokens that this rank has between layers
  TokenRuns context_tokens;          ///< tokens of its context rank, the union over the tensor group
  /// The tokens whose keys each ring member has, by member. With one member, it is this rank.
  std::vector<TokenRuns> key_tokens;
  std::int64_t t = 0, tp = 1;        ///< place and size of the group that splits weights
  bool sequence_parallel = false;    ///< tokens are split over the group that splits weights
  Communicator* tensor = nullptr;    ///< splits weights; null: no group
  Communicator* sequence = nullptr;  ///< Ulysses: splits tokens; null: no group
  Communicator* context = nullptr;   ///< context parallelism: splits tokens; null: no group
  /// Keys and values go round the context group. Otherwise the group exchanges heads, as Ulysses does.
  bool ring = false;
  Communicator* features = nullptr;          ///< splits the features of a norm (partitioned_layer.h); null: no group
  std::int64_t ep = 1;                       ///< size of the group that spreads experts
  Communicator* experts = nullptr;           ///< spreads experts; null: no group
  Communicator* expert_tensor = nullptr;     ///< splits each expert; null: no group
  double expert_share = 1;                   ///< 1 / ranks that send the same tokens to the experts
  bool recompute_attention = false;          ///< selective recomputation: scores are not saved
  double loss_scale = 1;                     ///< 1 / tokens of the global batch
  std::int32_t layer = 0;                    ///< number in the model
  OperatorClock* clock = nullptr;            ///< null: operators are not timed
  std::vector<profile::OperatorWork> works;  ///< by operator, for one sample
};

/// Holds the input of a micro-batch: [tokens, samples] of 64-bit integers, with all tokens of this rank's samples.
struct Batch {
  at::Tensor tokens, labels;
};

/// Receives logits, [tokens, samples, rows of the vocabulary], with the number of the first token and row.
using WatchLogits = std::function<void(const at::Tensor& logits, std::int64_t first_token, std::int64_t first_row)>;
struct Routing;  // defined in experts.h

/// Holds one pass of a micro-batch through a layer.
struct Frame {
  const Batch* batch = nullptr;                         ///< set for embedding and head
  std::vector<std::vector<at::Tensor>> saved;           ///< by operator
  std::vector<std::function<void()>> weight_gradients;  ///< waiting for their half of the backward
  at::Tensor input;                                     ///< input of a layer that is recomputed
  std::int64_t samples = 0;                             ///< samples of the micro-batch on this rank
  const WatchLogits* logits = nullptr;                  ///< set for the head; null: no callback
  std::shared_ptr<Routing> routing;                     ///< set for a mixture of experts
  double loss = 0;  ///< loss of the head, summed over the tokens that this rank counts, scaled
};

class LayerOperator {
 public:
  virtual ~LayerOperator() = default;
  /// Runs the operator and keeps in `saved` the tensors that the backward needs.
  virtual at::Tensor forward(Frame& frame, std::vector<at::Tensor>& saved, const at::Tensor& x) = 0;
  /// Returns the gradient of the input; undefined where there is none. The gradient of the parameters becomes a task
  /// of the frame.
  virtual at::Tensor backward(Frame& frame, std::vector<at::Tensor>& saved, const at::Tensor& dy) = 0;
};

/// Names the segment of a state that holds an operator's parameters.
struct Parameters {
  State* state = nullptr;
  Segment segment;
  std::int64_t first_row = 0;  ///< for a vocabulary: the first row that this rank holds
};

/// Makes an operator. Returns null for operators that pass on their input: residuals (the layer adds), dropout (not
/// applied), a cross-entropy of logits.
std::unique_ptr<LayerOperator> make_operator(const LayerKind& kind, const Operator& op, const Parameters& parameters,
                                             const OperatorPlace& place);

/// Returns `x` as rows × features.
at::Tensor flat(const at::Tensor& x);
/// Adds leftᵀ · right to `gradient`. Both are rows × features, multiplied and added up in fp32.
void add_product(at::Tensor gradient, const at::Tensor& left, const at::Tensor& right, double share = 1);

/// Returns the tokens whose activations this rank sees once a tensor group has gathered its own: those of the context
/// rank, or its own (Ulysses).
const TokenRuns& seen_tokens(const OperatorPlace& place);
/// Returns their positions in the sample, one by one, as 64-bit integers.
at::Tensor positions_of(const TokenRuns& runs);

/// Exchange the activations of a tensor group's linears. whole_sequence gathers all tokens of a sequence-parallel
/// activation. The sums add partial outputs, or partial gradients of an input; a sequence-parallel rank keeps only
/// its own tokens.
at::Tensor whole_sequence(const at::Tensor& x, const OperatorPlace& place);
at::Tensor summed_output(const at::Tensor& y, const OperatorPlace& place);

}  // namespace espalier::runtime
