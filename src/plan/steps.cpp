// SPDX-License-Identifier: Apache-2.0
#include "plan/steps.h"

namespace espalier {

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::ring_shift: return "ring_shift";
    case CollectiveKind::point_to_point: return "point_to_point";
    case CollectiveKind::resharding: return "resharding";
  }
  return "?";
}

std::string_view to_string(GroupKind kind) {
  switch (kind) {
    case GroupKind::tensor: return "tensor";
    case GroupKind::context: return "context";
    case GroupKind::expert: return "expert";
    case GroupKind::expert_tensor: return "expert_tensor";
    case GroupKind::data_shard: return "data_shard";
    case GroupKind::data_replica: return "data_replica";
    case GroupKind::expert_shard: return "expert_shard";
    case GroupKind::expert_replica: return "expert_replica";
    case GroupKind::table_copies: return "table_copies";
    case GroupKind::operators: return "operators";
    case GroupKind::stage: return "stage";
  }
  return "?";
}

std::string_view to_string(StepPart part) {
  switch (part) {
    case StepPart::forward: return "forward";
    case StepPart::input_gradient: return "input_gradient";
    case StepPart::weight_gradient: return "weight_gradient";
    case StepPart::recomputation: return "recomputation";
  }
  return "?";
}

std::string_view to_string(Placement placement) {
  switch (placement) {
    case Placement::before: return "before";
    case Placement::beside: return "beside";
    case Placement::after: return "after";
  }
  return "?";
}

}  // namespace espalier
