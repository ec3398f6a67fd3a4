// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <algorithm>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "base/document.h"
#include "base/format.h"
#include "plan/dimension.h"

namespace espalier::cli {
namespace {

/// Holds the deepest command that the words name, and the index of the first word that is not a command.
struct NamedCommand {
  CLI::App* command = nullptr;
  std::string path;  ///< "inspect model"
  std::size_t next = 0;
};

std::vector<std::string> command_names(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) names.push_back(sub->get_name());
  return names;
}

NamedCommand place_of(CLI::App& app, const std::vector<std::string>& words) {
  NamedCommand place{&app, "", 0};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("-")) continue;
    const auto names = command_names(*place.command);
    if (std::find(names.begin(), names.end(), words[i]) == names.end()) break;
    place.command = place.command->get_subcommand(words[i]);
    place.path += (place.path.empty() ? "" : " ") + words[i];
    place.next = i + 1;
  }
  return place;
}

std::string help_of(const NamedCommand& place) { return "espalier " + place.path + (place.path.empty() ? "" : " ") + "--help"; }

/// Returns the beginning of messages, after the program's name.
std::string where_of(const NamedCommand& place) { return place.path; }

std::string typed(const NamedCommand& place) { return place.path.empty() ? "espalier" : "espalier " + place.path; }

bool is_file(const std::string& word) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(word, ignored);
}

/// Reports a missing command, or a word that is not one.
Error unknown_command(const NamedCommand& place, const std::vector<std::string>& words) {
  const auto names = command_names(*place.command);
  const std::string where = where_of(place);
  const auto given = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(place.next), words.end(),
                                  [](const std::string& w) { return !w.starts_with("-"); });
  if (given == words.end())
    return Error{ErrorKind::usage, where, "no command", "one of " + base::joined(names), "see " + help_of(place)};
  const auto close = base::did_you_mean(*given, names);
  std::string hint = close ? "did you mean \"" + typed(place) + " " + *close + "\"?" : "see " + help_of(place);
  if (!close && place.path.empty() && is_file(*given)) hint = "did you mean \"espalier plan " + *given + "\"?";
  return Error{ErrorKind::usage, where, "the unknown command \"" + *given + "\"", "one of " + base::joined(names), hint};
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

/// Returns "--tp" for "-tp", "--TP" and "--tensor-parallel": names are compared without dashes in front.
std::string similar_flag(const std::string& word, const std::vector<std::string>& flags) {
  const std::string bare = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::string name = bare.substr(0, bare.find('='));
  std::vector<std::string> names;
  for (const std::string& flag : flags) names.push_back(flag.substr(2));
  const auto exact = std::find(names.begin(), names.end(), name);
  if (exact != names.end()) return "--" + *exact;
  const auto close = base::did_you_mean(name, names);
  return close ? "--" + *close : "";
}

/// Finds another command that has the flag: "--tp" belongs to estimate.
std::string command_with(CLI::App& app, const std::string& flag) {
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    const auto flags = flags_of(*command);
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) return command->get_name();
  }
  return "";
}

/// Returns a file name typed without quotes, such as "my job.yaml": the words after the command, joined, where they
/// name a file.
std::string file_with_spaces(const NamedCommand& place, const std::vector<std::string>& words) {
  std::string joined;
  for (std::size_t i = place.next; i < words.size(); ++i) {
    if (words[i].starts_with("-")) return "";
    joined += (joined.empty() ? "" : " ") + words[i];
    if (i > place.next && is_file(joined)) return joined;
  }
  return "";
}

/// Reports a word beyond those that the command takes.
Error surplus_word(const NamedCommand& place, const std::string& word, const std::vector<std::string>& words) {
  const std::string where = where_of(place), quoted = "\"" + word + "\"";
  if (const std::string file = file_with_spaces(place, words); !file.empty())
    return Error{ErrorKind::usage, where, quoted + " after all that the command takes", "no more words",
                 "put the name with spaces into quotes: \"" + file + "\""};
  if (is_file(word) && place.path == "plan")
    return Error{ErrorKind::usage, where, "a second file, " + quoted, "one job file", "run espalier plan once per job"};
  return Error{ErrorKind::usage, where, quoted + " after all that the command takes", "no more words", "see " + help_of(place)};
}

