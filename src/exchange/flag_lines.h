// SPDX-License-Identifier: Apache-2.0
// Reads flags from a plain list or from a launch script: `--name value`, `--name=value`, arrays `ARGS=( --a 1 --b )`,
// line continuations, quotes and comments. The script is followed as far as possible without running it
// (exchange/shell_script.h). A value that stays unknown keeps its `$NAME`, and Setting::missing lists the names that
// would make it known.
//
// A value ends at the next flag, or at the end of its line unless the line continues or is inside parentheses. It
// also ends at words that are not values: the program (`pretrain.py`), an array (`${ARGS[@]}`), a redirection.
//
// Flags under an undecided condition have its line in Setting::condition. Words of a test and patterns of a case are
// not flags. Overrides of Hydra, `trainer.n_gpus_per_node=8` and `+key=value`, are settings where the format has
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exchange/settings.h"
#include "exchange/shell_script.h"

namespace espalier::exchange {

struct FlagLines {
  std::vector<Setting> flags;                     ///< without dashes, '-' as '_'; one without a value has "True"
  std::vector<ImportedKey> variables;             ///< variables that were looked up, and those never assigned
  std::vector<ShellScript::Source> sources = {};  ///< files that the script sources and that are not given
};
/// Returns the shell context of a request.
ShellContext shell_context(const ConfigurationRequest& request);
/// Reads the flags. Fails (bad_input) without any flag, for a flag with two values, too many flags, and an
/// unterminated quote.
Result<FlagLines> read_flag_lines(std::string_view text, const std::string& where, const ShellContext& context = {});

}  // namespace espalier::exchange
