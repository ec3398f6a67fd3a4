// SPDX-License-Identifier: Apache-2.0
// Reads the inputs that a job names, model and cluster: a part of the job file, or a separate file (job/input_files.h
// lists the searched folders).
#pragma once

#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/job.h"
#include "job/overrides.h"

namespace espalier::job {

/// Holds a model or cluster as found: a sub-mapping of the job, or a separate file.
struct Input {
  base::Document document;  ///< root = the mapping
  std::string text;         ///< the bytes of an unmodified file (positions in messages stay right)
  std::string name;         ///< for messages: folder or file name; empty: part of the job
  std::string folder;       ///< folder of the files that it names
};

/// Returns the job's value under `key`, or the file that it names there, with the overrides below that key applied.
Result<Input> open_input(base::Reader& job, const std::string& key, const std::string& base_directory,
                         const std::vector<Override>& overrides);
/// Reads the model. `source` is the input as canonical JSON.
Result<Model> read_model_input(const Input& input, const std::string& source);
/// Reads the cluster. Tables that it names are opened, and are in `input` afterwards as if they had been written
/// there.
Result<Cluster> read_cluster_input(Input& input);
/// Returns the input as canonical JSON. A segment that was chosen here is written into it, so that the plan always
/// means the same cluster.
std::string cluster_source_of(const Input& input, const Cluster& cluster);
/// Lists notes on an accepted job: parts of the model that are not planned, and a sequence longer than the model was
/// made for.
std::vector<std::string> notes_of(const Job& job);
/// Replaces a cluster with token buckets by one with its sustained rates. The job also keeps the original cluster.
void take_what_lasts(Job& job);

}  // namespace espalier::job
