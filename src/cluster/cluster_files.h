// SPDX-License-Identifier: Apache-2.0
// Opens tables that a cluster file names: `matrix: FILE`, `capacity: FILE` or `[FILE, …]`, `events: FILE`. Each is
// read with its rows in the form in which they could appear in the cluster file itself. One reader therefore serves
// both, and embed() can insert them: a plan embeds its cluster as one document that needs no other file.
#pragma once

#include <map>
#include <string>

#include "base/document.h"

namespace espalier::cluster {

/// Maps the place in the cluster file that names a table to the table: "matrix", "capacity", "capacity[1]", "events".
using ClusterFiles = std::map<std::string, base::Document>;

/// Opens the tables that `root` names, below `folder` (or by absolute path). With an empty folder nothing is opened,
/// and the reader then refuses the names.
Result<ClusterFiles> open_files(const base::Document& cluster, const std::string& folder);
/// Replaces the names in the mapping by the rows.
void embed(base::Node& root, const ClusterFiles& files);

}  // namespace espalier::cluster
