// SPDX-License-Identifier: Apache-2.0
// Selects the parts of a block that run again before its backward pass. The input of a part is stored, and the
// tensors that its operators would store are dropped. The names follow Megatron-LM's --recompute-modules if it has
// one.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

/// Lists the parts of a block that can be recomputed.
enum class RecomputeModule : std::uint8_t {
  core_attn,        ///< attention between its projections
  layernorm,        ///< norms
  act,              ///< activation of a dense MLP, and of shared experts
  mlp,              ///< a dense MLP, with its norm if that is fused into its first matrix product
  moe,              ///< a mixture of experts: router, exchanges, experts and shared experts
  moe_act,          ///< activation of routed experts
  mla_up_proj,      ///< up-projections from latents to queries, keys and values, and norms of the latents
  shared_experts,   ///< experts that every token passes through
  every_second_mm,  ///< every second dense matrix product
  grouped_mm,       ///< grouped GEMMs of routed experts and their activation; exchanged tokens are stored
};
inline constexpr int kRecomputeModules = 10;

std::string_view to_string(RecomputeModule v);

/// Holds a set of modules.
class RecomputeModules {
 public:
  constexpr RecomputeModules() = default;
  constexpr RecomputeModules(std::initializer_list<RecomputeModule> modules) {
    for (const RecomputeModule m : modules) add(m);
  }
  static constexpr RecomputeModules all() {
    RecomputeModules out;
    for (int i = 0; i < kRecomputeModules; ++i) out.add(static_cast<RecomputeModule>(i));
    return out;
  }
  constexpr void add(RecomputeModule m) { bits_ = static_cast<std::uint16_t>(bits_ | bit(m)); }
  [[nodiscard]] constexpr bool has(RecomputeModule m) const { return (bits_ & bit(m)) != 0; }
  [[nodiscard]] constexpr bool any() const { return bits_ != 0; }
  /// Returns the set as a number: bit i stands for the module of ordinal i.
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }
  [[nodiscard]] constexpr RecomputeModules both(RecomputeModules other) const {
    RecomputeModules out;
    out.bits_ = bits_ & other.bits_;
    return out;
  }
  /// Returns the modules that `other` lacks.
  [[nodiscard]] constexpr RecomputeModules without(RecomputeModules other) const {
    RecomputeModules out;
    out.bits_ = static_cast<std::uint16_t>(bits_ & ~other.bits_);
    return out;
  }
  template <class Visit>
  constexpr void each(const Visit& visit) const {
    for (int i = 0; i < kRecomputeModules; ++i)
      if (has(static_cast<RecomputeModule>(i))) visit(static_cast<RecomputeModule>(i));
  }
  constexpr auto operator<=>(const RecomputeModules&) const = default;

 private:
  static constexpr std::uint16_t bit(RecomputeModule m) { return static_cast<std::uint16_t>(1U << static_cast<unsigned>(m)); }
  std::uint16_t bits_ = 0;
};

/// torchtitan's per-operator policy saves the outputs of attention, of exchanges and of every other matrix product,
/// but not those of grouped GEMMs.
inline constexpr RecomputeModules kPerOperator{RecomputeModule::layernorm, RecomputeModule::act, RecomputeModule::every_second_mm,
                                               RecomputeModule::grouped_mm};

/// Returns the names: "layernorm,moe_act"; "op" is the per-operator policy.
std::string to_string(RecomputeModules v);
/// Returns the names as a phrase: "layernorm, moe_act".
std::string listed(RecomputeModules v);
std::optional<RecomputeModule> parse_recompute_module(std::string_view name);
/// Parses names separated by commas or spaces (repetitions are allowed), or "op". Returns nothing if a name is unknown
/// or there is none.
std::optional<RecomputeModules> parse_recompute_modules(std::string_view names);

}  // namespace espalier
