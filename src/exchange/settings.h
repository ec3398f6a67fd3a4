// SPDX-License-Identifier: Apache-2.0
// A configuration file of another tool as a list of settings, key and value with their line, whatever its syntax:
// flags, TOML, JSON, YAML. A reader takes the settings that it reads one by one; what is left over is judged by the
// framework's dictionary (exchange/dictionary.h):
//
//   without effect   the row has a reason, or the value changes nothing (the default, switched off, as --model has it)
//   not modelled     the row names what changes and is not predicted
//   refused          the row has a reason, or no row has the key, its name holds a word that speaks of plans, and it is
//                    on
//   not understood   anything else; it is listed for the user
//
// All that is wrong or missing is collected: a user reads one message.
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

/// The largest numbers that are read: degrees and nodes, ranks that degrees multiply to, samples and tokens.
inline constexpr std::int64_t kMostDegree = 1 << 20, kMostRanks = 1 << 30, kMostSamples = std::int64_t{1} << 31;

struct Setting {
  std::string key;    ///< "tensor_model_parallel_size", "parallelism.tensor_parallel_degree"
  std::string value;  ///< text of a scalar; of a list "[a, b]"
  std::int64_t line = 0;
  std::int64_t condition = 0;              ///< line of the undecided condition of the shell that guards it; 0: none
  std::string written = {};                ///< as the file spells the key, "--tensor-model-parallel-size"; empty: as
                                           ///< `key`
  std::vector<std::string> missing = {};   ///< names of the shell that would make the value known
  std::vector<std::string> deciding = {};  ///< those that would decide the condition
};

/// Every leaf of a tree, keys joined by dots. Lists are leaves.
std::vector<Setting> settings_of(const base::Node& root);

/// The product, at most 2^62: degrees of a damaged file multiply to anything.
std::int64_t capped_product(std::initializer_list<std::int64_t> factors);

/// "None", "False", "0", "", "null", "none", "[]": whatever the key is, it is off.
bool switched_off(std::string_view value);

/// Gives a setting the key of its row of the dictionary, and the value that its spelling has.
void name_by_row(const KeyTable& table, Setting& setting);

class SettingReader {
 public:
  /// Settings get the key of their row. Keys that the request ignores are taken out and listed.
  SettingReader(const ConfigurationRequest& request, std::vector<Setting> settings, const KeyTable& table);

  /// The setting, taken; null where it is absent, None, null or "auto", which is listed as filled by the training
  /// script. A setting under a condition of the shell is an error.
  const Setting* find(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_auto(std::string_view key) const;
  // Each getter takes the setting and lists it as read, or as defaulted where it is absent. `meaning`: what the value
  // stands for, before the value.
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

  /// The first error of a key counts. `key`: the setting it is about, or the one that is missing.
  void fail(std::string_view key, const std::string& found, const std::string& expected, const std::string& hint = "");
  /// The file has too little: no line to point at. All calls are named together.
  void lacks(const std::string& found, const std::string& expected, const std::string& hint);
  /// A sourced file is missing. It may set what this file leaves to defaults, so that no default is a fault.
  void lacks_file(const std::string& found, const std::string& hint);
  [[nodiscard]] bool ok() const { return errors_.empty() && !lacking_; }
  /// Whether something of the key is wrong.
  [[nodiscard]] bool failed(std::string_view key) const;
  /// The key as the file spells it, or as it would be written there.
  [[nodiscard]] std::string spelled(std::string_view key) const;

  /// Judges what is left over. All keys, by kind and then by line; or all errors in one.
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
    std::vector<std::string> names = {};  ///< of the shell, that would mend it
  };
  Entry* entry(std::string_view key);
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
  std::optional<std::size_t> filled_;  ///< of keys_: the setting last found to be "auto", for which nothing was taken
                                       ///< yet
  std::vector<Fault> errors_;
  Status lacking_;  ///< all that the file lacks
  bool lacks_files_ = false;
};

/// What the request says where the file is silent; a file that says otherwise is an error of the reader. 0: neither
/// does.
std::int64_t said_or(SettingReader& reader, std::string_view key, std::int64_t in_file, std::int64_t asked,
                     std::string_view flag);

}  // namespace espalier::exchange
