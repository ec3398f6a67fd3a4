// SPDX-License-Identifier: Apache-2.0
#include "exchange/settings.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "base/format.h"
#include "base/shipped.h"
#include "data/import_keys_yaml.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr std::size_t kShown = 60;  ///< of a value in a message
constexpr const char* kFilled = "auto: filled by the training script";

std::string shown(const std::string& value) { return value.size() > kShown ? value.substr(0, kShown) + "…" : value; }

std::string text_of(const base::Node& node) {
  if (node.kind == base::NodeKind::null) return "None";
  if (node.kind == base::NodeKind::boolean) return node.boolean ? "True" : "False";
  return node.text;
}

/// "[a, b]"; lists inside it likewise.
std::string list_of(const base::Node& node) {
  std::string out = "[";
  for (const base::Node& item : node.items)
    out.append(out.size() == 1 ? "" : ", ").append(item.kind == base::NodeKind::sequence ? list_of(item) : text_of(item));
  return out + "]";
}

void collect(const base::Node& node, const std::string& path, std::vector<Setting>& out) {
  if (node.kind == base::NodeKind::mapping) {
    for (const auto& [name, value] : node.members) collect(value, path.empty() ? name : cat(path, ".", name), out);
    return;
  }
  out.push_back({path, node.kind == base::NodeKind::sequence ? list_of(node) : text_of(node), node.line});
}

bool matches(const std::string& pattern, std::string_view key) {
  if (pattern.ends_with('*')) return key.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return pattern == key;
}

std::vector<std::string> words_in(base::Reader& reader, const char* key) {
  std::vector<std::string> out;
  const base::Node* list = reader.find(key);
  if (list == nullptr) return out;
  for (const base::Node& item : list->items) out.push_back(text_of(item));
  return out;
}

KeyTable read_table(base::Reader& row) {
  KeyTable table;
  table.format = row.required_string("format");
  table.without_effect = words_in(row, "without_effect");
  table.words = words_in(row, "words");
  for (const auto& [name, rows] : {std::pair{"refused", &table.refused}, std::pair{"not_modelled", &table.not_modelled}})
    row.each(name, false, [&, out = rows](base::Reader& each) {
      out->push_back({each.required_string("key"), each.required_string("why"), words_in(each, "unless")});
      each.finish();
    });
  row.finish();
  return table;
}

int rank_of(ImportedKey::Kind kind) {
  switch (kind) {
    case ImportedKey::Kind::read: return 0;
    case ImportedKey::Kind::defaulted: return 1;
    case ImportedKey::Kind::not_understood: return 2;
    case ImportedKey::Kind::not_modelled: return 3;
    case ImportedKey::Kind::without_effect: return 4;
  }
  return 5;
}

}  // namespace

std::vector<Setting> settings_of(const base::Node& root) {
  std::vector<Setting> out;
  collect(root, "", out);
  return out;
}

Result<std::vector<KeyTable>> read_key_tables(std::string_view yaml, const std::string& where) {
  const auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(*document, sink);
  reader.required_string("schema");
  std::vector<KeyTable> out;
  reader.each("formats", true, [&](base::Reader& row) { out.push_back(read_table(row)); });
  reader.finish();
  if (!sink.ok()) return *sink.first();
  return out;
}

const KeyTable& key_table(std::string_view format) {
  static const std::vector<KeyTable> tables =
      base::shipped(read_key_tables(embedded::import_keys_yaml, "data/import_keys.yaml"), "data/import_keys.yaml");
  const auto at = std::find_if(tables.begin(), tables.end(), [&](const KeyTable& table) { return table.format == format; });
  ESPALIER_CHECK(at != tables.end());
  return *at;
}

std::int64_t capped_product(std::initializer_list<std::int64_t> factors) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t out = 1;
  for (const std::int64_t factor : factors) {
    ESPALIER_CHECK(factor >= 0);
    out = factor > 0 && out > kMost / factor ? kMost : out * factor;
  }
  return out;
}

bool switched_off(std::string_view value) {
  constexpr std::array<std::string_view, 12> kOff = {"None", "none", "null", "False", "false", "0",
                                                     "0.0",  "",     "[]",   "{}",    "no",    "NO"};
  return std::find(kOff.begin(), kOff.end(), value) != kOff.end();
}

SettingReader::SettingReader(std::string where, std::vector<Setting> settings, const KeyTable& table,
                             const std::vector<std::string>& ignored)
    : where_(std::move(where)), table_(table) {
  for (Setting& setting : settings) {
    ESPALIER_CHECK(setting.line >= 0);
    entries_.push_back({std::move(setting), false});
  }
  for (const std::string& key : ignored) pass_over(key, "ignored, as asked for");
}

SettingReader::Entry* SettingReader::entry(std::string_view key) {
  const auto at =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.setting.key == key && !e.taken; });
  return at == entries_.end() ? nullptr : &*at;
}

bool SettingReader::has(std::string_view key) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.setting.key == key; });
}

