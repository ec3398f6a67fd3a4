// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_call.h"

#include <filesystem>
#include <optional>
#include <sstream>

#include "cli/command.h"
#include "cli/ranks.h"

namespace espalier::cli {
namespace {

ToolAnswer run_in_process(const ToolCommand& command, const std::function<bool()>& interrupted) {
  std::vector<const char*> words{"espalier"};
  for (const std::string& word : command.words) words.push_back(word.c_str());
  std::istringstream input(command.input);
  std::ostringstream out, err, text;
  Surroundings surroundings;
  surroundings.width = 0;
  surroundings.interrupted = interrupted;
  surroundings.input = command.reads_input ? &input : nullptr;
  surroundings.text = &text;
  ToolAnswer answer;
  answer.exit_code = run(static_cast<int>(words.size()), words.data(), out, err, surroundings);
  answer.json = out.str();
  answer.text = text.str();
  answer.notes = err.str();
  return answer;
}

/// Whether what the command printed is an answer: an object of another schema than that of errors.
bool is_answer(const std::string& json) {
  const auto document = base::read_json(json, "answer");
  if (!document) return false;
  const Node* schema = document->root.find("schema");
  return schema != nullptr && schema->text != "espalier.error/1";
}

Error folder_failed(const std::string& why) {
  return {ErrorKind::internal, "temporary folder", why, "a folder that can be written", "set TMPDIR"};
}

/// A folder, where the call has texts to store; else none is made.
Result<ToolCommand> prepared(const Tool& tool, const Node* arguments, std::optional<ScratchFolder>& folder) {
  try {
    if (needs_folder(tool, arguments)) folder.emplace();
  } catch (const std::filesystem::filesystem_error& error) {
    return folder_failed(error.what());
  }
  if (folder && folder->path().empty()) return folder_failed("none could be made");
  return command_of(tool, arguments, folder ? folder->path() : std::filesystem::path());
}

}  // namespace

Result<ToolAnswer> call_tool(const Tool& tool, const Node* arguments, const std::function<bool()>& interrupted) {
  std::optional<ScratchFolder> folder;
  const auto command = prepared(tool, arguments, folder);
  if (!command) return command.error();
  ToolAnswer answer = run_in_process(*command, interrupted);
  if (answer.exit_code == kInternal) return Error{ErrorKind::internal, tool.name, answer.notes, "", ""};
  answer.error = !is_answer(answer.json);
  if (tool.name == "plan" && !answer.error) answer.text += knobs_text(answer.json);
  return answer;
}

}  // namespace espalier::cli
