// SPDX-License-Identifier: Apache-2.0
// Writes the device and node of each rank, and its place in the plan: a table separated by tabs, one line per rank,
// after a head of comments.
//   rank  host:device  [pipeline]  stage  dp  cp  tp          node:k is the k-th node of the launcher's list.
// Rank r is device r of the cluster (node by node, group by group). Places are those in the groups of the rank's
// first layer. A stage lists its devices with tensor ranks next to each other, then context and data ranks, or under
// order tp-dp-cp-pp data and context ranks.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Exporter rank_map();

}  // namespace espalier::exchange
