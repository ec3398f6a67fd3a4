// SPDX-License-Identifier: Apache-2.0
// Traces of spot instances. Nodes of a trace get numbers: who comes takes the lowest that is free, so that the highest
// number is one less than the most that are there at once. Of counts, the nodes with the highest numbers go first and
// the lowest come first.
//
//   bamboo  time_ms,add|remove,name                (github.com/uclasystem/bamboo traces/*.csv)
//           date,time,instances                    (traces/gcloud/*: two clocks may be mixed; rows are put in order of
//                                                  time)
//   parcae  time_ms,add|remove|no-op,nodes,…       (github.com/JF-D/Parcae aws/traces: nodes that come or go)
//           time_ms,instances
//   sailor  time_s,gpus                            (github.com/eth-easl/sailor trace_based, as a table)
//   counts  time_s,nodes
// A first row whose time is no number holds the names of columns. Lines that begin with '#' are passed over.
#pragma once

#include "espalier/exchange.h"

namespace espalier::exchange {

Result<ImportedTrace> read_bamboo_trace(const TraceRequest& request);
Result<ImportedTrace> read_parcae_trace(const TraceRequest& request);
Result<ImportedTrace> read_sailor_trace(const TraceRequest& request);
Result<ImportedTrace> read_counts_trace(const TraceRequest& request);

}  // namespace espalier::exchange
