// SPDX-License-Identifier: Apache-2.0
// A limit of what an exporter writes, as a fault with the id under which data/engine_rules.yaml explains it.
#pragma once

#include <functional>
#include <string>

#include "espalier/exchange.h"

namespace espalier::exchange {

/// `rule` is an id of the catalogue that exporters keep.
ExportFault cannot_say(const std::string& rule, const std::string& found, const std::string& expected);
/// The same of what can be left out: `instead` says what is written in its place, `change` writes it to every layer's strategy.
ExportFault can_leave_out(const std::string& rule, const std::string& found, const std::string& expected, const std::string& instead,
                          std::function<void(Strategy&)> change);

}  // namespace espalier::exchange
