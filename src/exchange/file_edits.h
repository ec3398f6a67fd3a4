// SPDX-License-Identifier: Apache-2.0
// Edits values of a user's configuration file and keeps everything else unchanged: comments, order, quotes, line
// ends.
//
//   flags   a list of flags or a launch script: `--name value`, `--name=value`, '-' and '_' alike. Where a value is a
//           variable that the script assigns once as a literal, the assignment changes. New flags are written after an
//           existing one.
//   tables  TOML or YAML, a key per line; new keys are written below the last one of their table
//   json    written anew, with two spaces per level, since JSON has no comments to keep
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/configuration_diff.h"

namespace espalier::exchange {

/// Names the wanted value of a key: "on" for a switch, empty to remove the key.
struct WantedValue {
  enum class Words : std::uint8_t { one, several, none };
  std::string key, before, after;
  Words words = Words::one;  ///< flags: arguments that follow
};

struct EditedFile {
  std::string text;
  std::vector<ConfigurationEdit> edits;
};

/// Edits flags. New flags follow the first of `anchors` that the file has; without one they appear only as edits. A
/// value that the shell would not read as one word is quoted, unless it is inside a quoted string.
EditedFile edit_flags(std::string_view text, const std::vector<WantedValue>& wanted,
                      const std::vector<std::string>& anchors = {});
/// Edits a table. `lines` holds the line of each key that the file has, by path.
EditedFile edit_table(std::string_view text, bool toml, const std::map<std::string, std::int64_t>& lines,
                      const std::vector<WantedValue>& wanted);
Result<EditedFile> edit_json(std::string_view text, const std::string& where, const std::vector<WantedValue>& wanted);

}  // namespace espalier::exchange
