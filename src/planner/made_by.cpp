// SPDX-License-Identifier: Apache-2.0
// Returns the build that made a result: cmake/modules.cmake defines both macros.
#include "espalier/planner.h"

namespace espalier {

const MadeBy& this_build() {
  static const MadeBy build{ESPALIER_VERSION, ESPALIER_SHIPPED_FIGURES};
  return build;
}

}  // namespace espalier
