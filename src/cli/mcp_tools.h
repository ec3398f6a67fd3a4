// SPDX-License-Identifier: Apache-2.0
// The tools that `espalier mcp` offers. Each is a command, and its arguments are flags of that command. A table holds
// names, types and descriptions; the schemas that clients see and the command lines that run are built from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/result.h"

namespace espalier::cli {

/// Describes an argument that becomes a flag.
struct ToolArgument {
  enum class Type : std::uint8_t { text, texts, flags, number, integer, boolean };
  std::string name;
  Type type = Type::text;
  std::string flag;  ///< "--engine"; empty: the word stands behind the command ("inspect model"); flags: as they are
  std::string help;
  bool required = false;
  std::vector<std::string> choices{};
};

/// Describes a document that the command reads, given as its text or as the path of a file.
struct ToolDocument {
  std::string name;         ///< argument with the text: "job"
  std::string file;         ///< argument with the path: "job_file"
  std::string flag;         ///< "--cluster"; empty: the positional argument, whose text is standard input
  std::string stored_as{};  ///< name of the temporary file of a text behind a flag
  std::string help;
  bool required = true;
};

struct Tool {
  std::string name, title, help;
  std::vector<ToolDocument> documents;
  std::vector<ToolArgument> arguments;
  std::vector<std::string> schemas;  ///< names of the documents that it answers with
};

/// Returns all tools, in the order in which they are listed.
std::vector<Tool> all_tools();
/// {"name", "title", "description", "inputSchema", "outputSchema", "annotations"}
void write_tool(JsonWriter& w, const Tool& tool);

struct ToolCommand {
  std::vector<std::string> words;  ///< the command line, without the program's name
  std::string input;               ///< standard input
  bool reads_input = false;
};
/// Builds the command line of a call, and writes texts behind a flag into `folder`. Errors of kind usage name an
/// argument that is unknown, missing or of a wrong type. Kind internal means that the folder cannot be written.
Result<ToolCommand> command_of(const Tool& tool, const Node* arguments, const std::filesystem::path& folder);
/// Returns true if command_of needs the folder.
bool needs_folder(const Tool& tool, const Node* arguments);

}  // namespace espalier::cli
