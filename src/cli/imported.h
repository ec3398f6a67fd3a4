// SPDX-License-Identifier: Apache-2.0
// Declares the parts that `import config` and `improve` share: flags that name a configuration of another tool, its
// reading, and a report on its keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "espalier/imported_configuration.h"

namespace espalier::cli {

struct ImportedFlags {
  std::string format, path, model, cluster, recompute;
  std::vector<std::string> overrides, ignored, arguments, with;
  std::optional<std::int64_t> sequence_length, global_batch, micro_batch;
};
/// Adds the flags. `format` lists those that name the format, the documented one first: "--from,--format"; empty
/// where it is known.
void add_imported_flags(Command& command, const std::string& format, ImportedFlags& flags);

struct ImportedJob {
  exchange::ImportedConfiguration configuration;
  Job job;
  exchange::ConfigurationRequest request;  ///< request that the file was read with
};
/// Reads the configuration and notes what was not understood; -v notes every key.
Result<ImportedJob> read_imported(Context& context, const ImportedFlags& flags);

/// Returns the keys as a table. Keys without effect are only counted.
std::string keys_text(const exchange::ImportedConfiguration& configuration);
/// Returns {"format", "file", "engine", "keys": [{"key", "value", "line", "kind", "meaning"}]}.
std::string keys_json(const exchange::ImportedConfiguration& configuration, const std::string& format);
/// Returns the job with model and cluster inside it, as a file that every other command reads. It holds the
/// configuration, the --set values, and the overrides of `more`.
Result<std::string> job_file(const Job& job, const ImportedFlags& flags, const std::vector<std::string>& more);

}  // namespace espalier::cli
