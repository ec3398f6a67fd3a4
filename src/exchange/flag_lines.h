// SPDX-License-Identifier: Apache-2.0
// Flags out of a plain list of them or out of a launch script: `--name value`, `--name=value`, arrays `ARGS=( --a 1 --b )`, line continuations,
// quotes and comments. Shell is not evaluated. One thing only is looked up: a value that is `$NAME` or `${NAME}` where the script assigns NAME one
// literal; it is listed. `${NAME:-2}`, there or in place of the value, is 2, and listed as the script's default. Anything else with a `$` stays as it is,
// and fails where a number is needed.
//
// A value ends at the next flag, at the end of its line (unless the line goes on, or stands inside parentheses), and at what is no value: the
// program (`pretrain.py`), an array (`${ARGS[@]}`), a redirection.
//
// Whether a condition holds is not known: flags inside if … fi and case … esac, behind ||, behind && after a test, and behind && in a variable
// have Setting::condition, the line of the condition. Words of a test and patterns of a case are no flags.
//
// `$NAME` behind other values of a flag ends them: where NAME holds flags they are read where they are assigned; where it is assigned nowhere, it
// is listed as not understood.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exchange/settings.h"

namespace espalier::exchange {

struct FlagLines {
  std::vector<Setting> flags;          ///< without dashes, '-' as '_'; one without a value has "True"
  std::vector<ImportedKey> variables;  ///< that were looked up, and those that nothing assigns
};
/// bad_input: no flag at all, a flag twice with two values, too many of them, or a quote that does not end.
Result<FlagLines> read_flag_lines(std::string_view text, const std::string& where);

}  // namespace espalier::exchange
