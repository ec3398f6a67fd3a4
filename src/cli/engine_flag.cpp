// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_flag.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "plan/engine.h"

namespace espalier::cli {
namespace {

/// Lists the options of all engines.
std::string options_of_engines() {
  std::vector<std::string> options;
  for (const EngineModel& engine : engine_catalogue())
    for (const EngineOption& option : engine.options)
      if (const std::string word =
              base::cat(option.name, option.sets.empty() ? "" : "=NUMBER", option.numerics ? " (numerics)" : "");
          std::find(options.begin(), options.end(), word) == options.end())
        options.push_back(word);
  return base::joined(options);
}

}  // namespace

void add_engine_flag(Command& command, std::string& engine, const std::string& purpose) {
  command.add_option("--engine", engine, base::cat(purpose, ". NAME+OPTION enables a mode: ", options_of_engines()))
      ->type_name("NAME");
}

std::string engines_help() {
  std::string out = "engines:";
  for (const std::string& name : engine_names()) out.append(" ").append(name);
  return out;
}

Status take_engine(const std::string& engine, JobFlags& flags) {
  if (engine.empty()) return {};
  const std::vector<std::string> known = engine_names();
  if (std::find(known.begin(), known.end(), base_engine(engine)) == known.end())
    return Error{ErrorKind::usage, "--engine", base::cat("\"", engine, "\""), base::cat("one of ", base::joined(known)),
                 engine_suggestion(engine)};
  flags.overrides.push_back("engine=" + engine);
  return {};
}

}  // namespace espalier::cli
