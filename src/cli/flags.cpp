// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/help.h"
#include "cli/usage.h"

namespace espalier::cli {
namespace {

/// Returns whether a text is a finite number that is above 0 or, with `or_zero`, at least 0.
bool above_zero(const std::string& text, bool or_zero) {
  double value = 0;
  return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && (value > 0 || (or_zero && value == 0));
}
std::string refused(const std::string& text, const char* what) { return "Value " + text + kNoNumber + what; }

}  // namespace

// ---- one option ---------------------------------------------------------------------------------------------------

using Choices = std::map<const CLI::Option*, std::vector<std::string>>;

class Option::Impl {
 public:
  CLI::Option* option;
  Choices* choices;  ///< choices of all options of the program
};

Option::Option(const Impl& impl) : impl_(std::make_unique<Impl>(impl)) {}
Option::~Option() = default;

Option* Option::required() {
  impl_->option->required();
  return this;
}

Option* Option::type_name(const std::string& name) {
  impl_->option->type_name(name);
  return this;
}

Option* Option::one_value_each() {
  impl_->option->allow_extra_args(false);
  return this;
}

Option* Option::range(std::int64_t first, std::int64_t last) {
  impl_->option->check(CLI::Range(first, last).description(""));
  return this;
}

Option* Option::positive() {
  impl_->option->check([](const std::string& text) { return above_zero(text, false) ? std::string() : refused(text, "above 0"); },
                       "", "POSITIVE");
  return this;
}

Option* Option::non_negative() {
  impl_->option->check(
      [](const std::string& text) { return above_zero(text, true) ? std::string() : refused(text, "0 or above"); }, "",
      "NONNEGATIVE");
  return this;
}

Option* Option::one_of(const std::vector<std::string>& values) {
  impl_->option->check(CLI::IsMember(values).description(""));
  return suggest(values);
}

Option* Option::suggest(const std::vector<std::string>& values) {
  (*impl_->choices)[impl_->option] = values;
  return this;
}

Option* Option::show_default() {
  impl_->option->capture_default_str();
  return this;
}

// ---- one command --------------------------------------------------------------------------------------------------

class Command::Impl {
 public:
  Impl(CLI::App& of, std::shared_ptr<Choices> shared) : app(&of), choices(std::move(shared)) {}
  Impl(const std::string& description, const std::string& name)
      : own(std::make_unique<CLI::App>(description, name)), app(own.get()), choices(std::make_shared<Choices>()) {}

  template <class T>
  Option* option(const std::string& names, T& value, const std::string& help) {
    return &options.emplace_back(Option::Impl{app->add_option(names, value, help), choices.get()});
  }

  std::unique_ptr<CLI::App> own;  ///< set for the outermost command; CLI11 owns the others
  CLI::App* app;
  std::shared_ptr<Choices> choices;
  std::deque<Option> options;
  std::vector<std::unique_ptr<Command>> commands;
};

Command::Command(const std::string& description, const std::string& name) : impl_(std::make_unique<Impl>(description, name)) {}
Command::Command(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Command::~Command() = default;

Command* Command::add_subcommand(const std::string& name, const std::string& description) {
  auto impl = std::make_unique<Impl>(*impl_->app->add_subcommand(name, description), impl_->choices);
  return impl_->commands.emplace_back(new Command(std::move(impl))).get();
}

void Command::require_subcommand() { impl_->app->require_subcommand(1); }

Option* Command::add_option(const std::string& names, std::string& value, const std::string& help) {
  return impl_->option(names, value, help);
}

Option* Command::add_option(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  return impl_->option(names, values, help);
}

Option* Command::add_option(const std::string& names, std::int32_t& value, const std::string& help) {
  return impl_->option(names, value, help);
}

Option* Command::add_option(const std::string& names, std::int64_t& value, const std::string& help) {
  return impl_->option(names, value, help);
}

Option* Command::add_option(const std::string& names, double& value, const std::string& help) {
  return impl_->option(names, value, help);
}

Option* Command::add_option(const std::string& names, std::optional<std::int32_t>& value, const std::string& help) {
  return impl_->option(names, value, help);
}

Option* Command::add_option(const std::string& names, std::optional<std::int64_t>& value, const std::string& help) {
  return impl_->option(names, value, help);
}

Option* Command::add_option(const std::string& names, std::optional<double>& value, const std::string& help) {
  return impl_->option(names, value, help);
}

void Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  impl_->app->add_flag(names, value, help);
}

void Command::add_flag(const std::string& names, int& times, const std::string& help) {
  impl_->app->add_flag(names, times, help);
}

void Command::add_flag(const std::string& names, std::string& value, const std::string& help) {
  impl_->app->add_flag(names, value, help);
}

void Command::set_version_flag(const std::string& name, const std::string& version) {
  impl_->app->set_version_flag(name, version);
}

void Command::footer(const std::string& text) { impl_->app->footer(text); }

namespace {

/// Converts CLI11's words for kinds of values to readable ones.
std::string readable(const std::string& type) {
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "NUMBER";
  return type == "TEXT" ? "WORD" : type;
}

DescribedOption described_option(const CLI::Option& option, const Choices& choices) {
  DescribedOption out;
  if (!option.get_lnames().empty()) out.long_name = "--" + option.get_lnames().front();
  if (!option.get_snames().empty()) out.short_name = "-" + option.get_snames().front();
  if (option.get_positional())
    out.value = option.get_type_name().empty() ? option.get_name(true) : option.get_type_name();
  else if (option.get_items_expected_max() > 0)
    out.value = option.get_type_name().empty() ? "VALUE" : readable(option.get_type_name());
  out.help = option.get_description();
  out.required = option.get_required();
  out.default_value = option.get_default_str();
  if (const auto at = choices.find(&option); at != choices.end()) out.choices = at->second;
  return out;
}

DescribedCommand described_app(const CLI::App& app, const Choices& choices) {
  DescribedCommand out{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) out.options.push_back(described_option(*option, choices));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    out.commands.push_back(described_app(*command, choices));
  return out;
}

/// Returns "espalier inspect model".
std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : path_of(*app.get_parent()) + " " + app.get_name();
}

/// Returns the width that the environment states, else that of a classic terminal.
std::size_t help_width() {
  const char* stated = std::getenv("COLUMNS");
  const int columns = stated == nullptr ? 0 : std::atoi(stated);
  return columns >= 40 && columns <= 400 ? static_cast<std::size_t>(columns) : 80;
}

}  // namespace

DescribedCommand Command::described() const { return described_app(*impl_->app, *impl_->choices); }

void Command::callback(std::function<void()> run) { impl_->app->callback(std::move(run)); }

std::optional<int> Command::parse(int argc, const char* const* argv, std::ostream& out,
                                  const std::function<int(const Error&)>& refuse) {
  try {
    impl_->app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Requests for help and the version are "errors" with code 0; everything else is a usage error, whatever CLI11's
    // own code.
    if (error.get_exit_code() != 0) return refuse(usage_error(*impl_->app, error, {argv + std::min(argc, 1), argv + argc}));
    if (error.get_name() != "CallForHelp") return impl_->app->exit(error, out, out);
    const CLI::App* asked = impl_->app;
    while (!asked->get_subcommands().empty()) asked = asked->get_subcommands().back();
    out << help_text(described_app(*asked, *impl_->choices), path_of(*asked), asked->get_footer(), help_width());
    return 0;
  }
  return std::nullopt;
}

}  // namespace espalier::cli
