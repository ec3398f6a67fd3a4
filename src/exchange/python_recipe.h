// SPDX-License-Identifier: Apache-2.0
// Writes settings of a framework that is configured in Python as assignments:
// "config.parallelism.tensor_parallel_degree = 2 # why". A setting is a path of attributes and a Python literal.
// Recipes are files that people read and change, with the head of every launch script.
#pragma once

#include <string>
#include <vector>

#include "exchange/launch_script.h"

namespace espalier::exchange {

struct PythonSetting {
  std::string path;     ///< "parallelism.tensor_parallel_degree"
  std::string literal;  ///< "2", "True", "'always'", "None"
  std::string reason;   ///< a comment; empty: none
};

/// Writes "    config.parallelism.tensor_parallel_degree = 2\n" for each setting.
std::string assignments(const std::string& object, const std::vector<PythonSetting>& settings);
/// Returns a text as a Python literal.
std::string python_text(const std::string& text);
std::string python_bool(bool value);

}  // namespace espalier::exchange
