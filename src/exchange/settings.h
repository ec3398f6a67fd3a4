// SPDX-License-Identifier: Apache-2.0
// Reads a configuration file of another tool as a list of settings, key and value with their line, whatever its
// syntax: flags, TOML, JSON, YAML. A reader takes its settings one by one. The framework's dictionary
// (exchange/dictionary.h) judges the rest:
//
//   without effect   the row has a reason, or the value changes nothing (the default, switched off, as --model has it)
//   not modelled     the row names a change that is not predicted
//   refused          the row has a reason; or no row has the key, its name holds a word that plans use, and it is on
//   not understood   anything else; it is listed for the user.
//
// All faults and missing values are collected, so that a user reads one message.
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
#include "exchange/dictionary.h"

namespace espalier::exchange {

/// Limit the numbers that are read: degrees and nodes, products of degrees, samples and tokens.
inline constexpr std::int64_t kMostDegree = 1 << 20, kMostRanks = 1 << 30, kMostSamples = std::int64_t{1} << 31;

struct Setting {
  std::string key;    ///< "tensor_model_parallel_size", "parallelism.tensor_parallel_degree"
  std::string value;  ///< text of a scalar; for a list "[a, b]"
  std::int64_t line = 0;
  std::int64_t condition = 0;              ///< line of the shell's undecided condition that guards it; 0: none
  std::string written = {};                ///< as the file spells the key, "--tensor-model-parallel-size"; empty: as `key`
  std::vector<std::string> missing = {};   ///< names of the shell that would make the value known
  std::vector<std::string> deciding = {};  ///< names that would decide the condition
};

/// Returns every leaf of a tree, keys joined by dots. Lists are leaves.
std::vector<Setting> settings_of(const base::Node& root);

/// Returns the product, capped at 2^62, since degrees of a damaged file can multiply to anything.
std::int64_t capped_product(std::initializer_list<std::int64_t> factors);

/// Returns whether a value switches any key off: "None", "False", "0", "", "null", "none", "[]".
bool switched_off(std::string_view value);

/// Gives a setting the key of its row of the dictionary, and the value of its spelling.
void name_by_row(const KeyTable& table, Setting& setting);

class SettingReader {
 public:
  /// Gives settings the key of their row. Keys that the request ignores are removed and listed.
  SettingReader(const ConfigurationRequest& request, std::vector<Setting> settings, const KeyTable& table);

  /// Takes and returns the setting. Returns null where it is absent, None, null or "auto", which is listed as filled
  /// by the training script. A setting under a condition of the shell is an error.
  const Setting* find(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_auto(std::string_view key) const;
  // Each getter takes the setting and lists it as read, or as defaulted where it is absent. `meaning` is the text
  // before the value in that list.
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback,
                       std::string_view meaning);
  bool flag(std::string_view key, bool fallback, std::string_view meaning);
  double real(std::string_view key, double low, double high, double fallback, std::string_view meaning);
  /// Returns one of `choices`, letter case ignored.
  std::string word(std::string_view key, const std::vector<std::string>& choices, const std::string& fallback,
                   std::string_view meaning);
  std::string text(std::string_view key, const std::string& fallback, std::string_view meaning);
  /// Returns whether the file has all of `flags`, each written with its value: "--exp-avg-dtype bf16". It takes and
  /// lists them then. Otherwise it takes those whose rows state that they are read; the dictionary judges the rest.
  bool flags(const std::vector<std::string>& flags, std::string_view meaning);
  /// Returns the setting's value as a whole number. Records an error for any other value.
  std::int64_t number_of(const Setting& setting, std::int64_t low, std::int64_t high);
  /// Lists a key that was read elsewhere or follows from other keys.
  void list(ImportedKey key) { keys_.push_back(std::move(key)); }
  /// Marks the setting as known to have no effect.
  void pass_over(std::string_view key, std::string_view why);

  /// Records an error. The first error of a key counts. `key` is the wrong or the missing setting.
  void fail(std::string_view key, const std::string& found, const std::string& expected, const std::string& hint = "");
  /// Records that the file lacks something; no line can be named. All calls are reported together.
  void lacks(const std::string& found, const std::string& expected, const std::string& hint);
  /// Records that a sourced file is missing. It may set values that this file leaves to defaults, so that no default
  /// is a fault.
  void lacks_file(const std::string& found, const std::string& hint);
  [[nodiscard]] bool ok() const { return errors_.empty() && !lacking_; }
  /// Returns whether the key has an error.
  [[nodiscard]] bool failed(std::string_view key) const;
  /// Returns the key as the file spells it, or as it would be written there.
  [[nodiscard]] std::string spelled(std::string_view key) const;

  /// Judges the remaining settings. Returns all keys, by kind and then by line, or all errors in one.
  Result<std::vector<ImportedKey>> finish();

 private:
  struct Entry {
    Setting setting;
    bool taken = false;
    bool ignored = false;
  };
  struct Fault {
    std::string key;
    std::int64_t line;
    Error error;
    std::int64_t condition = 0;           ///< line of the undecided condition that it is about
    std::vector<std::string> names = {};  ///< names of the shell that would fix it
  };
  Entry* entry(std::string_view key);
  [[nodiscard]] bool listed(std::string_view key) const;
  [[nodiscard]] bool has_value(const Setting& wanted) const;
  const Setting* take(std::string_view key, bool auto_is_a_value);
  void guarded(const Setting& setting);
  void note_read(const Setting& setting, const std::string& meaning);
  void note_default(std::string_view key, const std::string& value, const std::string& meaning);
  void ignore(const std::string& key);
  void judge(const Setting& setting);
  void judge_unknown(const Setting& setting);
  [[nodiscard]] std::string harmless(const KeyRow& row, const Setting& setting) const;
  [[nodiscard]] std::string agrees(const KeyRow& row, const Setting& setting) const;
  [[nodiscard]] std::string model_field(const std::string& name) const;
  [[nodiscard]] bool is_on(const std::string& key) const;
  [[nodiscard]] Error all_faults();

  const ConfigurationRequest& request_;
  std::vector<Entry> entries_;
  const KeyTable& table_;
  std::vector<ImportedKey> keys_;
  /// This is the index in `keys_` of the setting last found to be "auto", while nothing was taken for it yet.
  std::optional<std::size_t> filled_;
  std::vector<Fault> errors_;
  std::optional<Error> lacking_;  ///< everything that the file lacks
  bool lacks_files_ = false;
};

/// Returns the request's value where the file has none, that is, 0. A file with another value is an error of the
/// reader. 0 means that neither has one.
std::int64_t said_or(SettingReader& reader, std::string_view key, std::int64_t in_file, const std::optional<std::int64_t>& asked,
                     std::string_view flag);

}  // namespace espalier::exchange
