// SPDX-License-Identifier: Apache-2.0
// Declares how commands define their flags. CLI11 is header-only and takes seconds to compile in every file that
// includes it. It stays inside flags.cpp; commands use only this interface. The names are CLI11's:
// add_option("-o,--out", value, "help")->required()->type_name("DIR").
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

/// Describes a flag with a value or a positional argument. It belongs to its command.
class Option {
 public:
  class Impl;
  explicit Option(const Impl& impl);
  ~Option();
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;

  Option* required();
  Option* type_name(const std::string& name);              ///< shown by --help in place of the value
  Option* one_value_each();                                ///< a repeatable flag takes one value each time: "--set a --set b"
  Option* range(std::int64_t first, std::int64_t last);    ///< any other value is a usage error, as with those below
  Option* positive();                                      ///< a number above 0
  Option* non_negative();                                  ///< a number, 0 or above
  Option* one_of(const std::vector<std::string>& values);  ///< one of these words
  /// Sets words for completion and --help; the command handles others.
  Option* suggest(const std::vector<std::string>& values);
  Option* show_default();  ///< --help shows the variable's present value

 private:
  std::unique_ptr<Impl> impl_;
};

/// Describes the flags of a command, for shell completion and the manual page.
struct DescribedOption {
  std::string long_name, short_name;  ///< "--out", "-o"; both empty: a positional argument, called `value`
  std::string value;                  ///< "DIR"; empty: it takes none
  std::string help;
  bool required = false;
  std::vector<std::string> choices{};  ///< words that it takes, where they are listed
  std::string default_value{};         ///< shown by --help
  [[nodiscard]] bool positional() const { return long_name.empty() && short_name.empty(); }
};
struct DescribedCommand {
  std::string name, help;
  std::vector<DescribedOption> options;
  std::vector<DescribedCommand> commands;
};

/// Represents a command, or a command of a command (`inspect model`). Variables that it fills must outlive it.
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
  Option* add_option(const std::string& names, std::optional<std::int32_t>& value, const std::string& help);
  Option* add_option(const std::string& names, std::optional<std::int64_t>& value, const std::string& help);
  Option* add_option(const std::string& names, std::optional<double>& value, const std::string& help);
  void add_flag(const std::string& names, bool& value, const std::string& help);
  void add_flag(const std::string& names, int& times, const std::string& help);  ///< counts: -vv is 2
  /// Adds a flag with an optional value: for "--simple{1%}", `value` becomes the text after "=", or 1% without it.
  void add_flag(const std::string& names, std::string& value, const std::string& help);
  void set_version_flag(const std::string& name, const std::string& version);
  void footer(const std::string& text);              ///< the last lines of --help
  [[nodiscard]] DescribedCommand described() const;  ///< with everything added to it and its commands
  void callback(std::function<void()> run);          ///< run by the command, once its flags are read

  /// Reads the arguments and runs the command that they name. A returned value means that the program ends here, with
  /// this code. It is 0 after help or a version, which have been written to `out`. For anything that cannot be
  /// understood, it is the code that `refuse` returns.
  std::optional<int> parse(int argc, const char* const* argv, std::ostream& out, const std::function<int(const Error&)>& refuse);

 private:
  class Impl;
  explicit Command(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::cli
