// SPDX-License-Identifier: Apache-2.0
// Shows how an input was understood, with every default marked "(default)". Texts are for a terminal, wrapped at
// `width` columns (0 does not wrap); the JSON forms are for scripts.
#pragma once

#include <cstddef>
#include <string>

#include "espalier/cluster.h"
#include "espalier/measured_runs.h"
#include "espalier/model.h"
#include "espalier/validate.h"

namespace espalier::report {

/// Returns text about a model.
std::string inspect_model(const Model& model, std::size_t width = 0);
/// Returns JSON of schema espalier.model/1.
std::string inspect_model_json(const Model& model);

/// Returns text about a cluster.
std::string inspect_cluster(const Cluster& cluster, std::size_t width = 0);
/// Returns JSON of schema espalier.cluster-summary/1.
std::string inspect_cluster_json(const Cluster& cluster);

/// Returns text about a measured run; `mapping` is that of the record (map_run).
std::string inspect_run(const RunRecord& record, const RunMapping& mapping, std::size_t width = 0);
/// Returns JSON of schema espalier.run-mapping/1.
std::string inspect_run_json(const RunRecord& record, const RunMapping& mapping);

}  // namespace espalier::report
