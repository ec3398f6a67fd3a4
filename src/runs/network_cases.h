// SPDX-License-Identifier: Apache-2.0
// Reads the file of rates between places that records of mixed runs name as `network.matrix` (docs/file-formats.md,
// "Measured runs").
//
//     {cases: {KEY: {regions:   [NAME of each device's place],
//                    within:    {gbps, delay_ms},
//                    across:    {gbps, delay_ms} or {"A-B": [delay_ms, gbps]},
//                    note}},
//      random_rank_map: {SEED: [place of each rank]}}.
//
// KEY is the record's case + 1. Unknown keys are ignored. The note "order of instances 1 1 1 1 4 repeated 8 times"
// gives the sizes of nodes in the order of ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"

namespace espalier::runs {

struct LinkRate {
  double gbps = 0, delay_ms = 0;
};

struct NetworkCase {
  std::vector<std::string> regions;  ///< region of each device; empty: one place
  LinkRate within, across;           ///< across: for pairs that are not named
  std::map<std::pair<std::string, std::string>, LinkRate> pairs;
  std::vector<std::int64_t> node_sizes;                            ///< in the order of ranks; empty: not given
  std::map<std::int64_t, std::vector<std::int64_t>> random_ranks;  ///< by seed
  /// Returns the rate of a pair in either direction.
  [[nodiscard]] LinkRate between(const std::string& a, const std::string& b) const;
};

Result<NetworkCase> read_network_case(std::string_view text, const std::string& where, std::int64_t number);
Result<NetworkCase> read_network_case_file(const std::string& path, std::int64_t number);

}  // namespace espalier::runs
