// SPDX-License-Identifier: Apache-2.0
// Reads traces of spot instances. Nodes of a trace get numbers. A new node takes the lowest free number, so that the
// highest number is one less than the peak number of nodes. In traces of counts, the nodes with the highest numbers
// go first and the lowest come first.
//
//   bamboo  time_ms,add|remove,name                (github.com/uclasystem/bamboo traces/*.csv)
//           date,time,instances                    (traces/gcloud/*: two clocks may be mixed; rows are sorted by time)
//   parcae  time_ms,add|remove|no-op,nodes,…       (github.com/JF-D/Parcae aws/traces: nodes that come or go)
//           time_ms,instances
//   sailor  time_s,gpus                            (github.com/eth-easl/sailor trace_based, as a table)
//   counts  time_s,nodes
//
// A first row whose time is not a number holds the names of columns. Lines that begin with '#' are skipped.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Result<ImportedTrace> read_bamboo_trace(const TraceRequest& request);
Result<ImportedTrace> read_parcae_trace(const TraceRequest& request);
Result<ImportedTrace> read_sailor_trace(const TraceRequest& request);
Result<ImportedTrace> read_counts_trace(const TraceRequest& request);

}  // namespace espalier::exchange
