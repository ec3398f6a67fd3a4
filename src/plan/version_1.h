// SPDX-License-Identifier: Apache-2.0
// Defines the meaning of words in plan documents of version 1 (espalier.plan/1).
#pragma once

#include "espalier/recompute_modules.h"

namespace espalier {

/// Lists the modules of `selective`: norms and activation functions.
inline constexpr RecomputeModules kModulesOfVersion1{RecomputeModule::layernorm, RecomputeModule::act};

}  // namespace espalier
