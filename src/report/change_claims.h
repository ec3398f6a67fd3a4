// SPDX-License-Identifier: Apache-2.0
// An answer of what-if, replan or --survive as it is written (espalier.what-if/1, espalier.change/1,
// espalier.survival/1), read to be checked: what it says, and the inputs that it says it for.
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

/// One action; absent times are null in the document.
struct ClaimedChange {
  ActionKind action = ActionKind::stay;
  bool possible = false, upper_bound = false;
  std::string what;
  std::optional<std::int64_t> iteration_ns, pause_ns, gain_ns, break_even_ns, if_stay_ns;
  check::MoveClaims move;
  std::vector<std::int64_t> nodes;
  std::optional<Plan> plan;  ///< or the one that it was priced as
  bool priced_as = false;    ///< the latter
};

/// Losses that the plan sees alike.
struct ClaimedClass {
  std::vector<std::int64_t> nodes;
  std::int64_t losses = 0;
  ClaimedChange change;
};

struct ClaimedAnswer {
  std::string schema;  ///< "espalier.what-if/1", …
  std::string plan;    ///< content hash of the running plan, where the document has one
  Plan running;
  Disturbance happened;
  MoveOptions prices;
  std::optional<std::int64_t> before_ns, if_stay_ns;
  std::optional<double> horizon_s;  ///< none: for good
  std::string recommended;
  std::vector<ClaimedChange> changes;  ///< of a what-if in the order of the document; of a change: itself, then the
                                       ///< others
  std::int64_t most = 0, losses = 0, covered = 0;
  std::vector<ClaimedClass> classes;
  std::optional<Disturbance> observed;    ///< of replan: what it read off
  std::optional<MadeBy> made_by;          ///< none: the document was written before digests were
  std::optional<Finding> digest;          ///< none: it has neither digest nor made_by
  std::vector<std::string> not_verified;  ///< what only a digest would tie down
};

/// Whether the text is one of these documents, whatever else may be wrong with it.
bool is_change_document(std::string_view text);
Result<ClaimedAnswer> read_claims(std::string_view text, const std::string& where);

}  // namespace espalier::report
