// SPDX-License-Identifier: Apache-2.0
// Reads the constants that the authors of Galvatron published with version 1 (Miao et al. 2022), as a fixture. Their
// profiler measured them on 8 and 2 x 8 GPUs of the TITAN RTX class, per model. They are in
// data/galvatron/galvatron_v1_profile.json; the source is in data/README.md.
//
// Units are as published: MB = 2^20 bytes, milliseconds, ms per MB of a collective's message.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::reference {

/// Describes how one layer is spread: `pp` stages, tensor parallel `tp`, data parallel `dp` = devices / (pp·tp).
struct V1Strategy {
  std::int32_t pp = 1, tp = 1, dp = 1;
  bool sharded = false;  ///< SDP: parameters, gradients and optimizer states over the dp ranks ("f")
  /// Neighbouring ranks form the tp groups, and dp groups are strided ("*" after tp); false is the reverse ("*" after
  /// dp).
  bool tp_consecutive = false;

  /// Returns true if both tp > 1 and dp > 1, where the order of the ranks matters.
  [[nodiscard]] bool ordered() const { return tp > 1 && dp > 1; }
  friend bool operator==(const V1Strategy&, const V1Strategy&) = default;
};
/// Returns the authors' notation pp-tp[*]-dp[f][*]: "2-1-4f", "1-2*-4", "2-2-4f*".
std::string to_string(const V1Strategy& strategy);

/// Holds the costs of a sample in one type of layer.
struct V1LayerType {
  double parameter_mb = 0;
  std::map<std::int32_t, double> activation_mb;  ///< one sample on one device, by tp
  double forward_ms = 0;                         ///< one sample on one device
  double backward_factor = 2;                    ///< backward / forward
  double extra_ms = 0;                           ///< added per kDummyLayers layers where gradients are reduced
  std::int32_t sequence = 0, hidden = 0;
  bool decoder = false;
};

/// Holds memory outside the layers: embeddings, heads. `activation` is per sample of one device.
struct V1OtherMemory {
  double states_mb = 0, activation_mb = 0;
};

enum class V1Family : std::uint8_t { bert, vit, t5, swin };

/// Holds the constants of a model on a machine.
struct V1Profile {
  std::string name;  ///< "bert-1280@8": family, hidden size, devices
  V1Family family = V1Family::bert;
  std::int32_t devices = 8;            ///< 8: formulas of one node; 16: those of two
  std::vector<V1Strategy> strategies;  ///< the space "full", in the authors' order (ties go to the first)
  std::vector<V1LayerType> layer_types;
  V1OtherMemory whole;        ///< one stage; on 8 GPUs any number
  V1OtherMemory first, last;  ///< ends of a pipeline on 16 GPUs
  double peak_reduction_mb = 0;
  std::map<std::array<std::int32_t, 3>, double> all_reduce;  ///< {pp, size, consecutive} → ms/MB
  std::map<std::int32_t, double> p2p;                        ///< {pp} → ms/MB; 16 GPUs
  double comm_slowdown = 1, compute_slowdown = 1;            ///< κ of gradients and of backward when they overlap

  [[nodiscard]] bool two_nodes() const { return devices == 16; }
  [[nodiscard]] std::int32_t dummy_layers(std::int32_t layers) const;
};

/// Returns all profiles of the file, by name; bad_input with a place if a constant is missing or out of range.
Result<std::map<std::string, V1Profile>> read_v1_profiles(std::string_view json, const std::string& where);

}  // namespace espalier::reference