/// Returns what to type in place of a flag of estimate that was given to plan: "--tp", with its value.
std::string pin_or_estimate(const std::string& flag, const std::string& word, const std::vector<std::string>& words) {
  std::string dimension = flag.substr(2), value = "VALUE";
  std::replace(dimension.begin(), dimension.end(), '-', '_');
  if (!parse_dimension(dimension)) return flag + " is a flag of espalier estimate";
  const auto at = std::find(words.begin(), words.end(), word);
  if (const std::size_t equals = word.find('='); equals != std::string::npos)
    value = word.substr(equals + 1);
  else if (at != words.end() && at + 1 != words.end() && !(at + 1)->starts_with("-"))
    value = *(at + 1);
  return flag + " is a flag of espalier estimate; to plan with " + dimension + " " + value + ": --set search.fix." + dimension +
         "=" + value + "; to price one configuration: espalier estimate " + flag + " " + value;
}

Error unexpected_word(CLI::App& app, const NamedCommand& place, const std::string& word, const std::vector<std::string>& words) {
  const std::string where = where_of(place);
  if (!word.starts_with("-")) return surplus_word(place, word, words);
  const std::string meant = similar_flag(word, flags_of(*place.command));
  std::string hint = "see " + help_of(place);
  const std::string name = word.substr(0, word.find('='));
  if (!meant.empty()) hint = "did you mean " + meant + "?";
  if (const std::string other = meant == name ? "" : command_with(app, name); !other.empty())
    hint = place.path == "plan" && other == "estimate" ? pin_or_estimate(name, word, words)
                                                       : name + " is a flag of espalier " + other;
  if (meant.empty() && hint.starts_with("see") && place.path == "plan") {
    const std::string estimate = similar_flag(word, flags_of(*app.get_subcommand("estimate")));
    if (!estimate.empty()) hint = pin_or_estimate(estimate, word, words);
  }
  return Error{ErrorKind::usage, where, "the unknown flag " + name, "a flag of this command", hint};
}

/// Converts CLI11's messages "--zero: Value 4 not in range 0 to 3", "--tp: 1 required INT missing" and "Could not
/// convert: --threads = all".
Error wrong_value(const NamedCommand& place, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  const std::string flag = colon == std::string::npos || !text.starts_with("-") ? "" : text.substr(0, colon);
  const std::string what = flag.empty() ? text : text.substr(colon + 2);
  Error out{ErrorKind::usage, where_of(place) + (flag.empty() ? "" : " " + flag), what, "a value that the flag takes",
            "see " + help_of(place)};
  const std::size_t range = what.find(" not in range ");
  if (what.starts_with("Value ") && range != std::string::npos) {
    out.found = "\"" + what.substr(6, range - 6) + "\"";
    out.expected = "a number from " + what.substr(range + 14);
  } else if (what.starts_with("Value ") && what.find(kNoNumber) != std::string::npos) {
    const std::size_t at = what.find(kNoNumber);
    out.found = "\"" + what.substr(6, at - 6) + "\"";
    out.expected = "a number " + what.substr(at + std::string(kNoNumber).size());
  } else if (what.ends_with(" missing")) {
    out.found = "nothing after the flag";
    out.expected = "its value";
  }
  return out;
}

/// Converts CLI11's message "job is required".
Error missing_word(const NamedCommand& place, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(" is required"));
  const CLI::Option* option = place.command->get_option_no_throw(name);
  const std::string type = option != nullptr ? option->get_type_name() : "";
  if (name == "job")
    return Error{ErrorKind::usage, where_of(place), "no job", "a job file: " + typed(place) + " " + type,
                 "see " + help_of(place)};
  return Error{ErrorKind::usage, where_of(place), "no " + name,
               type.empty() ? "all that the command needs" : name + (name.starts_with("-") ? " " : ": ") + type,
               "see " + help_of(place)};
}

}  // namespace

Error usage_error(CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const NamedCommand place = place_of(app, words);
  if (!command_names(*place.command).empty()) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(place.next);
    const auto flag = std::find_if(first, words.end(), [](const std::string& w) { return w.starts_with("-"); });
    const bool only_flags = std::all_of(first, words.end(), [](const std::string& w) { return w.starts_with("-"); });
    if (!only_flags || flag == words.end()) return unknown_command(place, words);
    return unexpected_word(app, place, *flag, words);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto extra = place.command->remaining();
    if (!extra.empty()) return unexpected_word(app, place, extra.front(), words);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return missing_word(place, error);
  return wrong_value(place, error);
}

}  // namespace espalier::cli
