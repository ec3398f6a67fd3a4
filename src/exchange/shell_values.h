// SPDX-License-Identifier: Apache-2.0
// Holds the variables of a shell script, as far as the script, its #SBATCH lines, the cluster and the user's --arg
// determine them. Expands $NAME, ${NAME}, ${NAME:-default}, ${NAME:=default}, $1 and $(( … )). Nothing is executed:
// the value of `$( … )` is unknown, except for the idioms that count the devices of a node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::exchange {

struct ShellFile {
  std::string name, text;
};

/// Holds values from outside the script.
struct ShellContext {
  std::map<std::string, std::string> variables;  ///< --arg NAME=VALUE; "1" is the first positional parameter
  std::vector<ShellFile> files;                  ///< --with FILE
  std::int64_t nodes = 0, devices_per_node = 0;  ///< from the cluster; 0: unknown
};

struct ShellValue {
  std::string text;  ///< expanded where it is known, else as written
  bool known = true;
  bool fallback = false;                  ///< a default of the script: the environment may override it
  std::int64_t line = 0;                  ///< line of the assignment; 0: outside the script
  std::string source = {};                ///< source of a value from outside the script: "given by --arg"
  std::vector<std::string> missing = {};  ///< names that would make it known
};

class ShellVariables {
 public:
  ShellVariables(const ShellContext& context, std::string_view script);

  /// Assigns a value. A value given by --arg stays.
  void assign(const std::string& name, ShellValue value);
  [[nodiscard]] const ShellValue* find(const std::string& name) const;
  [[nodiscard]] ShellValue expand(std::string_view text, int depth = 0) const;

 private:
  void slurm(std::string_view script, const ShellContext& context);
  [[nodiscard]] ShellValue parameter(std::string_view text, int depth) const;
  [[nodiscard]] ShellValue arithmetic(std::string_view expression, int depth) const;
  [[nodiscard]] ShellValue command(std::string_view text, int depth) const;

  ShellContext context_;
  std::map<std::string, ShellValue> values_;
};

/// Returns "NAME" for "$NAME", "${NAME}" and "${NAME:-…}"; empty for another text.
std::string variable_in(std::string_view text);

}  // namespace espalier::exchange
