// SPDX-License-Identifier: Apache-2.0
#include "espalier/search_space.h"

#include <algorithm>

namespace espalier {

bool SearchSpace::admits(const std::string& dimension, std::int64_t value) const {
  const auto contains = [&](const std::vector<std::int64_t>& values) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  if (const auto it = allow.find(dimension); it != allow.end() && !contains(it->second)) return false;
  if (const auto it = forbid.find(dimension); it != forbid.end() && contains(it->second)) return false;
  const auto limit = limits.find(dimension);
  return limit == limits.end() || value <= limit->second;
}

}  // namespace espalier
