// SPDX-License-Identifier: Apache-2.0
// The inputs that a job names, model and cluster: a part of the job file, or a file of their own (job/input_files.h
// says where it is looked for).
#pragma once

#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/job.h"
#include "job/overrides.h"

namespace espalier::job {

/// Model or cluster as found: a sub-mapping of the job, or a file of its own.
struct Input {
  base::Document document;  ///< root = the mapping
  std::string text;         ///< the file's bytes, when it is an untouched file (positions in messages stay true)
  std::string name;         ///< for people: folder or file name; empty: part of the job
  std::string folder;       ///< where the files that it names are looked for
};

/// What the job holds under `key`, or the file that it names there, with the overrides below that key applied.
Result<Input> open_input(base::Reader& job, const std::string& key, const std::string& base_directory,
                         const std::vector<Override>& overrides);
/// `source`: the input as canonical JSON.
Result<Model> read_model_input(const Input& input, const std::string& source);
/// Tables that the cluster names are opened, and stand in `input` afterwards as if they had been written there.
Result<Cluster> read_cluster_input(Input& input);
/// The input as canonical JSON. A segment that was chosen here is written into it, so that the plan means the same
/// cluster for ever.
std::string cluster_source_of(const Input& input, const Cluster& cluster);
/// What the user should know of an accepted job: parts of the model that are not planned, and a sequence beyond what it
/// was made for.
std::vector<std::string> notes_of(const Job& job);
/// A cluster with token buckets is planned at the rates that last; as it was given it is kept beside.
void take_what_lasts(Job& job);

}  // namespace espalier::job
