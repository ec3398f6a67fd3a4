// SPDX-License-Identifier: Apache-2.0
// Reads Megatron-LM's arguments as a configuration. They come from the block that it prints before it trains (also
// inside a log, with the prefixes of launchers), a list of flags, or a launch script. Names, defaults and derived
// values are those of Megatron-LM core 0.20 (d98e8a64), megatron/training/arguments.py.
#pragma once

#include "exchange/settings.h"

namespace espalier::exchange {

ConfigurationFormat megatron_arguments();

/// Holds a config.json of the model that the arguments describe. It is empty, with the reason, where they describe a
/// model of another kind or leave a size open.
struct MegatronModel {
  std::string config, why_not;
  std::vector<std::pair<std::string, std::int64_t>> sizes;
};
/// Takes all settings that describe the model.
MegatronModel megatron_model(SettingReader& reader, std::int64_t layers);

/// Holds the blocks of each chunk from a layout such as "Et*3|(tt|)*29,m|L". A text that is not a layout gives an
/// error sentence instead.
struct MegatronLayout {
  std::vector<std::int32_t> blocks;
  std::string fault;
};
MegatronLayout read_megatron_layout(std::string_view text);

}  // namespace espalier::exchange
