// SPDX-License-Identifier: Apache-2.0
// Times of operators as a machine was measured to take them (`espalier profile`): without collectives, launches
// included.
//
// Between two measured counts of tokens a time is interpolated linearly; beyond them it follows the line through the
// two nearest, below the first count no less than in proportion to it, and is never less than nothing. A shape that was
// not measured has no time: what needs it is not priced from guesses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/document.h"
#include "profile/operator_shape.h"

namespace espalier::profile {

/// Seconds of one operator for one micro-batch.
struct OperatorTime {
  double forward = 0;
  double input = 0;   ///< gradient of its input
  double weight = 0;  ///< gradient of its parameters
  bool operator==(const OperatorTime&) const = default;
};

/// A row of a record or a profile.
struct MeasuredTime {
  OperatorWork work;
  OperatorTime time;
};

class MeasuredOperators {
 public:
  /// `row.work.tokens` ≥ 1; a second row of the same work replaces the first.
  void add(const MeasuredTime& row);
  /// Whether the shape was measured at two counts of tokens or more. What does nothing (dropout, which no runtime of
  /// ours applies) is measured always.
  [[nodiscard]] bool covers(const MeasuredShape& shape) const;
  /// Of a covered shape; tokens may be a fraction of a sample's.
  [[nodiscard]] OperatorTime at(const MeasuredShape& shape, double tokens) const;
  /// The least seconds a token, at any count of them, of all three parts together: no split of a batch makes a covered
  /// shape cheaper.
  [[nodiscard]] double least_per_token(const MeasuredShape& shape) const;
  /// All rows, ordered by shape and tokens.
  [[nodiscard]] std::vector<MeasuredTime> rows() const;

  double update_bytes_per_s = 0;  ///< of the optimizer: bytes of states that it reads and writes a second; 0: not
                                  ///< measured

 private:
  std::map<MeasuredShape, std::map<std::int64_t, OperatorTime>> tables_;
};

/// The first operator of the model that `measured` does not cover under the strategy; nothing: all are covered.
std::optional<MeasuredShape> not_covered(const MeasuredOperators& measured, const Model& model, const Strategy& strategy,
                                         std::int64_t sequence);

/// A row as a mapping of a document: {kind, in, out | heads, …, tokens, forward_s, input_s, weight_s}.
void write_row(base::JsonWriter& json, const MeasuredTime& row);
/// Errors go to the reader's sink.
MeasuredTime read_row(base::Reader& reader);

}  // namespace espalier::profile
