// SPDX-License-Identifier: Apache-2.0
// Reads TOML 1.0 into the tree of JSON and YAML (base/document.h), with the same limits and places. Members of a
// table are in the order of their names; dates and times are strings.
#pragma once

#include <string>
#include <string_view>

#include "base/document.h"

namespace espalier::base {

Result<Document> read_toml(std::string_view text, const std::string& where, const Limits& limits = {});

}  // namespace espalier::base
