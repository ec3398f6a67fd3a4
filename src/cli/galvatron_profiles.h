// SPDX-License-Identifier: Apache-2.0
// Implements espalier profile --galvatron FOLDER, which writes measurements as the files of Galvatron's profilers
// (espalier/galvatron_profile.h). It measures memory by runs of one and of two blocks, in one stage and in two, with
// the fewest and the most requested samples.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/ranks.h"
#include "espalier/profile.h"

namespace espalier::cli {

struct GalvatronProfiles {
  std::string folder, profile;  ///< folder of the files; the written profile
  std::vector<std::int64_t> tensor_groups, samples;
  std::vector<NamedText> collectives;
  RankOptions ranks;  ///< how runs are made; `record` is set here
};

/// Returns the names of the written files.
Result<std::vector<std::string>> write_galvatron_profiles(Context& context, const JobFlags& from, const GalvatronProfiles& what,
                                                          const std::string& program);

}  // namespace espalier::cli