bool SettingReader::is_auto(std::string_view key) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.setting.key == key && e.setting.value == "auto"; });
}

const Setting* SettingReader::find(std::string_view key) { return take(key, false); }

const Setting* SettingReader::take(std::string_view key, bool auto_is_a_value) {
  Entry* at = entry(key);
  if (at == nullptr) return nullptr;
  at->taken = true;
  const Setting& setting = at->setting;
  if (setting.condition > 0)
    fail(setting.key, cat("\"", shown(setting.value), "\" under the condition of line ", setting.condition),
         "a flag that always holds: shell is not evaluated",
         cat("write what holds without the condition, or take it out: --ignore ", setting.key));
  if (setting.value == "None" || setting.value == "null") {
    keys_.push_back({ImportedKey::Kind::without_effect, setting.key, setting.value, "says nothing", setting.line});
    return nullptr;
  }
  if (setting.value == "auto" && !auto_is_a_value) {
    filled_ = keys_.size();
    keys_.push_back({ImportedKey::Kind::defaulted, setting.key, setting.value, kFilled, setting.line});
    return nullptr;
  }
  return &setting;
}

void SettingReader::note_read(const Setting& setting, const std::string& meaning) {
  keys_.push_back({ImportedKey::Kind::read, setting.key, setting.value, meaning, setting.line});
}

void SettingReader::note_default(std::string_view key, const std::string& value, const std::string& meaning) {
  ESPALIER_CHECK(!key.empty() && !meaning.empty());  // a user reads what was taken, and for what
  // The getter found "auto" a moment ago and listed it: what is taken in its place belongs there.
  const auto filled = std::exchange(filled_, std::nullopt);
  if (filled && keys_[*filled].key == key) {
    keys_[*filled].meaning += cat("; here ", meaning);
    return;
  }
  keys_.push_back({ImportedKey::Kind::defaulted, std::string(key), value, meaning, 0});
}

std::int64_t SettingReader::number_of(const Setting& setting, std::int64_t low, std::int64_t high) {
  ESPALIER_CHECK(low <= high);
  std::int64_t value = 0;
  const std::string& text = setting.value;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  fail(setting.key, cat("\"", shown(text), "\""), cat("a whole number from ", low, " to ", high));
  return low;
}

std::int64_t SettingReader::integer(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback,
                                    std::string_view meaning) {
  ESPALIER_CHECK(low <= high && fallback <= high);
  const Setting* setting = find(key);
  if (setting == nullptr) {
    note_default(key, std::to_string(fallback), cat(meaning, " ", fallback));
    return fallback;
  }
  const std::int64_t value = number_of(*setting, low, high);
  note_read(*setting, cat(meaning, " ", value));
  return value;
}

bool SettingReader::flag(std::string_view key, bool fallback, std::string_view meaning) {
  const Setting* setting = find(key);
  const auto said = [&](bool value) { return cat(meaning, value ? ": yes" : ": no"); };
  if (setting == nullptr) {
    note_default(key, fallback ? "True" : "False", said(fallback));
    return fallback;
  }
  const std::string text = base::lower(setting->value);
  const bool yes = text == "true" || text == "1" || text == "yes" || text == "on";
  if (!yes && !switched_off(setting->value) && text != "off") fail(key, cat("\"", shown(setting->value), "\""), "true or false");
  note_read(*setting, said(yes));
  return yes;
}

double SettingReader::real(std::string_view key, double low, double high, double fallback, std::string_view meaning) {
  ESPALIER_CHECK(low <= high);
  const Setting* setting = find(key);
  if (setting == nullptr) {
    note_default(key, base::six_digits(fallback), cat(meaning, " ", base::six_digits(fallback)));
    return fallback;
  }
  double value = 0;
  const std::string& text = setting->value;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high))
    fail(key, cat("\"", shown(text), "\""), cat("a number from ", base::six_digits(low), " to ", base::six_digits(high)));
  note_read(*setting, cat(meaning, " ", text));
  return value;
}

std::string SettingReader::word(std::string_view key, const std::vector<std::string>& choices, const std::string& fallback,
                                std::string_view meaning) {
  ESPALIER_CHECK(!choices.empty());
  const Setting* setting = take(key, std::find(choices.begin(), choices.end(), "auto") != choices.end());
  if (setting == nullptr) {
    note_default(key, fallback, cat(meaning, " ", fallback));
    return fallback;
  }
  const auto at = std::find_if(choices.begin(), choices.end(),
                               [&](const std::string& choice) { return base::lower(choice) == base::lower(setting->value); });
  if (at == choices.end()) {
    fail(key, cat("\"", shown(setting->value), "\""), cat("one of ", base::joined(choices)),
         base::suggestion(setting->value.substr(0, kShown), choices));
    return fallback;
  }
  note_read(*setting, cat(meaning, " ", *at));
  return *at;
}

