// SPDX-License-Identifier: Apache-2.0
// Checks the assertions that frameworks make about their own flags and keys before they train (data/assertions.yaml).
// A file that breaks an assertion is rejected. The error has the rule's id, its place in the framework, and a remedy.
// An assertion consists of `when` terms that all hold and `needs` terms of which one must hold.
//
//   overlap_grad_reduce                                 the key is present and not switched off
//   !recompute_method                                   it is absent or switched off
//   recompute_granularity = full                        its text
//   num_layers % pipeline_model_parallel_size = 0       whole numbers: keys and numbers with * / + - %, left to right.
//
// A term over a key that the file does not have, and for which the format has no default, is unknown and decides
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exchange/settings.h"

namespace espalier::exchange {

struct Assertion {
  std::string id;      ///< "MEG-OVERLAP-PARAM"
  std::string says;    ///< the framework's demand, for messages
  std::string source;  ///< "megatron/training/arguments.py:990"
  std::string hint;
  std::string adjust;  ///< key of a degree: the hint names its nearest values that break no rule with this key
  std::vector<std::string> when, needs;
};
struct AssertionTable {
  std::string format, version;
  std::vector<std::pair<std::string, std::string>> defaults;  ///< key, and its value where the file does not set it
  std::vector<std::pair<std::string, std::string>> derived;   ///< name, and its expression
  std::vector<Assertion> assertions;
};
Result<std::vector<AssertionTable>> read_assertions(std::string_view yaml, const std::string& where);
/// Returns one of the shipped tables; a format without one gets empty assertions.
const AssertionTable& assertion_table(std::string_view format);

/// Returns the assertions that the settings of a request break, all in one error (check_failed). Keys that the
/// request ignores count as absent.
Status broken_assertions(const AssertionTable& table, const ConfigurationRequest& request, const std::vector<Setting>& settings);
/// Returns a configuration as it was read, or one error with everything that keeps it from being trained: the
/// reader's faults and the broken assertions.
Result<ImportedConfiguration> with_assertions(Result<ImportedConfiguration> read, const Status& broken);

}  // namespace espalier::exchange
