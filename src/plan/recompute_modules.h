// SPDX-License-Identifier: Apache-2.0
// Determines which operators of a block run again under a set of modules, and which of their input tensors
// are thereby recomputed.
//
// A block is cut at its residual additions. The operators before the product that follows attention (or a scan) belong
// to attention. In the rest, or in a piece without attention, router, exchanges and experts form the experts. Dense
// products and activations next to a router form the shared experts, and those without one the MLP. An engine may run
// a norm inside the product behind it (Transformer Engine's LayerNormLinear). Such a norm is no separate module and
// reruns only with its MLP. This applies to products that are split by columns, but not to those that make latents.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/recompute_modules.h"
#include "plan/engine_fwd.h"

namespace espalier {

enum class BlockPart : std::uint8_t { other, attention, mlp, experts, shared_experts };

struct OperatorAgain {
  BlockPart part = BlockPart::other;
  double share = 0;          ///< share of its compute that runs again
  bool traffic = false;      ///< includes its collectives of the forward pass
  bool inside = false;       ///< its saved tensors are dropped
  bool input_again = false;  ///< dense products and routers: their input is recomputed
  auto operator<=>(const OperatorAgain&) const = default;
};

/// Walks through the operators of a block in their order. It does not allocate.
class BlockWalk {
 public:
  /// Starts a walk. `exchanges`: routed tokens are exchanged between ranks. `second_products`: the share of a block's
  /// matrix products that runs again where every second one does (EngineFacts::second_products_again).
  BlockWalk(const LayerKind& kind, RecomputeModules modules, bool fuses_norms, bool exchanges, double second_products)
      : kind_(kind), modules_(modules), fuses_norms_(fuses_norms), exchanges_(exchanges), second_products_(second_products) {}
  /// Returns the share of operator `i`; must be called for 0, 1, 2, …
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
  double second_products_;
  std::size_t begin_ = 0, end_ = 0, mixed_ = 0;  ///< the piece of the block, and the end of its attention
  bool routes_ = false, multiplies_ = false;
  bool entered_ = false;         ///< the piece has a product of a module that reruns as a whole
  std::int64_t norm_width_ = 0;  ///< width of the last norm of the piece
  bool norm_again_ = false, activation_again_ = false;
};

/// Returns the modules that blocks of the model have; `fuses_norms` states whether the engine runs norms inside
/// products (EngineMemory::fuses_norms).
RecomputeModules modules_of(const Model& model, bool fuses_norms);
/// Returns the meaning of `recompute: selective` under an engine: those of its modules that the model has. If the
/// engine supports only this set, it returns the whole set.
RecomputeModules selective_modules(const EngineModel& engine, const Model& model);

/// Returns the sets of modules that a search may choose for blocks of the model, in the order of their numbers. They
/// are the non-empty sets of modules that the engine offers and the model has. Among sets with the same effect, only
/// the meaning of `selective` or else the smallest number is listed. The list is empty where the engine has one policy.
std::vector<RecomputeModules> module_sets(const EngineModel& engine, const Model& model);

struct Plan;
/// Writes the modules that it means into strategies that state only "selective".
void name_modules(const EngineModel& engine, const Model& model, Plan& plan);

}  // namespace espalier
