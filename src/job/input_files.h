// SPDX-License-Identifier: Apache-2.0
// Finds files that a job names. A path is searched next to the job file, then in the folders above it up to the first
// that holds `.git`. Thus examples/job.yaml may name models/llama-3-8b/config.json. The last folder is the working
// directory; the first existing file is taken.
#pragma once

#include <string>

#include "espalier/result.h"

namespace espalier::job {

/// Returns the file that `path` means under the job's `key`. For a folder under `model`, it is its config.json.
/// `where` is the place of the path in the job. For a missing file, the error suggests the name that was probably
/// meant.
Result<std::string> find_input_file(const std::string& path, const std::string& key, const std::string& base_directory,
                                    const std::string& where);

}  // namespace espalier::job
