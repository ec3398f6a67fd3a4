// SPDX-License-Identifier: Apache-2.0
// From the arguments of a call to the command line that runs. Each flag is one word with its value ("--tp=8"), so that
// no value is taken for a flag; the command itself judges the values.
#include <algorithm>
#include <filesystem>

#include "base/format.h"
#include "base/text.h"
#include "cli/configuration_flags.h"
#include "cli/mcp_tools.h"
#include "espalier/documents.h"

namespace espalier::cli {
namespace {

using Type = ToolArgument::Type;

Error wrong_argument(const std::string& name, std::string found, std::string expected, std::string hint = "") {
  return {ErrorKind::usage, cat("arguments.", name), std::move(found), std::move(expected), std::move(hint)};
}

std::vector<std::string> argument_names(const Tool& tool) {
  std::vector<std::string> names;
  for (const ToolDocument& document : tool.documents) {
    names.push_back(document.name);
    names.push_back(document.file);
  }
  for (const ToolArgument& argument : tool.arguments) names.push_back(argument.name);
  return names;
}

Result<std::string> word_of(const std::string& name, const Node& value) {
  if (value.kind != NodeKind::string) return wrong_argument(name, std::string(to_string(value.kind)), "a string");
  if (value.text.find('\0') != std::string::npos) return wrong_argument(name, "a NUL character", "text");
  return value.text;
}

/// Returns the strings of an array.
Result<std::vector<std::string>> words_of_argument(const std::string& name, const Node& value) {
  if (value.kind != NodeKind::sequence) return wrong_argument(name, std::string(to_string(value.kind)), "an array of strings");
  std::vector<std::string> out;
  for (const Node& item : value.items) {
    auto word = word_of(name, item);
    if (!word) return word.error();
    out.push_back(std::move(*word));
  }
  return out;
}

/// Lists the flags that describe a configuration: --tp, --pp, …; each takes a value.
std::vector<std::string> configuration_flag_names() {
  Command command("", "");
  ConfigurationFlags flags;
  add_configuration_flags(command, flags);
  std::vector<std::string> names;
  for (const DescribedOption& option : command.described().options)
    if (!option.value.empty()) names.push_back(option.long_name);
  return names;
}

/// Writes "--tp", "8" as "--tp=8". It rejects other flags of the command, which write files.
Status add_configuration(const std::string& name, const std::vector<std::string>& given, std::vector<std::string>& words) {
  const std::vector<std::string> known = configuration_flag_names();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t equals = given[i].find('=');
    const std::string flag = given[i].substr(0, equals);
    if (std::find(known.begin(), known.end(), flag) == known.end())
      return wrong_argument(name, base::in_quotes(flag), "a flag of a configuration, such as --tp",
                            base::suggestion(flag, known));
    if (equals == std::string::npos && i + 1 == given.size())
      return wrong_argument(name, cat(flag, " without a value"), cat(flag, " and its value"));
    words.push_back(equals == std::string::npos ? cat(flag, "=", given[++i]) : given[i]);
  }
  return {};
}

Status add_number(const ToolArgument& argument, const Node& value, std::vector<std::string>& words) {
  const bool fits = value.kind == NodeKind::integer || (value.kind == NodeKind::real && argument.type == Type::number);
  if (!fits)
    return wrong_argument(argument.name, std::string(to_string(value.kind)),
                          argument.type == Type::number ? "a number" : "an integer");
  words.push_back(cat(argument.flag, "=", value.text));
  return {};
}

Status add_text(const ToolArgument& argument, const Node& value, std::vector<std::string>& words) {
  const auto word = word_of(argument.name, value);
  if (!word) return word.error();
  const auto& choices = argument.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), *word) == choices.end())
    return wrong_argument(argument.name, base::in_quotes(*word), cat("one of ", base::joined(choices)),
                          base::suggestion(*word, choices));
  words.push_back(argument.flag.empty() ? *word : cat(argument.flag, "=", *word));
  return {};
}