std::string SettingReader::text(std::string_view key, const std::string& fallback, std::string_view meaning) {
  const Setting* setting = take(key, fallback == "auto");
  if (setting == nullptr) {
    note_default(key, fallback, cat(meaning, " ", fallback.empty() ? "not said" : fallback));
    return fallback;
  }
  note_read(*setting, cat(meaning, " ", shown(setting->value)));
  return setting->value;
}

void SettingReader::pass_over(std::string_view key, std::string_view why) {
  ESPALIER_CHECK(!why.empty());
  Entry* at = entry(key);
  if (at == nullptr) return;
  at->taken = true;
  keys_.push_back({ImportedKey::Kind::without_effect, at->setting.key, at->setting.value, std::string(why), at->setting.line});
}

void SettingReader::fail(std::string_view key, const std::string& found, const std::string& expected, const std::string& hint) {
  ESPALIER_CHECK(!expected.empty());  // an error that does not say what to write helps nobody
  if (error_) return;
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.setting.key == key; });
  const std::int64_t line = at == entries_.end() ? 0 : at->setting.line;
  error_ = Error{ErrorKind::bad_input, line > 0 ? cat(where_, ":", line) : where_, cat(key, " = ", found), expected, hint};
}

void SettingReader::lacks(const std::string& found, const std::string& expected, const std::string& hint) {
  ESPALIER_CHECK(!found.empty() && !expected.empty());
  if (!error_) {
    error_ = Error{ErrorKind::bad_input, where_, found, expected, hint};
    lacking_ = true;
  } else if (lacking_) {  // all that is missing at once
    error_->found += cat(" and ", found);
    error_->expected += cat(", and ", expected);
    error_->hint += cat(" ", hint);
  }
}

void SettingReader::judge(const Setting& setting) {
  const auto list_as = [&](ImportedKey::Kind kind, std::string why) {
    keys_.push_back({kind, setting.key, setting.value, std::move(why), setting.line});
  };
  const bool off = switched_off(setting.value);
  for (const KeyTable::Refusal& row : table_.refused) {
    if (!matches(row.key, setting.key)) continue;
    if (off || std::find(row.unless.begin(), row.unless.end(), setting.value) != row.unless.end())
      return list_as(ImportedKey::Kind::without_effect, "off");
    return fail(setting.key, shown(setting.value), cat("a configuration without it: ", row.why),
                cat("--ignore ", setting.key, " takes it out, where the plan may be predicted as if it were not there"));
  }
  for (const KeyTable::Refusal& row : table_.not_modelled) {
    if (!matches(row.key, setting.key)) continue;
    if (setting.value == "auto") return list_as(ImportedKey::Kind::without_effect, kFilled);
    const bool listed = std::find(row.unless.begin(), row.unless.end(), setting.value) != row.unless.end();
    if (listed || setting.value == "None" || (off && row.unless.empty()))
      return list_as(ImportedKey::Kind::without_effect, listed ? "as it is predicted" : "off");
    return list_as(ImportedKey::Kind::not_modelled, row.why);
  }
  if (std::any_of(table_.without_effect.begin(), table_.without_effect.end(),
                  [&](const std::string& pattern) { return matches(pattern, setting.key); }))
    return list_as(ImportedKey::Kind::without_effect, setting.value == "auto" ? kFilled : "changes no step's time or memory");
  if (off) return list_as(ImportedKey::Kind::without_effect, "off");
  const auto speaks = std::find_if(table_.words.begin(), table_.words.end(), [&](const std::string& word) {
    return base::lower(setting.key).find(word) != std::string::npos;
  });
  if (speaks == table_.words.end()) return list_as(ImportedKey::Kind::not_understood, "not known here");
  fail(setting.key, shown(setting.value), cat("a key that is known here: by its name (\"", *speaks, "\") it may change the plan"),
       cat("--ignore ", setting.key, " takes it out, where it does not"));
}

Result<std::vector<ImportedKey>> SettingReader::finish() {
  for (const Entry& e : entries_)
    if (!e.taken) judge(e.setting);
  if (error_) return *error_;
  std::stable_sort(keys_.begin(), keys_.end(), [](const ImportedKey& a, const ImportedKey& b) {
    if (a.kind != b.kind) return rank_of(a.kind) < rank_of(b.kind);
    return a.line < b.line;
  });
  return std::move(keys_);
}

std::int64_t said_or(SettingReader& reader, std::string_view key, std::int64_t in_file, std::int64_t asked,
                     std::string_view flag) {
  ESPALIER_CHECK(flag.starts_with("--"));
  if (asked == 0) return in_file;
  if (in_file != 0 && in_file != asked) {
    reader.fail(key, std::to_string(in_file), cat(asked, ", as ", flag, " says"), "leave the flag out: the file says it");
    return in_file;
  }
  if (in_file == 0)
    reader.list({ImportedKey::Kind::read, std::string(flag), std::to_string(asked), "said on the command line", 0});
  return asked;
}

}  // namespace espalier::exchange
