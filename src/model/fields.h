// SPDX-License-Identifier: Apache-2.0
// Fields of a config.json: one value under one of several names, range-checked, with a note for each value the file did
// not hold.
//
// The format distinguishes absent from null (class default against "derive it"); `integer_or` treats them alike,
// `integer_nullable` does not. After the first error every getter still returns a value inside its range, so that
// readers stay straight lists; nothing may be built before `ok()` was asked.
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

/// Largest values accepted; far above any published model, far below what could overflow a product.
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
  /// What `integer` takes for keys that are absent, with a note: a file inside another that leaves out what its class
  /// assumes.
  void assume(std::vector<std::pair<std::string_view, std::int64_t>> values) { assumed_ = std::move(values); }

  /// Must be there, under one of the names; null is absent.
  std::int64_t integer(Names names, std::int64_t high, std::int64_t low = 1);
  /// Absent or null: `fallback`, with a note that says `why`.
  std::int64_t integer_or(Names names, std::int64_t high, std::int64_t fallback, std::string_view why = kFamilyDefault,
                          std::int64_t low = 1);
  /// Absent: `absent`; null: `null`.
  std::int64_t integer_nullable(Names names, std::int64_t high, std::int64_t absent, std::int64_t null, std::string_view why,
                                std::int64_t low = 1);
  bool flag(std::string_view name, bool fallback);
  /// A probability that switches an operator on: is it above 0?
  bool positive_rate(Names names, double fallback);
  double real(Names names, double low, double high, double fallback);
  std::string text(Names names, std::string fallback);
  /// `max_position_embeddings` of a model that computes its positions: only a remark rests on it, so 0 for whatever is
  /// no count.
  std::int64_t context_length();

  void fail(std::string_view key, std::int64_t found, std::string expected, std::string hint = "");
  void fail(std::string_view key, std::string found, std::string expected, std::string hint = "");
  /// `key` must divide `whole` (head counts, widths).
  void require_divides(std::string_view divisor_key, std::int64_t divisor, std::string_view whole_key, std::int64_t whole);
  void note(ModelNote::Kind kind, std::string_view key, std::string text);
  void defaulted(std::string_view key, const std::string& value, std::string_view why = kFamilyDefault);

 private:
  /// The first of `names` that is present, else the first name.
  std::string_view pick(Names names) const;
  base::Reader* reader_;
  std::vector<ModelNote>* notes_;
  std::vector<std::pair<std::string_view, std::int64_t>> assumed_;
};

/// Whether a key is in use: neither null, false, 0 nor empty.
bool in_use(const base::Node& value);
/// Judges the keys that nobody read. Known to have no bearing on size or cost: nothing. A name that speaks of sizes or
/// work (experts, layers, windows, towers, multi-token prediction) with a value in use: an error, since planning
/// without it would plan another model; where the value is text, which is no size, a note. All others: a note.
void judge_unread(Fields& fields, const std::string& family);

}  // namespace espalier::model
