// SPDX-License-Identifier: Apache-2.0
// Writes espalier.change/1: one action of a ladder, as what-if, replan and --survive write it (docs/file-formats.md).
#pragma once

#include <functional>
#include <optional>

#include "base/document.h"
#include "espalier/adapt.h"

namespace espalier::report {

/// Writes an action. `more` adds keys to the object.
void write_change(base::JsonWriter& w, const adapt::Change& change, const std::optional<std::int64_t>& if_stay_ns,
                  const std::function<void()>& more = {});
/// Writes the inputs of the answer, so that it can be checked by itself: the running plan, the disturbance of its
/// cluster, the prices of moves.
void write_asked(base::JsonWriter& w, const Plan& running, const adapt::Disturbance& what, const adapt::MoveOptions& prices);
/// Writes a number of seconds; null for infinite or none.
void write_seconds(base::JsonWriter& w, const std::optional<double>& seconds);
void write_nanoseconds(base::JsonWriter& w, const std::optional<std::int64_t>& ns);
void write_nodes(base::JsonWriter& w, const std::vector<std::int64_t>& nodes);

/// Returns the sentence of a replan whose one action is to do nothing.
inline constexpr const char* kNothingWrong = "no fault of the cluster was observed";

}  // namespace espalier::report