Status add_argument(const ToolArgument& argument, const Node& value, std::vector<std::string>& words) {
  switch (argument.type) {
    case Type::number:
    case Type::integer: return add_number(argument, value, words);
    case Type::text: return add_text(argument, value, words);
    case Type::boolean:
      if (value.kind != NodeKind::boolean)
        return wrong_argument(argument.name, std::string(to_string(value.kind)), "true or false");
      if (value.boolean) words.push_back(argument.flag);
      return {};
    case Type::texts:
    case Type::flags: break;
  }
  const auto given = words_of_argument(argument.name, value);
  if (!given) return given.error();
  if (argument.type == Type::flags) return add_configuration(argument.name, *given, words);
  for (const std::string& word : *given) words.push_back(cat(argument.flag, "=", word));
  return {};
}

/// Returns the path as the command takes it. It rejects pipes and devices: one of them is this server's own input.
Result<std::string> path_of_argument(const std::string& name, const Node& value) {
  auto path = word_of(name, value);
  if (!path) return path.error();
  if (path->empty()) return wrong_argument(name, "an empty path", "the path of a file");
  if (path->front() == '-') *path = "./" + *path;
  std::error_code ignored;
  const auto status = std::filesystem::status(*path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) && !std::filesystem::is_directory(status))
    return wrong_argument(name, base::in_quotes(*path), "a regular file", cat("pass the text itself, without ", name));
  return path;
}

/// Returns the word for a document, and stores its text where the command finds it.
Result<std::string> document_word(const ToolDocument& document, const Node& text, ToolCommand& command,
                                  const std::filesystem::path& folder) {
  if (text.kind != NodeKind::string) return wrong_argument(document.name, std::string(to_string(text.kind)), "a string");
  if (document.flag.empty()) {
    command.input = text.text;
    command.reads_input = true;
    return std::string("-");
  }
  const std::string path = (folder / document.stored_as).string();
  if (Status written = report::write_file(path, text.text); !written.ok()) {
    Error error = written.error();
    error.kind = ErrorKind::internal;
    return error;
  }
  return path;
}

Status add_document(const ToolDocument& document, const Node& arguments, const std::filesystem::path& folder,
                    ToolCommand& command) {
  const Node *text = arguments.find(document.name), *file = arguments.find(document.file);
  if (text != nullptr && file != nullptr)
    return wrong_argument(document.file, cat(document.name, " and ", document.file), "one of them");
  if (text == nullptr && file == nullptr) {
    if (!document.required) return {};
    return wrong_argument(document.name, "nothing", cat(document.name, " (the text) or ", document.file, " (a path)"));
  }
  const auto word = text != nullptr ? document_word(document, *text, command, folder) : path_of_argument(document.file, *file);
  if (!word) return word.error();
  command.words.push_back(document.flag.empty() ? *word : cat(document.flag, "=", *word));
  return {};
}

Status add_arguments(const Tool& tool, const Node& arguments, std::vector<std::string>& words) {
  for (const ToolArgument& argument : tool.arguments) {
    const Node* value = arguments.find(argument.name);
    if (value == nullptr && argument.required)
      return wrong_argument(argument.name, "nothing", cat("one of ", base::joined(argument.choices)));
    if (value == nullptr) continue;
    if (Status added = add_argument(argument, *value, words); !added.ok()) return added;
  }
  return {};
}

}  // namespace

bool needs_folder(const Tool& tool, const Node* arguments) {
  return arguments != nullptr && std::any_of(tool.documents.begin(), tool.documents.end(), [&](const ToolDocument& document) {
           return !document.flag.empty() && arguments->find(document.name) != nullptr;
         });
}

Result<ToolCommand> command_of(const Tool& tool, const Node* arguments, const std::filesystem::path& folder) {
  Node none;
  none.kind = NodeKind::mapping;
  const Node& given = arguments == nullptr ? none : *arguments;
  const std::vector<std::string> names = argument_names(tool);
  for (const auto& [name, ignored] : given.members)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return Error{ErrorKind::usage, "arguments", base::in_quotes(name), cat("one of ", base::joined(names)),
                   base::suggestion(name, names)};
  ToolCommand command;
  command.words.push_back(tool.name);
  if (Status added = add_arguments(tool, given, command.words); !added.ok()) return added.error();
  command.words.emplace_back("--json");
  for (const ToolDocument& document : tool.documents)
    if (Status added = add_document(document, given, folder, command); !added.ok()) return added.error();
  return command;
}

}  // namespace espalier::cli
