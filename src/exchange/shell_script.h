// SPDX-License-Identifier: Apache-2.0
// Reads a shell script as the words of its commands, as far as they can be determined without running it. Variables
// are followed in the order of the script. A branch whose test is decided is taken or skipped; words under an
// undecided test have ShellWord::condition. Files that the script sources are read in place of the line that sources
// them, where they are given.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/shell_values.h"
#include "exchange/shell_words.h"

namespace espalier::exchange {

struct ShellWord {
  ShellToken token;  ///< its text is expanded where the value is known
  std::string raw;   ///< as written
  bool known = true, fallback = false;
  std::int64_t assigned = 0;  ///< line of the assignment that it comes from
  std::string source = {};
  std::vector<std::string> missing = {};
};

struct ShellScript {
  std::vector<ShellWord> words;
  std::map<std::int64_t, std::vector<std::string>> conditions;  ///< line of an undecided condition -> names that would
                                                                ///< decide it
  std::map<std::string, bool> assigned;  ///< names that the script assigns -> whether it assigns flags alone
  struct Source {
    std::string path;
    std::int64_t line;
  };
  std::vector<Source> sources;  ///< files that it sources and that are not given
};

Result<ShellScript> read_shell_script(std::string_view text, const std::string& where, const ShellContext& context);

}  // namespace espalier::exchange
