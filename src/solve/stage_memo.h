// SPDX-License-Identifier: Apache-2.0
// Caches the results of a stage oracle, each computed once. An interval that contains one that did not fit does not
// fit either and is not evaluated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "solve/stage_balance.h"

namespace espalier::solve {

/// Converts a stage or a layer to an index.
inline std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

class StageMemo {
 public:
  /// The oracle must outlive the memo.
  StageMemo(std::int32_t stages, std::int32_t layers, const StageOracle& oracle);
  /// Returns the value; null: does not fit. The pointer is valid as long as the memo.
  const StageValue* ask(std::int32_t stage, std::int32_t first, std::int32_t end);
  /// Returns whether `ask` would return without a call.
  [[nodiscard]] bool known(std::int32_t stage, std::int32_t first, std::int32_t end) const;

 private:
  enum class State : std::uint8_t { unknown, fits, fails };
  struct Entry {
    StageValue value;
    State state = State::unknown;
  };
  [[nodiscard]] std::size_t row(std::int32_t stage, std::int32_t first) const;

  std::int32_t layers_;
  const StageOracle& oracle_;
  std::vector<std::vector<Entry>> rows_;  ///< [stage, first][end − first − 1], allocated on first use
  /// [stage, first] least end of an interval that starts there or later and failed.
  std::vector<std::int32_t> fails_from_;
};

}  // namespace espalier::solve
