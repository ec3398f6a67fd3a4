// SPDX-License-Identifier: Apache-2.0
// Gives importers access to a request: its files by role and its options by name. It also checks that it holds no
// others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "espalier/exchange.h"

namespace espalier::exchange {

/// Returns the first fault against the row of the format: no job, a missing required file, an unknown role or option.
Status refused(const Importer& format, const ImportRequest& request);
/// Returns the file; nullptr where the request has none of this role.
const ImportFile* file_of(const ImportRequest& request, std::string_view role);
/// Returns the file of a role that the format requires, after refused() has accepted the request.
const ImportFile& required_file(const ImportRequest& request, std::string_view role);
/// Returns the request's value, or the format's default. It must only be called for options of the format's row.
std::string option_of(const Importer& format, const ImportRequest& request, const std::string& name);
/// Returns the value of an option as a number from 0 to 2³¹ − 1.
Result<std::int64_t> count_of(const Importer& format, const ImportRequest& request, const std::string& name);
/// Names the job's engine in the plan and embeds the job's inputs.
Status embed_job(const Job& job, Plan& plan);

}  // namespace espalier::exchange
