// SPDX-License-Identifier: Apache-2.0
// Tables that a cluster file names: `matrix: FILE`, `capacity: FILE` or `[FILE, …]`, `events: FILE`. Each is read with
// the rows in the form in which they could stand in the cluster file itself, so that one reader serves both, and
// embed() can put them there: a plan embeds its cluster as one document that needs no other file.
#pragma once

#include <map>
#include <string>

#include "base/document.h"

namespace espalier::cluster {

/// By the place in the cluster file that names the table: "matrix", "capacity", "capacity[1]", "events".
using ClusterFiles = std::map<std::string, base::Document>;

/// Opens what `root` names, below `folder` (or by absolute path). An empty folder: nothing is opened, the reader then
/// refuses the names.
Result<ClusterFiles> open_files(const base::Document& cluster, const std::string& folder);
/// The same mapping with the rows in place of the names.
void embed(base::Node& root, const ClusterFiles& files);

}  // namespace espalier::cluster
