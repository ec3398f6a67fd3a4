// SPDX-License-Identifier: Apache-2.0
// A configuration file of another tool as a list of settings, key and value with their line, whatever its syntax: flags, TOML, JSON, YAML. A reader
// takes the settings it knows one by one; what is left over is judged by data/import_keys.yaml:
//
//   without effect   the key is listed there, or its value switches it off (None, False, 0, "", null, none, [])
//   not modelled     the key is listed there with what it changes, and its value is none of those that change nothing
//   refused          the key is listed there with its reason, or its name holds one of the format's words that speak of plans, and it is on
//   not understood   anything else; it is listed for the user
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/document.h"
#include "espalier/imported_configuration.h"

namespace espalier::exchange {

struct Setting {
  std::string key;    ///< "tensor_model_parallel_size", "parallelism.tensor_parallel_degree"
  std::string value;  ///< text of a scalar; of a list "[a, b]"
  std::int64_t line = 0;
  std::int64_t condition = 0;  ///< line of the shell's condition that it stands under; 0: none
};

/// Every leaf of a tree, keys joined by dots. Lists are leaves.
std::vector<Setting> settings_of(const base::Node& root);

/// What data/import_keys.yaml says of a format.
struct KeyTable {
  struct Refusal {
    std::string key, why;
    std::vector<std::string> unless;  ///< values with which it is harmless
  };
  std::string format;
  std::vector<std::string> without_effect;  ///< names; one that ends in '*' stands for all that begin so
  std::vector<Refusal> refused;
  std::vector<Refusal> not_modelled;  ///< harmless with what `unless` lists; where it lists nothing, when switched off
  std::vector<std::string> words;     ///< parts of names that speak of plans
};
/// Of a format of configuration_formats().
const KeyTable& key_table(std::string_view format);
Result<std::vector<KeyTable>> read_key_tables(std::string_view yaml, const std::string& where);

/// The product, at most 2^62: degrees of a damaged file multiply to anything.
std::int64_t capped_product(std::initializer_list<std::int64_t> factors);

/// "None", "False", "0", "", "null", "none", "[]": whatever the key is, it is off.
bool switched_off(std::string_view value);

class SettingReader {
 public:
  /// Settings whose key is in `ignored` are taken out and listed.
  SettingReader(std::string where, std::vector<Setting> settings, const KeyTable& table, const std::vector<std::string>& ignored);

  /// The setting, taken; null where it is absent, None, null or "auto", which is listed as filled by the training script. A setting under a
  /// condition of the shell is an error.
  const Setting* find(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_auto(std::string_view key) const;
  // Each getter takes the setting and lists it as read, or as defaulted where it is absent. `meaning`: what the value stands for, before the value.
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback,
                       std::string_view meaning);
  bool flag(std::string_view key, bool fallback, std::string_view meaning);
  double real(std::string_view key, double low, double high, double fallback, std::string_view meaning);
  /// One of `choices`, letter case ignored.
  std::string word(std::string_view key, const std::vector<std::string>& choices, const std::string& fallback,
                   std::string_view meaning);
  std::string text(std::string_view key, const std::string& fallback, std::string_view meaning);
  /// The setting's value as a whole number; records an error where it is none.
  std::int64_t number_of(const Setting& setting, std::int64_t low, std::int64_t high);
  /// Lists something that was said elsewhere or follows from other keys.
  void list(ImportedKey key) { keys_.push_back(std::move(key)); }
  /// Takes the setting out as known to have no effect.
  void pass_over(std::string_view key, std::string_view why);

  /// The first error counts. `key`: the setting it is about, or the one that is missing.
  void fail(std::string_view key, const std::string& found, const std::string& expected, const std::string& hint = "");
  /// The file has too little: no line to point at. Of several calls all are named.
  void lacks(const std::string& found, const std::string& expected, const std::string& hint);
  [[nodiscard]] bool ok() const { return !error_; }

  /// Judges what is left over. All keys, by kind and then by line; or the first error.
  Result<std::vector<ImportedKey>> finish();

 private:
  struct Entry {
    Setting setting;
    bool taken = false;
  };
  Entry* entry(std::string_view key);
  const Setting* take(std::string_view key, bool auto_is_a_value);
  void note_read(const Setting& setting, const std::string& meaning);
  void note_default(std::string_view key, const std::string& value, const std::string& meaning);
  void judge(const Setting& setting);

  std::string where_;
  std::vector<Entry> entries_;
  const KeyTable& table_;
  std::vector<ImportedKey> keys_;
  std::optional<std::size_t> filled_;  ///< of keys_: the setting last found to be "auto", for which nothing was taken yet
  Status error_;
  bool lacking_ = false;  ///< error_ is of lacks()
};

/// What the request says where the file is silent; a file that says otherwise is an error of the reader. 0: neither does.
std::int64_t said_or(SettingReader& reader, std::string_view key, std::int64_t in_file, std::int64_t asked,
                     std::string_view flag);

}  // namespace espalier::exchange
