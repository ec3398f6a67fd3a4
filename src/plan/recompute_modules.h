// SPDX-License-Identifier: Apache-2.0
// Which operators of a block run again under a set of modules, and which of the tensors that they read are made again
// thereby.
//
// A block is cut at its residual additions. The operators before the product that follows attention (or a scan) are
// attention; of the rest, or of a piece without attention, router, exchanges and experts are the experts, dense
// products and activations next to a router the shared experts, and those without one the MLP. An engine may run a norm
// inside the product behind it (Transformer Engine's LayerNormLinear): such a norm is no module of its own and runs
// again with its MLP alone. It does so before products that are split by columns, but not before those that make
// latents.
#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/model.h"
#include "espalier/recompute_modules.h"
#include "plan/engine_fwd.h"

namespace espalier {

enum class BlockPart : std::uint8_t { other, attention, mlp, experts, shared_experts };

struct OperatorAgain {
  BlockPart part = BlockPart::other;
  double share = 0;          ///< of its compute that runs again
  bool traffic = false;      ///< its collectives of the forward pass, too
  bool inside = false;       ///< what it keeps is dropped
  bool input_again = false;  ///< dense products and routers: what they read is made again
};

/// Share of a block's matrix products that torchtitan's per-operator policy runs again: of wq, wk, wv, wo, w1, w3, w2
/// the second, fourth and sixth (torchtitan/distributed/activation_checkpoint.py counts products and keeps every other
/// one): h² + h² + h·ffn of 4h² + 3h·ffn with ffn = 8/3 h.
inline constexpr double kEverySecond = 0.39;

/// Goes through the operators of a block in their order. Allocation-free.
class BlockWalk {
 public:
  /// `exchanges`: routed tokens are exchanged between ranks.
  BlockWalk(const LayerKind& kind, RecomputeModules modules, bool fuses_norms, bool exchanges)
      : kind_(kind), modules_(modules), fuses_norms_(fuses_norms), exchanges_(exchanges) {}
  /// The share of operator `i`; called for 0, 1, 2, …
  OperatorAgain next(std::size_t i);

 private:
  void enter(std::size_t i);
  [[nodiscard]] BlockPart part_of(std::size_t i) const;
  [[nodiscard]] bool norm_of_latent(std::size_t i) const;
  [[nodiscard]] bool is_fused(std::size_t i, BlockPart part) const;
  [[nodiscard]] OperatorAgain of_norm(std::size_t i, BlockPart part);
  [[nodiscard]] OperatorAgain of_linear(std::size_t i, OperatorAgain again);
  [[nodiscard]] OperatorAgain of_experts(const Operator& op, OperatorAgain again) const;

  const LayerKind& kind_;
  RecomputeModules modules_;
  bool fuses_norms_, exchanges_;
  std::size_t begin_ = 0, end_ = 0, mixed_ = 0;  ///< the piece of the block, and the end of its attention
  bool routes_ = false, multiplies_ = false;
  bool entered_ = false;         ///< a product of a module that runs again as a whole was met in the piece
  std::int64_t norm_width_ = 0;  ///< of the last norm of the piece
  bool norm_again_ = false, activation_again_ = false;
};

/// The modules that blocks of the model have, where the engine runs norms inside products (EngineMemory::fuses_norms)
/// or does not.
RecomputeModules modules_of(const Model& model, bool fuses_norms);
/// The meaning of `recompute: selective` under an engine: its modules, of those that the model has; the whole set where
/// it is the one that the engine has.
RecomputeModules selective_modules(const EngineModel& engine, const Model& model);

struct Plan;
/// Writes into strategies that say no more than "selective" which modules that means.
void name_modules(const EngineModel& engine, const Model& model, Plan& plan);

}  // namespace espalier
