// SPDX-License-Identifier: Apache-2.0
// Reads fields of a config.json: one value under one of several names, range-checked, with a note for each value
// missing in the file.
//
// The format distinguishes absent from null (class default against "derive it"); `integer_or` treats them alike,
// `integer_nullable` does not. After the first error every getter still returns a value inside its range, so that
// readers need no branches. Nothing may be built before `ok()` was checked.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/document.h"
#include "espalier/model.h"

namespace espalier::model {

inline constexpr std::string_view kFamilyDefault = "default of the family";

using Names = std::initializer_list<std::string_view>;

/// Holds the largest accepted values: far above any published model, far below the overflow of a product.
struct SizeLimits {
  static constexpr std::int64_t width = std::int64_t{1} << 24;  ///< hidden sizes, feed-forward widths
  static constexpr std::int64_t layers = 4096;
  static constexpr std::int64_t heads = 65536;
  static constexpr std::int64_t head_dim = 65536;
  static constexpr std::int64_t vocabulary = std::int64_t{1} << 24;
  static constexpr std::int64_t experts = 65536;
  static constexpr std::int64_t tokens = std::int64_t{1} << 31;  ///< positions, windows
  static constexpr std::int64_t prediction = 64;                 ///< modules of multi-token prediction
  static constexpr std::int64_t pixels = std::int64_t{1} << 16;
};

class Fields {
 public:
  Fields(base::Reader& reader, std::vector<ModelNote>& notes) : reader_(&reader), notes_(&notes) {}

  [[nodiscard]] bool ok() const { return reader_->sink().ok(); }
  [[nodiscard]] base::Reader& reader() const { return *reader_; }
  /// Sets the values of absent keys for `integer`, with a note. A nested file may leave out the defaults of its
  /// class.
  void assume(std::vector<std::pair<std::string_view, std::int64_t>> values) { assumed_ = std::move(values); }

  /// Reads a required key under one of the names; null counts as absent.
  std::int64_t integer(Names names, std::int64_t high, std::int64_t low = 1);
  /// Returns `fallback` if absent or null, with a note that states `why`.
  std::int64_t integer_or(Names names, std::int64_t high, std::int64_t fallback, std::string_view why = kFamilyDefault,
                          std::int64_t low = 1);
  /// Returns `absent` if the key is absent, and `null` if it is null.
  std::int64_t integer_nullable(Names names, std::int64_t high, std::int64_t absent, std::int64_t null, std::string_view why,
                                std::int64_t low = 1);
  bool flag(std::string_view name, bool fallback);
  /// Returns whether a probability that switches an operator on is above 0.
  bool positive_rate(Names names, double fallback);
  double real(Names names, double low, double high, double fallback);
  std::string text(Names names, std::string fallback);
  /// Returns `max_position_embeddings` of a model that computes its positions. Only a note depends on it, so the
  /// result is 0 if the value is no count.
  std::int64_t context_length();

  void fail(std::string_view key, std::int64_t found, std::string expected, std::string hint = "");
  void fail(std::string_view key, std::string found, std::string expected, std::string hint = "");
  /// Requires that `divisor` divides `whole` (head counts, widths).
  void require_divides(std::string_view divisor_key, std::int64_t divisor, std::string_view whole_key, std::int64_t whole);
  void note(ModelNote::Kind kind, std::string_view key, std::string text);
  void defaulted(std::string_view key, const std::string& value, std::string_view why = kFamilyDefault);

 private:
  /// Returns the first of `names` that is present, else the first name.
  std::string_view pick(Names names) const;
  base::Reader* reader_;
  std::vector<ModelNote>* notes_;
  std::vector<std::pair<std::string_view, std::int64_t>> assumed_;
};

/// Returns whether a key is in use: neither null, false, 0 nor empty.
bool in_use(const base::Node& value);
/// Judges unread keys. A key known not to affect size or cost gives nothing. A key in use whose name refers to sizes
/// or work (experts, layers, windows, towers, multi-token prediction) is an error, since ignoring it would plan
/// another model. If its value is text, which is no size, it gives a note, and so do all other keys.
void judge_unread(Fields& fields, const std::string& family);

}  // namespace espalier::model
