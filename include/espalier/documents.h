// SPDX-License-Identifier: Apache-2.0
// The documents that Espalier reads and writes: plan.json, result.json and the timeline. A file appears whole or not at
// all: it is written beside its place and then renamed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"
#include "espalier/timeline.h"

namespace espalier {

/// A plan, and the whole result where the document is a result.json.
struct PlanDocument {
  Plan plan;
  std::unique_ptr<PlannerResult> result;  ///< null: the document is a plan.json
};
/// Reads either. `where` is what messages call the text. A file of another kind is named: "found a cluster file;
/// expected …".
Result<PlanDocument> read_plan_document(std::string_view text, const std::string& where);

/// Where a file goes: `path`, or the file `name` in it where `path` is a folder that exists or ends in a slash.
std::string file_or_in_folder(const std::string& path, const std::string& name);
/// Writes bytes. Errors are of kind usage: the user named the place.
Status write_file(const std::string& path, std::string_view bytes);
/// Writes text for trace viewers (to_trace), compressed when the name ends in ".gz".
Status write_trace_file(const std::string& path, const std::string& trace);
/// plan.json, result.json (without wall-clock values, so that equal answers are equal files) and, if `trace` is not
/// empty, timeline.json.gz. Makes the folder. Returns the paths written.
Result<std::vector<std::string>> write_answer(const std::string& folder, const PlannerResult& result, const std::string& trace,
                                              PlanSchema schema = PlanSchema::two);

}  // namespace espalier
