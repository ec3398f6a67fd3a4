// SPDX-License-Identifier: Apache-2.0
// The operators of a layer on one rank: forward, the gradient of the input, the gradient of the parameters. They are
// written out, not taken from an automatic differentiation, so that a rank saves what the cost model says it saves, the
// two halves of a backward can run apart, and every collective stands where the Program has it.
//
// An activation is [tokens, samples, features]; tokens first, so that a gathered sequence is contiguous. Of a column
// linear a rank holds outputs, each with its weights and then its bias; of a row linear the bias and then inputs ×
// outputs (plan/ownership.h). In a tensor group:
//     column   sequence parallel: all-gather, multiply; backward: reduce-scatter.  Otherwise: multiply; backward:
//              all-reduce
//     row      multiply, then reduce-scatter (sequence parallel) or all-reduce, then the bias; backward: all-gather or
//              nothing
//     table    rows of the vocabulary: look up the own ones, then as row
//     logits   as column; the loss meets three times: maxima, sums, targets                                    (Shoeybi et al. 2019)
// In bf16 matrix products and residuals are; norms, softmax, the router's weights, the loss and all gradients of
// parameters are made in fp32. What a backward returns is a tensor of its own, which the next one may overwrite; so may
// the loss its logits.
// Ulysses: parameters are whole; around attention an all-to-all turns own tokens of all heads into all tokens of own
// heads. Context parallelism gives a rank some tokens of a sample in all operators; attention alone sees those of
// others (attention.h).
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

/// What the operators of one layer work with on this rank.
struct OperatorPlace {
  Architecture architecture;
  at::ScalarType type = at::kFloat;          ///< of activations and their gradients
  std::int64_t tokens = 0;                   ///< of a sample
  TokenRuns own_tokens;                      ///< those that this rank has between layers
  TokenRuns context_tokens;                  ///< those of its context rank: the tensor group's together
  std::vector<TokenRuns> key_tokens;         ///< by member of the ring: whose keys it has; one member: this rank
  std::int64_t t = 0, tp = 1;                ///< place and size of the group that splits weights
  bool sequence_parallel = false;            ///< tokens are split over the group that splits weights
  Communicator* tensor = nullptr;            ///< splits weights; null: nobody
  Communicator* sequence = nullptr;          ///< Ulysses: splits tokens; null: nobody
  Communicator* context = nullptr;           ///< context parallelism: splits tokens; null: nobody
  bool ring = false;                         ///< keys and values go round the context group; otherwise it exchanges
                                             ///< heads, as
                                             ///< Ulysses
  Communicator* features = nullptr;          ///< splits the features of a norm (partitioned_layer.h); null: nobody
  std::int64_t ep = 1;                       ///< size of the group that spreads experts
  Communicator* experts = nullptr;           ///< spreads experts; null: nobody
  Communicator* expert_tensor = nullptr;     ///< splits each expert; null: nobody
  double expert_share = 1;                   ///< 1 / ranks that send the same tokens to the experts
  bool recompute_attention = false;          ///< selective recomputation: scores are not saved
  double loss_scale = 1;                     ///< 1 / tokens of the global batch
  std::int32_t layer = 0;                    ///< of the model
  OperatorClock* clock = nullptr;            ///< null: nobody asks how long operators take
  std::vector<profile::OperatorWork> works;  ///< by operator, of one sample
};

/// Input of a micro-batch: [tokens, samples] of 64-bit integers, all tokens of the own samples.
struct Batch {
  at::Tensor tokens, labels;
};

/// Who looks at logits: [tokens, samples, rows of the vocabulary], and which token and row is the first.
using WatchLogits = std::function<void(const at::Tensor& logits, std::int64_t first_token, std::int64_t first_row)>;
struct Routing;  // experts.h

/// One pass of a micro-batch through a layer.
struct Frame {
  const Batch* batch = nullptr;                         ///< embedding and head
  std::vector<std::vector<at::Tensor>> saved;           ///< by operator
  std::vector<std::function<void()>> weight_gradients;  ///< that wait for their half of the backward
  at::Tensor input;                                     ///< of a layer that is recomputed
  std::int64_t samples = 0;                             ///< of the micro-batch on this rank
  const WatchLogits* logits = nullptr;                  ///< of the head; null: nobody looks
  std::shared_ptr<Routing> routing;                     ///< of a mixture of experts
  double loss = 0;                                      ///< of the head: summed over the tokens that this rank counts,
                                                        ///< scaled
};

class LayerOperator {
 public:
  virtual ~LayerOperator() = default;
  /// Keeps in `saved` what the backward needs.
  virtual at::Tensor forward(Frame& frame, std::vector<at::Tensor>& saved, const at::Tensor& x) = 0;
  /// The gradient of the input; undefined where there is none. That of the parameters becomes a task of the frame.
  virtual at::Tensor backward(Frame& frame, std::vector<at::Tensor>& saved, const at::Tensor& dy) = 0;
};

/// The parameters of an operator: a segment of a state.
struct Parameters {
  State* state = nullptr;
  Segment segment;
  std::int64_t first_row = 0;  ///< of a vocabulary: the first row that this rank holds
};

/// Null for operators that pass what they get: residuals (the layer adds), dropout (not applied), a cross-entropy of
/// logits.
std::unique_ptr<LayerOperator> make_operator(const LayerKind& kind, const Operator& op, const Parameters& parameters,
                                             const OperatorPlace& place);

/// Rows × features.
at::Tensor flat(const at::Tensor& x);
/// gradient += leftᵀ · right, rows × features each, multiplied and added up in fp32.
void add_product(at::Tensor gradient, const at::Tensor& left, const at::Tensor& right, double share = 1);

/// Tokens whose activations this rank sees once a tensor group has gathered its own: those of the context rank, or its
/// own (Ulysses).
const TokenRuns& seen_tokens(const OperatorPlace& place);
/// Their positions in the sample, one by one: 64-bit integers.
at::Tensor positions_of(const TokenRuns& runs);

/// What the linears of a tensor group exchange: all tokens of a sequence-parallel activation; the sum of partial
/// outputs, or of partial gradients of an input, of which a sequence-parallel rank keeps its own tokens.
at::Tensor whole_sequence(const at::Tensor& x, const OperatorPlace& place);
at::Tensor summed_output(const at::Tensor& y, const OperatorPlace& place);

}  // namespace espalier::runtime
