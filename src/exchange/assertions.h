// SPDX-License-Identifier: Apache-2.0
// Assertions that frameworks make about their own flags and keys before they train (data/assertions.yaml): a file that
// breaks an assertion is refused with the rule's id, where the framework asserts it, and what helps. An assertion is
// `when` terms that all hold and `needs` terms of which one must hold.
//
//   overlap_grad_reduce                                 the key is there and not switched off
//   !recompute_method                                   it is absent or switched off
//   recompute_granularity = full                        its text
//   num_layers % pipeline_model_parallel_size = 0       whole numbers: keys and numbers with * / + - %, left to right
//
// A term over a key that the file does not have, and for which the format has no default, is unknown: it decides
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
  std::string says;    ///< for people: what the framework demands
  std::string source;  ///< "megatron/training/arguments.py:990"
  std::string hint;
  std::vector<std::string> when, needs;
};
struct AssertionTable {
  std::string format, version;
  std::vector<std::pair<std::string, std::string>> defaults;  ///< key, value where the file is silent
  std::vector<std::pair<std::string, std::string>> derived;   ///< name, what it is made of
  std::vector<Assertion> assertions;
};
Result<std::vector<AssertionTable>> read_assertions(std::string_view yaml, const std::string& where);
/// One of the shipped tables; empty assertions for a format that has none.
const AssertionTable& assertion_table(std::string_view format);

/// The assertions that the settings of a request break, all in one error; check_failed. Keys that the request ignores
/// are not there.
Status broken_assertions(const AssertionTable& table, const ConfigurationRequest& request, const std::vector<Setting>& settings);
/// A configuration as it was read, or what keeps it from being trained: what the reader refuses and what the framework
/// asserts, in one error.
Result<ImportedConfiguration> with_assertions(Result<ImportedConfiguration> read, const Status& broken);

}  // namespace espalier::exchange
