// SPDX-License-Identifier: Apache-2.0
// Keys of a framework's configuration, one row each: data/dictionary/*.yaml. A row says what becomes of its key:
//
//   reads     the field of the job, the plan or the engine that it sets; a reader takes it
//   noted     known to be as it is predicted; listed as read
//   effect    without effect, with a class whose reason and source the file names
//   changes   known to change time or memory in a way that is not predicted
//   refused   has no price or no model
//   alias     another key, with `value` if it is a switch
//
// A row is harmless where its value is the framework's default, is switched off, stands in `unless`, equals another key
// (`same_as`), agrees with the model that is given (`model`, `given`), or where the key that it belongs to is off
// (`with`).
#pragma once

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
  std::vector<std::string> names;  ///< what the framework prints in its place
  std::vector<std::string> flags;  ///< as it is written; empty: "--" and the key with dashes
  std::string type;                ///< flag, off (a flag that switches it off), integer, real, word, list
  std::string default_value;       ///< of the framework; empty: none is known
  bool older = false;              ///< of another version than the file's
  Verdict verdict = Verdict::reads;
  std::string text;                 ///< field, sentence, class of the reason, or the key that an alias means
  std::string value;                ///< of an alias
  std::vector<std::string> unless;  ///< values that are as it is predicted
  std::string with;                 ///< without effect where this key is off or absent
  std::vector<std::string> model;   ///< fields of config.json that must agree: "a", "a.b", "a*b"
  bool present = false;             ///< the field need only be there
  bool given = false;               ///< without effect where a model is given
  std::string same_as;              ///< without effect where this key has the same value
  std::string asserts;              ///< what the framework demands of it, with the source
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
  /// A program around the framework, known by keys of its own, that sets keys where its user does not.
  struct Program {
    std::string name, source;
    std::vector<std::string> signs;
    std::vector<std::pair<std::string, std::string>> sets;
  };
  std::vector<Program> programs;
  std::vector<std::string> also;  ///< tables of programs whose options may be mixed with these

  /// By key, printed name or flag, whatever its dashes; null: unknown in this table and in `also`.
  [[nodiscard]] const KeyRow* find(std::string_view name) const;
  [[nodiscard]] const Reason& reason_of(const KeyRow& row) const;

  std::map<std::string, std::size_t, std::less<>> index = {};
};

/// The table of a format of configuration_formats(), or of "launchers" and "programs".
const KeyTable& key_table(std::string_view format);
/// bad_input: a key twice, a row without a verdict or with two, an unknown field, class or type.
Result<KeyTable> read_key_table(std::string_view yaml, const std::string& where);
/// "--tensor-model-parallel-size" is "tensor_model_parallel_size".
std::string plain_key(std::string_view name);

}  // namespace espalier::exchange
