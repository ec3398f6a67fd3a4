// SPDX-License-Identifier: Apache-2.0
// Which build a result was made by: cmake/modules.cmake defines both.
#include "espalier/planner.h"

namespace espalier {

const MadeBy& this_build() {
  static const MadeBy build{ESPALIER_VERSION, ESPALIER_SHIPPED_FIGURES};
  return build;
}

}  // namespace espalier
