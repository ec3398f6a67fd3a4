// SPDX-License-Identifier: Apache-2.0
// Reads and writes Galvatron's strategy file (galvatron_config_*.json), which holds how every layer is spread. Its
// search writes it, its runtime reads it.
//
//   pp_deg                 pipeline stages.
//   pp_division            layers per stage, "14,14"; absent: equal, the remainder to the last stage (as Galvatron's
//                          runtime fills it in).
//   tp_sizes_enc           per layer: size of the group that splits the layer; use_sp 0: tensor parallel, 1: Ulysses
//                          sequence parallel.
//   tp_consecutive_flags   per layer: 1 neighbouring ranks form that group, 0 strided ones.
//   cp_sizes_enc           per layer: context parallel; absent: 1. Newer versions require it and older ones ignore it,
//                          so it is always written.
//   dp_types_enc           per layer: 1 ZeRO-3, 0 default_dp_type ("ddp" | "zero2" | "zero3"; absent: ddp).
//   checkpoint             per layer: 1 recomputed; absent: 0.
//   global_bsz, chunks     samples of a step, micro-batches.
//   pipeline_type          "gpipe" | "pipedream_flush" (1F1B); absent: gpipe.
//   vtp, vsp, vcp          embedding and head: group size, Ulysses, context parallel; absent: 1, 0, 1.
//   embed_sdp              embedding and head: 1 ZeRO-3, 0 default_dp_type; absent: 0. The search writes `embed_sdp`,
//                          newer runtimes read `vocab_sdp`: both are written, either is read.
//
// Lists are texts of numbers, "1,1,2". For a layer, dp = devices / (pp·tp·cp); the number of devices is not in the
// file. Sources: PKU-DAIR/Hetu-Galvatron, galvatron/utils/config_utils.py and core/runtime/hybrid_parallel_config.py;
// version 1 (Hsword/Hetu).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::galvatron {

enum class DataParallelType : std::uint8_t { ddp, zero2, zero3 };
std::string_view to_string(DataParallelType type);

struct DocumentLayer {
  std::int32_t tp = 1;  ///< tensor or Ulysses group
  std::int32_t cp = 1;
  bool tp_consecutive = true;
  bool ulysses = false;
  bool zero3 = false;  ///< else the document's default
  /// 0 keeps and 1 recomputes. 2 is legal for Galvatron's runtime and is kept.
  std::int32_t checkpoint = 0;
  friend bool operator==(const DocumentLayer&, const DocumentLayer&) = default;
};

struct StrategyDocument {
  std::int32_t pp = 1;
  std::vector<std::int32_t> division;  ///< layers per stage
  std::vector<DocumentLayer> layers;
  DataParallelType default_type = DataParallelType::ddp;
  std::int64_t global_batch = 1, chunks = 1;
  bool one_f_one_b = false;  ///< pipedream_flush; else gpipe
  std::int32_t vocab_tp = 1, vocab_cp = 1;
  bool vocab_ulysses = false, vocab_zero3 = false;
  friend bool operator==(const StrategyDocument&, const StrategyDocument&) = default;
};

/// Reads the document. Fails (bad_input) with the place of the first violation of the above. `unread`, if given,
/// receives the unused keys.
Result<StrategyDocument> read_strategy_document(std::string_view json, const std::string& where,
                                                std::vector<std::string>* unread = nullptr);

/// Writes every field, in Galvatron's order; reads back to an equal document.
std::string to_json(const StrategyDocument& document);

}  // namespace espalier::galvatron
