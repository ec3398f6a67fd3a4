// SPDX-License-Identifier: Apache-2.0
// Which rank runs on which device of which node, and its place in the plan: a table of tabs, one line a rank, after a head of comments.
//   rank  host:device  stage  dp  cp  tp          host k is the k-th node of the launcher's list
// Rank r is device r of the cluster (node by node, group by group). Places follow from the order in which a stage lists its devices.
#pragma once

#include <string>

#include "espalier/exchange.h"

namespace espalier::exchange {

std::string rank_map(const ExportRequest& request);

}  // namespace espalier::exchange
