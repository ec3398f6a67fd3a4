// SPDX-License-Identifier: Apache-2.0
// How commands declare their flags. CLI11, which is header-only and takes seconds to compile in every file that names
// it, stays inside flags.cpp; commands see this face only. The words are CLI11's: add_option("-o,--out", value,
// "help")->required()->type_name("DIR").
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/result.h"

namespace espalier::cli {

/// A flag with a value or a positional argument, to be described further. Belongs to its command.
class Option {
 public:
  class Impl;
  explicit Option(const Impl& impl);
  ~Option();
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;

  Option* required();
  Option* type_name(const std::string& name);               ///< what --help shows in the place of the value
  Option* one_value_each();                                 ///< of a repeatable flag: each takes one value, "--set a
                                                            ///< --set b"
  Option* range(std::int64_t first, std::int64_t last);     ///< anything else is a usage error, as with those below
  Option* positive();                                       ///< a number above 0
  Option* non_negative();                                   ///< a number, 0 or above
  Option* one_of(const std::vector<std::string>& values);   ///< one of these words
  Option* suggest(const std::vector<std::string>& values);  ///< words that completion and --help offer; others are left
                                                            ///< to the
                                                            ///< command
  Option* show_default();                                   ///< --help shows the value that the variable has now

 private:
  std::unique_ptr<Impl> impl_;
};

/// What a command takes, for what is made of it: shell completion and the manual page.
struct DescribedOption {
  std::string long_name, short_name;  ///< "--out", "-o"; both empty: a positional argument, called `value`
  std::string value;                  ///< "DIR"; empty: it takes none
  std::string help;
  bool required = false;
  std::vector<std::string> choices{};  ///< words that it takes, where they are listed
  std::string default_value{};         ///< that --help shows
  [[nodiscard]] bool positional() const { return long_name.empty() && short_name.empty(); }
};
struct DescribedCommand {
  std::string name, help;
  std::vector<DescribedOption> options;
  std::vector<DescribedCommand> commands;
};

/// A command, or a command of a command (`inspect model`). Variables that it fills must outlive it.
class Command {
 public:
  Command(const std::string& description, const std::string& name);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command* add_subcommand(const std::string& name, const std::string& description);
  void require_subcommand();  ///< one of the subcommands must be named
  Option* add_option(const std::string& names, std::string& value, const std::string& help);
  Option* add_option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option* add_option(const std::string& names, std::int32_t& value, const std::string& help);
  Option* add_option(const std::string& names, std::int64_t& value, const std::string& help);
  Option* add_option(const std::string& names, double& value, const std::string& help);
  void add_flag(const std::string& names, bool& value, const std::string& help);
  void add_flag(const std::string& names, int& times, const std::string& help);  ///< counts: -vv is 2
  /// "--simple{1%}": `value` becomes what stands behind "=", or 1% where nothing does.
  void add_flag(const std::string& names, std::string& value, const std::string& help);
  void set_version_flag(const std::string& name, const std::string& version);
  void footer(const std::string& text);              ///< the last lines of --help
  [[nodiscard]] DescribedCommand described() const;  ///< with all that was added to it and its commands
  void callback(std::function<void()> run);          ///< what the command does, once its flags are read

  /// Reads the arguments and runs the command that they name. A value: the program ends here, with this code: 0 after
  /// help or a version, which have been written to `out`; what `refuse` answers for anything that cannot be understood.
  std::optional<int> parse(int argc, const char* const* argv, std::ostream& out, const std::function<int(const Error&)>& refuse);

 private:
  class Impl;
  explicit Command(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::cli
