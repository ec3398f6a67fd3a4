// SPDX-License-Identifier: Apache-2.0
#include "cluster/hardware_facts.h"

namespace espalier::cluster {

HardwareFacts hardware_facts_of(const base::Facts& facts) {
  return {.vector_product_share = facts.value("vector_product_share"),
          .matrix_unit_ratio = facts.value("matrix_unit_ratio"),
          .tree_all_reduce = facts.value("tree_all_reduce"),
          .in_network_all_reduce = facts.value("in_network_all_reduce"),
          .host_link_share = facts.value("host_link_share"),
          .host_update_share = facts.value("host_update_share"),
          .unstated_efficiency = facts.value("unstated_efficiency"),
          .unstated_latency = facts.value("unstated_latency"),
          .unstated_link_latency = facts.value("unstated_link_latency"),
          .mxfp8_block = facts.value("mxfp8_block"),
          .mxfp8_passes = facts.value("mxfp8_passes"),
          .nvfp4_block = facts.value("nvfp4_block"),
          .nvfp4_passes = facts.value("nvfp4_passes")};
}

const HardwareFacts& hardware_facts() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const HardwareFacts shipped = hardware_facts_of(base::shipped_facts());
  return shipped;
}

}  // namespace espalier::cluster
