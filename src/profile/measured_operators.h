// SPDX-License-Identifier: Apache-2.0
// Holds times of operators as measured on a machine (`espalier profile`), without collectives and with launches.
//
// Between two measured counts of tokens, a time is interpolated linearly. Beyond them it follows the line through the
// two nearest. Below the first count it is at least proportional, and it is never negative. A shape that was not
// measured has no time, so that nothing is priced from guesses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/document.h"
#include "profile/operator_shape.h"

namespace espalier::profile {

/// Holds the seconds of one operator for one micro-batch.
struct OperatorTime {
  double forward = 0;
  double input = 0;   ///< gradient of its input
  double weight = 0;  ///< gradient of its parameters
  bool operator==(const OperatorTime&) const = default;
};

/// Holds a row of a record or a profile.
struct MeasuredTime {
  OperatorWork work;
  OperatorTime time;
};

class MeasuredOperators {
 public:
  /// Adds a row with `row.work.tokens` ≥ 1. A second row of the same work replaces the first.
  void add(const MeasuredTime& row);
  /// Returns whether the shape was measured at two counts of tokens or more. An operator without work (dropout, which
  /// no runtime of ours applies) always counts as measured.
  [[nodiscard]] bool covers(const MeasuredShape& shape) const;
  /// Returns the time of a covered shape; tokens may be a fraction of a sample's.
  [[nodiscard]] OperatorTime at(const MeasuredShape& shape, double tokens) const;
  /// Returns the least seconds per token, at any count of them, of all three parts together. No split of a batch
  /// makes a covered shape cheaper.
  [[nodiscard]] double least_per_token(const MeasuredShape& shape) const;
  /// Returns all rows, ordered by shape and tokens.
  [[nodiscard]] std::vector<MeasuredTime> rows() const;

  /// The optimizer reads and writes this many bytes of states per second; 0 means not measured.
  double update_bytes_per_s = 0;

 private:
  std::map<MeasuredShape, std::map<std::int64_t, OperatorTime>> tables_;
};

/// Returns the first operator of the model that `measured` does not cover under the strategy; nothing where all are
/// covered.
std::optional<MeasuredShape> not_covered(const MeasuredOperators& measured, const Model& model, const Strategy& strategy,
                                         std::int64_t sequence);

/// Writes a row as a mapping of a document: {kind, in, out | heads, …, tokens, forward_s, input_s, weight_s}.
void write_row(base::JsonWriter& json, const MeasuredTime& row);
/// Reads a row. Errors go to the reader's sink.
MeasuredTime read_row(base::Reader& reader);

}  // namespace espalier::profile
