// SPDX-License-Identifier: Apache-2.0
// Applies `--set a.b.c=value`: changes to a parsed job before it is read, so that an override is checked like a line
// of the file.
//
// The value is a YAML scalar or flow collection ("8", "[1, 2]", "{nodes: 2}"). An empty value removes the key.
// Numbers in the path index lists (cluster.groups.0.nodes). Missing mappings on the way are made.
#pragma once

#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/result.h"

namespace espalier::job {

struct Override {
  std::vector<std::string> path;
  base::Node value;
  std::string text;  ///< as typed
};

Result<Override> parse_override(const std::string& text);
Result<std::vector<Override>> parse_overrides(const std::vector<std::string>& texts);
/// Applies a change. `depth` counts the path elements already walked (1 when `root` is the file that the first
/// element names).
Status apply_override(base::Node& root, const Override& change, std::size_t depth = 0);
/// Reports an error about a value from the command line at its override, instead of a place in the file. The last
/// override of a path counts. An error elsewhere in a file keeps its place, and names an override whose value it gives.
Error blame_override(Error error, const std::vector<Override>& overrides);

}  // namespace espalier::job
