// SPDX-License-Identifier: Apache-2.0
// Defines the names of a plan's enums in documents.
#include "espalier/plan.h"

namespace espalier {

std::string_view to_string(SequenceParallel v) {
  switch (v) {
    case SequenceParallel::none: return "none";
    case SequenceParallel::megatron: return "megatron";
    case SequenceParallel::ulysses: return "ulysses";
  }
  return "?";
}

std::string_view to_string(ContextParallelKind v) {
  switch (v) {
    case ContextParallelKind::ring: return "ring";
    case ContextParallelKind::all_to_all: return "all-to-all";
  }
  return "?";
}

std::string_view to_string(RecomputeKind v) {
  switch (v) {
    case RecomputeKind::none: return "none";
    case RecomputeKind::selective: return "selective";
    case RecomputeKind::full: return "full";
  }
  return "?";
}

std::string_view to_string(RankOrder v) {
  switch (v) {
    case RankOrder::tp_cp_dp_pp: return "tp-cp-dp-pp";
    case RankOrder::tp_cp_pp_dp: return "tp-cp-pp-dp";
    case RankOrder::tp_dp_cp_pp: return "tp-dp-cp-pp";
  }
  return "?";
}

}  // namespace espalier
