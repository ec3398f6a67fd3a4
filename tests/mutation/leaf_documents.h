// SPDX-License-Identifier: Apache-2.0
// Documents of every kind that `check` reads, written by small jobs, for the mutation of every leaf.
#pragma once

#include <string>
#include <vector>

#include "json_leaves.h"

namespace espalier::mutation {

struct LeafDocument {
  std::string name, text;
};

/// Results of one and several node groups, layer-wise, with partitions, of an engine, with everything beside the
/// answer; what-if, --survive, replan.
const std::vector<LeafDocument>& leaf_documents();
/// A plan.json by itself. It claims nothing but summaries and hashes: a changed leaf makes another plan.
const LeafDocument& plan_document();

}  // namespace espalier::mutation
