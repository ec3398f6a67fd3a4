// SPDX-License-Identifier: Apache-2.0
// Reads the `search:` part of a job file, and defines how a dimension's values are written there.
//
// A value is an integer (tp: 8), the name of an enum (sp: megatron) or, for overlap_*, true or false. SearchSpace
// keeps ordinals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "espalier/job.h"
#include "plan/dimension.h"

namespace espalier::job {

/// Returns how a value of the dimension called `name` is written: "8", "megatron", "on"; plain digits for an unknown
/// name.
std::string value_name(std::string_view name, std::int64_t value);
/// Returns the value that value_name writes so; nullopt when there is none.
std::optional<std::int64_t> value_of_name(std::string_view name, std::string_view text);

/// Reads `{objective: {minimise, budget_per_step, deadline}}`; nothing where there is none. Errors go to the reader's
/// sink.
std::optional<Objective> read_objective(base::Reader& search);

/// Reads `{space, fix, allow, forbid, limits, recompute_modules}`; errors go to the reader's sink.
SearchSpace read_search_space(base::Reader& reader);
/// Makes `selective` mean the modules that the job's space names. Returns an error where its engine cannot recompute
/// them, or the model has none of them. Also returns one where the space asks for sets of modules and the engine has
/// one policy.
Status mean_modules(Job& job);

}  // namespace espalier::job
