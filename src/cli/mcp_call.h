// SPDX-License-Identifier: Apache-2.0
// One call of a tool: the command runs in this process, through the entry that main.cpp uses, with streams of its own.
#pragma once

#include <functional>
#include <string>

#include "cli/mcp_tools.h"

namespace espalier::cli {

struct ToolAnswer {
  int exit_code = 0;
  std::string json;    ///< the document as the command prints it with --json
  std::string text;    ///< the answer as it prints it without; empty for an error
  std::string notes;   ///< messages of the command on stderr
  bool error = false;  ///< the document is an error, or there is none
};

/// Runs the command of `tool`. Errors are those of command_of, and of kind internal where the command failed by a bug.
Result<ToolAnswer> call_tool(const Tool& tool, const Node* arguments, const std::function<bool()>& interrupted);

/// Labels the settings of a plan as execution only or as training, for the text of the tool `plan`. Returns an empty
/// string for other documents.
std::string knobs_text(const std::string& result_json);

}  // namespace espalier::cli
