// SPDX-License-Identifier: Apache-2.0
// Reads the information of a record outside its configuration: the names in `techniques`, and typed values in `extra`.
// A record without the list is read by runs/record_facts.h (docs/file-formats.md, "Measured runs").
//
//   lora       only adapters are trained (RunRecord::adapter)
//   compile    torch.compile
//   hsdp       sharded inside a node, replicated across nodes
//   deepep     a dispatcher that exists only between expert-parallel ranks
//   offload    activations or states in host memory; extra.recipe.cpu_offloading_num_layers counts the blocks
//   packed     several short samples in one sequence
//   NAME       an option of engines (data/engines.yaml)
#pragma once

#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/measured_runs.h"

namespace espalier::runs {

/// Returns the techniques that `names` lists. `unknown` keeps names outside the table.
RunTechniques listed_techniques(const std::vector<std::string>& names);

/// Reads the values of `extra` that have the expected type (docs/file-formats.md lists them); anything else is
/// ignored.
void read_extra(const base::Node* extra, RunRecord& record);

}  // namespace espalier::runs
