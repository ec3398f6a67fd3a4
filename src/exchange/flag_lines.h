// SPDX-License-Identifier: Apache-2.0
// Flags out of a plain list of them or out of a launch script: `--name value`, `--name=value`, arrays `ARGS=( --a 1 --b
// )`, line continuations, quotes and comments. The script is followed as far as it can be without running it
// (exchange/shell_script.h); a value that stays unknown keeps its `$NAME`, with the names that would make it known in
// Setting::missing.
//
// A value ends at the next flag, at the end of its line (unless the line goes on, or stands inside parentheses), and at
// what is no value: the program (`pretrain.py`), an array (`${ARGS[@]}`), a redirection.
//
// Flags under a condition that is not decided have Setting::condition, the line of the condition. Words of a test and
// patterns of a case are no flags. Overrides of Hydra, `trainer.n_gpus_per_node=8` and `+key=value`, are settings where
// the format has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exchange/settings.h"
#include "exchange/shell_script.h"

namespace espalier::exchange {

struct FlagLines {
  std::vector<Setting> flags;                     ///< without dashes, '-' as '_'; one without a value has "True"
  std::vector<ImportedKey> variables;             ///< that were looked up, and those that nothing assigns
  std::vector<ShellScript::Source> sources = {};  ///< files that the script sources and that are not given
};
/// Shell context of a request.
ShellContext shell_context(const ConfigurationRequest& request);
/// bad_input: no flag at all, a flag twice with two values, too many of them, or a quote that does not end.
Result<FlagLines> read_flag_lines(std::string_view text, const std::string& where, const ShellContext& context = {});

}  // namespace espalier::exchange
