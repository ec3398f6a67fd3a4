// SPDX-License-Identifier: Apache-2.0
// Writes and reads the `search` block of a result: the question, the certificate, and the work of each phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "espalier/search_summary.h"

namespace espalier::report {

/// Names the version of a result document. Version 1 counts the work of some phases in blocks of their own
/// (search_v1.h).
enum class ResultVersion : std::uint8_t { one, two };
/// Returns the version of "espalier.result/2" or "espalier.result/1"; nullopt for another document.
std::optional<ResultVersion> result_version_of(std::string_view schema);

/// Writes the block in version 2.
void write_search(base::JsonWriter& w, const SearchSummary& s);
/// Reads the block. `iteration_ns` is the time of the answer, which version 1 does not repeat.
SearchSummary read_search(base::Reader r, ResultVersion version, std::int64_t iteration_ns);

/// Reads partitions of layers over stages, under the key `balance`.
std::vector<StageBalance> read_balance(base::Reader& r);
/// Reads a list of strings.
std::vector<std::string> read_sentences(base::Reader& r, std::string_view key);

}  // namespace espalier::report
