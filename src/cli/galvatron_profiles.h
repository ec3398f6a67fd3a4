// SPDX-License-Identifier: Apache-2.0
// espalier profile --galvatron FOLDER: what was measured, as the files of Galvatron's profilers
// (espalier/galvatron_profile.h). Memory is measured here, by runs of one and of two blocks, in one stage and in two,
// of the fewest and of the most samples that were asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/ranks.h"
#include "espalier/profile.h"

namespace espalier::cli {

struct GalvatronProfiles {
  std::string folder, profile;  ///< where the files go; the profile that was written
  std::vector<std::int64_t> tensor_groups, samples;
  std::vector<NamedText> collectives;
  RankOptions ranks;  ///< how runs are made; `record` is set here
};

/// Names of the files that were written.
Result<std::vector<std::string>> write_galvatron_profiles(Context& context, const JobFlags& from, const GalvatronProfiles& what,
                                                          const std::string& program);

}  // namespace espalier::cli
