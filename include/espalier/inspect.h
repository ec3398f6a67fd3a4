// SPDX-License-Identifier: Apache-2.0
// What was understood of an input, with every default marked "(default)". Texts are for people, no line longer than
// `width` columns (0: as wide as it is); the JSON forms are for scripts.
#pragma once

#include <cstddef>
#include <string>

#include "espalier/cluster.h"
#include "espalier/measured_runs.h"
#include "espalier/model.h"
#include "espalier/validate.h"

namespace espalier {

std::string inspect_model(const Model& model, std::size_t width = 0);
/// schema espalier.model/1
std::string inspect_model_json(const Model& model);

std::string inspect_cluster(const Cluster& cluster, std::size_t width = 0);
/// schema espalier.cluster-summary/1
std::string inspect_cluster_json(const Cluster& cluster);

/// `mapping` is that of the record (map_run).
std::string inspect_run(const RunRecord& record, const RunMapping& mapping, std::size_t width = 0);
/// schema espalier.run-mapping/1
std::string inspect_run_json(const RunRecord& record, const RunMapping& mapping);

}  // namespace espalier
