// SPDX-License-Identifier: Apache-2.0
// Reads and writes the documents of Espalier: plan.json, result.json and the timeline. A file appears completely or
// not at all: it is written to a temporary file next to it and then renamed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"
#include "espalier/timeline.h"

namespace espalier::report {

/// Holds a plan, and the whole result if the document is a result.json.
struct PlanDocument {
  Plan plan;
  std::unique_ptr<PlannerResult> result;  ///< null: the document is a plan.json
};
/// Reads a plan.json or a result.json. `where` names the text in messages. The error for another kind of file names
/// it: "found a cluster file; expected …".
Result<PlanDocument> read_plan_document(std::string_view text, const std::string& where);

/// Returns the path of a file: `path` itself, or `name` in it if `path` is an existing folder or ends in a slash.
std::string file_or_in_folder(const std::string& path, const std::string& name);
/// Writes bytes. Errors are of kind usage, because the user named the path.
Status write_file(const std::string& path, std::string_view bytes);
/// Writes text for trace viewers (to_trace), compressed when the name ends in ".gz".
Status write_trace_file(const std::string& path, const std::string& trace);
/// Writes plan.json, result.json and, if `trace` is not empty, timeline.json.gz. The result omits wall-clock values,
/// so that equal answers give equal files. Creates the folder. Returns the paths written.
Result<std::vector<std::string>> write_answer(const std::string& folder, const PlannerResult& result, const std::string& trace,
                                              PlanSchema schema = PlanSchema::two);

}  // namespace espalier::report
