// SPDX-License-Identifier: Apache-2.0
// A user's configuration file with some of its values changed and everything else as it was: comments, order, quotes,
// line ends.
//
//   flags   a list of flags or a launch script: `--name value`, `--name=value`, '-' and '_' alike. A value that is a
//           variable which the script assigns
//           once as a literal is changed where it is assigned. New flags are written behind one that is there already.
//   tables  TOML or YAML, a key a line; new keys are written below the last one of their table
//   json    written anew, two spaces a level: JSON has no comments to keep
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/configuration_diff.h"

namespace espalier::exchange {

/// The wanted value of each key, "on" for a switch; empty: the key goes.
struct WantedValue {
  enum class Words : std::uint8_t { one, several, none };
  std::string key, before, after;
  Words words = Words::one;  ///< flags: arguments that follow
};

struct EditedFile {
  std::string text;
  std::vector<ConfigurationEdit> edits;
};

/// New flags stand behind the first of `anchors` that the file has; without one they are edits that the text lacks. A
/// value that the shell would not read as one word is quoted, unless it stands in a quoted string.
EditedFile edit_flags(std::string_view text, const std::vector<WantedValue>& wanted,
                      const std::vector<std::string>& anchors = {});
/// `lines`: of the keys that the file has, by path.
EditedFile edit_table(std::string_view text, bool toml, const std::map<std::string, std::int64_t>& lines,
                      const std::vector<WantedValue>& wanted);
Result<EditedFile> edit_json(std::string_view text, const std::string& where, const std::vector<WantedValue>& wanted);

}  // namespace espalier::exchange
