// SPDX-License-Identifier: Apache-2.0
// What importers ask of a request: its files by role and its options by name, and that it holds no others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "espalier/exchange.h"

namespace espalier::exchange {

/// The first offence against the row of the format: no job, a required file that is missing, an unknown role or option.
Status refused(const Importer& format, const ImportRequest& request);
/// nullptr: the request has no such file.
const ImportFile* file_of(const ImportRequest& request, std::string_view role);
/// The same of a role that the format requires, after refused() found it there.
const ImportFile& required_file(const ImportRequest& request, std::string_view role);
/// What the request says, or the format's own value. Asked for options of the format's row alone.
std::string option_of(const Importer& format, const ImportRequest& request, const std::string& name);
/// The same as a number from 0 to 2³¹ − 1.
Result<std::int64_t> count_of(const Importer& format, const ImportRequest& request, const std::string& name);
/// Names the job's engine in the plan and embeds the job's inputs.
Status embed_job(const Job& job, Plan& plan);

}  // namespace espalier::exchange
