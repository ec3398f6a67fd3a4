// SPDX-License-Identifier: Apache-2.0
// espalier.change/1: one action of a ladder, as what-if, replan and --survive write it (docs/file-formats.md).
#pragma once

#include <functional>
#include <optional>

#include "base/document.h"
#include "espalier/adapt.h"

namespace espalier::report {

/// `more`: further keys of the object.
void write_change(base::JsonWriter& w, const Change& change, const std::optional<std::int64_t>& if_stay_ns,
                  const std::function<void()>& more = {});
/// What the answer is for, so that it can be checked by itself: the running plan, what happened to its cluster, what
/// moves are priced with.
void write_asked(base::JsonWriter& w, const Plan& running, const Disturbance& what, const MoveOptions& prices);
/// A number of seconds; infinite or none: null.
void write_seconds(base::JsonWriter& w, const std::optional<double>& seconds);
void write_nanoseconds(base::JsonWriter& w, const std::optional<std::int64_t>& ns);
void write_nodes(base::JsonWriter& w, const std::vector<std::int64_t>& nodes);

/// Sentence of the one action of a replan that has nothing to do.
inline constexpr const char* kNothingWrong = "nothing that was seen is wrong with the cluster";

}  // namespace espalier::report
