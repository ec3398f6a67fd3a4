// SPDX-License-Identifier: Apache-2.0
// Declares EngineModel, for headers that only pass it on; plan/engine.h defines it.
#pragma once

namespace espalier {

struct EngineModel;

}  // namespace espalier
