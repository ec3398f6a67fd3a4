// SPDX-License-Identifier: Apache-2.0
// Reads a written answer of what-if, replan or --survive for checking (espalier.what-if/1, espalier.change/1,
// espalier.survival/1): its claims and the inputs that they hold for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/move_check.h"
#include "espalier/adapt.h"
#include "espalier/findings.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::report {

/// Holds one action. Absent times are null in the document.
struct ClaimedChange {
  adapt::ActionKind action = adapt::ActionKind::stay;
  bool possible = false, upper_bound = false;
  std::string what;
  std::optional<std::int64_t> iteration_ns, pause_ns, gain_ns, break_even_ns, if_stay_ns;
  check::MoveClaims move;
  std::vector<std::int64_t> nodes;
  std::optional<Plan> plan;  ///< the new plan, or the one that it was priced as
  bool priced_as = false;    ///< `plan` is the latter
};

/// Holds losses with the same effect on the plan.
struct ClaimedClass {
  std::vector<std::int64_t> nodes;
  std::int64_t losses = 0;
  ClaimedChange change;
};

struct ClaimedAnswer {
  std::string schema;  ///< "espalier.what-if/1", …
  std::string plan;    ///< content hash of the running plan, where the document has one
  Plan running;
  adapt::Disturbance happened;
  adapt::MoveOptions prices;
  std::optional<std::int64_t> before_ns, if_stay_ns;
  std::optional<double> horizon_s;  ///< none: for good
  std::string recommended;
  /// A what-if has the actions in the order of the document. A change has itself first, then the others.
  std::vector<ClaimedChange> changes;
  std::int64_t most = 0, losses = 0, covered = 0;
  std::vector<ClaimedClass> classes;
  std::optional<adapt::Disturbance> observed;  ///< observation of a replan
  std::optional<MadeBy> made_by;               ///< none: the document is older than digests
  std::optional<Finding> digest;               ///< none: it has neither digest nor made_by
  std::vector<std::string> not_verified;       ///< keys that only a digest would protect
};

/// Returns whether the text is one of these documents, whatever else may be wrong with it.
bool is_change_document(std::string_view text);
Result<ClaimedAnswer> read_claims(std::string_view text, const std::string& where);

}  // namespace espalier::report
