// SPDX-License-Identifier: Apache-2.0
// Files that a job names. A path is looked for beside the job file, then in the folders above it up to the first that
// holds `.git` (so that examples/job.yaml may say models/llama-3-8b/config.json), then in the working directory; the
// first that exists is taken.
#pragma once

#include <string>

#include "espalier/result.h"

namespace espalier::job {

/// The file that `path` means under the job's `key`; of a folder under `model` its config.json. `where`: the place of
/// the path in the job. What is not found is an error with the name that was probably meant.
Result<std::string> find_input_file(const std::string& path, const std::string& key, const std::string& base_directory,
                                    const std::string& where);

}  // namespace espalier::job
