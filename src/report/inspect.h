// SPDX-License-Identifier: Apache-2.0
// What was understood of an input file, with every default marked "(default)".
#pragma once

#include <cstddef>
#include <string>

#include "espalier/cluster.h"
#include "espalier/model.h"

namespace espalier::report {

std::string inspect_model(const Model& model, std::size_t width = 0);  ///< no line longer than `width`; 0: as wide as it is
std::string inspect_model_json(const Model& model);                    ///< schema espalier.model/1
std::string inspect_cluster(const Cluster& cluster, std::size_t width = 0);
std::string inspect_cluster_json(const Cluster& cluster);  ///< schema espalier.cluster-summary/1

}  // namespace espalier::report
