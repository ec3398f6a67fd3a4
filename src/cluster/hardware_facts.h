// SPDX-License-Identifier: Apache-2.0
// Holds the figures of data/facts.yaml about devices, networks and hosts, copied out once.
#pragma once

#include "base/facts.h"

namespace espalier::cluster {

struct HardwareFacts {
  double vector_product_share = 1;   ///< share of the peak of FMA units that fp32 products reach
  double matrix_unit_ratio = 1;      ///< 16-bit over fp32 peak from which on a device has no fp32 matrix units
  double tree_all_reduce = 1;        ///< share of a ring all-reduce's bandwidth
  double in_network_all_reduce = 1;  ///< share of a ring all-gather's bandwidth, counted on the whole tensor
  double host_link_share = 1;        ///< share of the link to host memory
  double host_update_share = 1;      ///< share of the host's memory bandwidth
  double unstated_efficiency = 1;    ///< a network level's, where it states none
  double unstated_latency = 0;       ///< a network level's, where it states none, seconds
  double unstated_link_latency = 0;  ///< a link's between groups or sites, seconds
  double mxfp8_block = 32;           ///< elements that share a scale
  double mxfp8_passes = 1;           ///< reads of a tensor before its products
  double nvfp4_block = 16;           ///< elements that share a scale
  double nvfp4_passes = 2;           ///< reads of a tensor before its products
};

HardwareFacts hardware_facts_of(const base::Facts& facts);
/// Returns the figures that are compiled into the library.
const HardwareFacts& hardware_facts();

}  // namespace espalier::cluster
