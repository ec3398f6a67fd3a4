// SPDX-License-Identifier: Apache-2.0
// Holds the keys of a framework's configuration, one per row: data/dictionary/*.yaml. A row decides how its key is
// treated:
//
//   reads     the field of the job, the plan or the engine that it sets; a reader takes it
//   noted     matches the prediction; listed as read
//   effect    without effect, with a class whose reason and source the file names
//   changes   changes time or memory in a way that is not predicted
//   refused   has no price or no model
//   alias     another key, with `value` if it is a switch.
//
// A row is harmless where its value is the framework's default, is switched off, or is listed in `unless`. It is also
// harmless where the value equals that of another key (`same_as`) or agrees with the given model (`model`, `given`).
// A row is harmless as well where the key that it belongs to is off (`with`).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"

namespace espalier::exchange {

struct KeyRow {
  enum class Verdict : std::uint8_t { reads, noted, without_effect, changes, refused, alias };
  std::string key;
  std::vector<std::string> names;  ///< names that the framework prints for it
  std::vector<std::string> flags;  ///< as written; empty: "--" and the key with dashes
  std::string type;                ///< flag, off (a flag that switches it off), integer, real, word, list
  std::string default_value;       ///< the framework's default; empty: none is known
  bool older = false;              ///< belongs to another version than the file's
  Verdict verdict = Verdict::reads;
  std::string text;                 ///< field, sentence, class of the reason, or the key that an alias means
  std::string value;                ///< value that an alias sets
  std::vector<std::string> unless;  ///< values that match the prediction
  std::string with;                 ///< without effect where this key is off or absent
  std::vector<std::string> model;   ///< fields of config.json that must agree: "a", "a.b", "a*b"
  bool present = false;             ///< the field only needs to be present
  bool given = false;               ///< without effect where a model is given
  std::string same_as;              ///< without effect where this key has the same value
  std::string asserts;              ///< the framework's demand on it, with the source
};
std::string_view to_string(KeyRow::Verdict verdict);

struct KeyTable {
  struct Reason {
    std::string why, source;
  };
  std::string format, framework, version;
  std::map<std::string, Reason> reasons;
  std::vector<KeyRow> rows;
  std::vector<std::string> words;  ///< parts of names by which an unknown key may change the plan
  /// Describes a program around the framework, recognised by its own keys, that sets keys where its user does not.
  struct Program {
    std::string name, source;
    std::vector<std::string> signs;
    std::vector<std::pair<std::string, std::string>> sets;
  };
  std::vector<Program> programs;
  std::vector<std::string> also;  ///< tables of programs whose options may be mixed with these

  /// Finds a row by key, printed name or flag, whatever its dashes. Returns null where this table and `also` do not
  /// have it.
  [[nodiscard]] const KeyRow* find(std::string_view name) const;
  [[nodiscard]] const Reason& reason_of(const KeyRow& row) const;

  std::map<std::string, std::size_t, std::less<>> index = {};
};

/// Returns the table of a format of configuration_formats(), or of "launchers" and "programs".
const KeyTable& key_table(std::string_view format);
/// Reads a table. Fails (bad_input) for a key that occurs twice, a row without a verdict or with two, and an unknown
/// field, class or type.
Result<KeyTable> read_key_table(std::string_view yaml, const std::string& where);
/// Returns the plain form of a name: "--tensor-model-parallel-size" becomes "tensor_model_parallel_size".
std::string plain_key(std::string_view name);

}  // namespace espalier::exchange
