// SPDX-License-Identifier: Apache-2.0
#include "exchange/settings.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/format.h"
#include "base/invariant.h"

namespace espalier::exchange {
namespace {

constexpr std::size_t kShown = 60;  ///< characters of a value in a message
constexpr const char* kFilled = "auto: filled by the training script";

/// Returns "--arg TP=… " for each name.
std::string asked(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += cat(out.empty() ? "" : " ", "--arg ", name, "=…");
  return out;
}

std::string shortened(const std::string& value) { return value.size() > kShown ? value.substr(0, kShown) + "…" : value; }

std::string text_of(const base::Node& node) {
  if (node.kind == base::NodeKind::null) return "None";
  if (node.kind == base::NodeKind::boolean) return node.boolean ? "True" : "False";
  return node.text;
}

/// Returns "[a, b]"; lists inside it likewise.
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

/// Compares values. Numbers are equal whatever their spelling: 0, 0.0 and 1e-5, 1e-05.
bool same_value(const std::string& a, const std::string& b) {
  if (a == b || base::lower(a) == base::lower(b)) return true;
  double x = 0, y = 0;
  const auto [end_a, code_a] = std::from_chars(a.data(), a.data() + a.size(), x);
  const auto [end_b, code_b] = std::from_chars(b.data(), b.data() + b.size(), y);
  return code_a == std::errc() && code_b == std::errc() && end_a == a.data() + a.size() && end_b == b.data() + b.size() && x == y;
}

/// Returns the first number of a text: 4096 for "(4096, 0)".
std::string first_number(const std::string& text) {
  const std::size_t first = text.find_first_of("0123456789");
  return first == std::string::npos ? "" : text.substr(first, text.find_first_not_of("0123456789", first) - first);
}

/// Returns the setting that a flag of a command makes: "--exp-avg-dtype bf16", "--no-rope-fusion".
Setting setting_of_flag(const KeyTable& table, std::string_view written) {
  ESPALIER_CHECK(written.starts_with("--"));
  const std::size_t space = std::min(written.find(' '), written.size());
  const std::string_view value = written.substr(std::min(space + 1, written.size()));
  Setting out{plain_key(written.substr(0, space)), value.empty() ? "True" : std::string(value)};
  name_by_row(table, out);
  return out;
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

SettingReader::SettingReader(const ConfigurationRequest& request, std::vector<Setting> settings, const KeyTable& table)
    : request_(request), table_(table) {
  for (Setting& setting : settings) {
    ESPALIER_CHECK(setting.line >= 0);
    name_by_row(table_, setting);
    entries_.push_back({std::move(setting), false});
  }
  for (const std::string& key : request.ignored) ignore(key);
}

void SettingReader::ignore(const std::string& key) {
  const KeyRow* row = table_.find(plain_key(key));
  for (const std::string& name : {key, plain_key(key), row == nullptr ? key : row->key}) {
    if (Entry* at = entry(name)) at->ignored = true;
    pass_over(name, "ignored, as requested");
  }
}

void name_by_row(const KeyTable& table, Setting& setting) {
  const KeyRow* row = table.find(setting.key);
  if (row == nullptr) return;
  if (setting.written.empty() && setting.key != row->key) setting.written = setting.key;
  const bool negates = row->type == "off" && setting.value == "True" && setting.key != row->key &&
                       std::find(row->names.begin(), row->names.end(), setting.key) == row->names.end();
  if (negates) setting.value = "False";
  setting.key = row->key;
  if (row->verdict != KeyRow::Verdict::alias) return;
  if (row->value.empty() || !switched_off(setting.value)) setting.key = row->text;
  if (!row->value.empty() && !switched_off(setting.value)) setting.value = row->value;
}

std::string SettingReader::spelled(std::string_view key) const {
  for (const Entry& e : entries_)
    if (e.setting.key == key) return e.setting.written.empty() ? e.setting.key : e.setting.written;
  const KeyRow* row = table_.find(key);
  if (row != nullptr && !row->flags.empty()) return row->flags.front();
  const bool flags =
      row != nullptr && table_.format == "megatron-args" &&
      std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.setting.written.starts_with("--"); });
  if (!flags) return std::string(key);
  std::string out(key);
  std::replace(out.begin(), out.end(), '_', '-');
  return "--" + out;
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
  if (setting.condition > 0) guarded(setting);
  if (setting.value == "None" || setting.value == "null") {
    keys_.push_back(
        {ImportedKey::Kind::without_effect, setting.key, setting.value, "has no meaning", setting.line, setting.written});
    return nullptr;
  }
  if (setting.value == "auto" && !auto_is_a_value) {
    filled_ = keys_.size();
    keys_.push_back({ImportedKey::Kind::defaulted, setting.key, setting.value, kFilled, setting.line, setting.written});
    return nullptr;
  }
  return &setting;
}

/// Reports one fault for each condition, which names all settings that it guards.
void SettingReader::guarded(const Setting& setting) {
  for (Fault& fault : errors_)
    if (fault.condition == setting.condition) {
      fault.error.found += cat(", and ", spelled(setting.key));
      return;
    }
  fail(setting.key, cat("\"", shortened(setting.value), "\" under the condition of line ", setting.condition),
       "a condition that the script, its #SBATCH lines, the cluster or --arg decides",
       cat(asked(setting.deciding), setting.deciding.empty() ? "" : ", or ", "pass --ignore ", setting.key));
  if (!errors_.empty() && errors_.back().key == setting.key) {
    errors_.back().condition = setting.condition;
    errors_.back().names = setting.deciding;
  }
}

void SettingReader::note_read(const Setting& setting, const std::string& meaning) {
  keys_.push_back({ImportedKey::Kind::read, setting.key, setting.value, meaning, setting.line, setting.written});
}

void SettingReader::note_default(std::string_view key, const std::string& value, const std::string& meaning) {
  ESPALIER_CHECK(!key.empty() && !meaning.empty());  // the user sees which key was taken, and its meaning
  // The getter has just found "auto" and listed it. The value taken in its place belongs there.
  const auto filled = std::exchange(filled_, std::nullopt);
  if (filled && keys_[*filled].key == key) {
    keys_[*filled].meaning += cat("; here ", meaning);
    return;
  }
  const std::string name = spelled(key);
  keys_.push_back({ImportedKey::Kind::defaulted, std::string(key), value, meaning, 0, name == key ? "" : name});
}

std::int64_t SettingReader::number_of(const Setting& setting, std::int64_t low, std::int64_t high) {
  ESPALIER_CHECK(low <= high);
  std::int64_t value = 0;
  const std::string& text = setting.value;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  fail(setting.key, cat("\"", shortened(text), "\""), cat("a whole number from ", low, " to ", high), asked(setting.missing));
  if (!errors_.empty() && errors_.back().key == setting.key) errors_.back().names = setting.missing;
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
  if (!yes && !switched_off(setting->value) && text != "off")
    fail(key, cat("\"", shortened(setting->value), "\""), "true or false");
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
    fail(key, cat("\"", shortened(text), "\""), cat("a number from ", base::six_digits(low), " to ", base::six_digits(high)));
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
    fail(key, cat("\"", shortened(setting->value), "\""), cat("one of ", base::joined(choices)),
         base::suggestion(setting->value.substr(0, kShown), choices));
    return fallback;
  }
  note_read(*setting, cat(meaning, " ", *at));
  return *at;
}

std::string SettingReader::text(std::string_view key, const std::string& fallback, std::string_view meaning) {
  const Setting* setting = take(key, fallback == "auto");
  if (setting == nullptr) {
    note_default(key, fallback, cat(meaning, " ", fallback.empty() ? "not stated" : fallback));
    return fallback;
  }
  note_read(*setting, cat(meaning, " ", shortened(setting->value)));
  return setting->value;
}

bool SettingReader::listed(std::string_view key) const {
  return std::any_of(keys_.begin(), keys_.end(), [&](const ImportedKey& k) { return k.key == key; });
}

bool SettingReader::has_value(const Setting& wanted) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.setting.key == wanted.key && !e.ignored && same_value(e.setting.value, wanted.value);
  });
}

bool SettingReader::flags(const std::vector<std::string>& flags, std::string_view meaning) {
  ESPALIER_CHECK(!flags.empty() && !meaning.empty());
  std::vector<Setting> wanted;
  for (const std::string& written : flags) wanted.push_back(setting_of_flag(table_, written));
  const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const Setting& s) { return has_value(s); });
  for (const Setting& setting : wanted) {
    if (listed(setting.key)) continue;  // it also has a meaning of its own
    const KeyRow* row = table_.find(setting.key);
    const bool reads = row != nullptr && row->verdict == KeyRow::Verdict::reads;
    if (reads && row->type == "flag")
      (void)flag(setting.key, false, meaning);
    else if (reads || all)
      (void)text(setting.key, row == nullptr ? "" : row->default_value, meaning);
  }
  return all;
}

void SettingReader::pass_over(std::string_view key, std::string_view why) {
  ESPALIER_CHECK(!why.empty());
  Entry* at = entry(key);
  if (at == nullptr) return;
  at->taken = true;
  keys_.push_back({ImportedKey::Kind::without_effect, at->setting.key, at->setting.value, std::string(why), at->setting.line,
                   at->setting.written});
}

void SettingReader::fail(std::string_view key, const std::string& found, const std::string& expected, const std::string& hint) {
  ESPALIER_CHECK(!expected.empty());  // an error must describe what to write
  if (std::any_of(errors_.begin(), errors_.end(), [&](const Fault& f) { return f.key == key; })) return;
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.setting.key == key; });
  const std::int64_t line = at == entries_.end() ? 0 : at->setting.line;
  errors_.push_back({std::string(key), line,
                     Error{ErrorKind::bad_input, line > 0 ? cat(request_.name, ":", line) : request_.name,
                           cat(spelled(key), " = ", found, at == entries_.end() ? " (default)" : ""), expected, hint}});
}

bool SettingReader::failed(std::string_view key) const {
  return std::any_of(errors_.begin(), errors_.end(), [&](const Fault& f) { return f.key == key; });
}

void SettingReader::lacks(const std::string& found, const std::string& expected, const std::string& hint) {
  ESPALIER_CHECK(!found.empty() && !expected.empty());
  if (!lacking_) {
    lacking_ = Error{ErrorKind::bad_input, request_.name, found, expected, hint};
    return;
  }
  lacking_->found += cat(" and ", found);
  lacking_->expected += cat(", and ", expected);
  lacking_->hint += cat(" ", hint);
}

void SettingReader::lacks_file(const std::string& found, const std::string& hint) {
  lacks(found, "that file as well", hint);
  lacks_files_ = true;
}

// ---- leftover settings --------------------------------------------------------------------------------------------

/// Returns whether a key is set to something that switches it on.
bool SettingReader::is_on(const std::string& key) const {
  const KeyRow* row = table_.find(key);
  if (row != nullptr && request_.model_state == ConfigurationRequest::ModelState::given)
    for (const std::string& field : row->model)
      if (!model_field(field).empty()) return true;
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.setting.key == key && !e.ignored && !switched_off(e.setting.value) && e.setting.value != "none" &&
           (row == nullptr || row->type != "word" || !same_value(e.setting.value, row->default_value));
  });
}

/// Returns why the value changes nothing; empty where it has an effect.
std::string SettingReader::harmless(const KeyRow& row, const Setting& setting) const {
  const std::string& value = setting.value;
  if (std::find(row.unless.begin(), row.unless.end(), value) != row.unless.end())
    return row.verdict == KeyRow::Verdict::changes ? "as it is predicted" : "off";
  if (!row.default_value.empty() && same_value(value, row.default_value)) return "the default";
  const bool off = switched_off(value);
  if (value == "None" || (off && (row.unless.empty() || row.verdict == KeyRow::Verdict::refused))) {
    const bool on_by_default = row.default_value == "True";
    if (!on_by_default || value == "None") return "off";
  }
  if (!row.with.empty() && !is_on(row.with)) return cat("read with ", spelled(row.with), " only");
  if (!row.same_as.empty())
    for (const Entry& e : entries_)
      if (e.setting.key == row.same_as && same_value(e.setting.value, value)) return cat("as ", spelled(row.same_as));
  if (request_.model_state != ConfigurationRequest::ModelState::given) return "";
  return row.given ? "as in --model" : agrees(row, setting);
}

/// Returns a field of the given model: "a", "a.b", or the product "a*b"; empty where it is absent or off.
std::string SettingReader::model_field(const std::string& name) const {
  const auto field = [&](const std::string& key) -> std::string {
    for (const auto& [own, value] : request_.model_fields)
      if (own == key || own == "text_config." + key) return switched_off(value) ? "" : value;
    return "";
  };
  const std::size_t star = name.find('*');
  if (star == std::string::npos) return field(name);
  std::int64_t product = 1;
  for (const std::string& text : {field(name.substr(0, star)), field(name.substr(star + 1))}) {
    std::int64_t factor = 0;
    std::from_chars(text.data(), text.data() + text.size(), factor);
    product = capped_product({product, std::max<std::int64_t>(0, factor)});
  }
  return product > 0 ? std::to_string(product) : "";
}

/// Returns why the value agrees with the given model; empty where it does not.
std::string SettingReader::agrees(const KeyRow& row, const Setting& setting) const {
  for (const std::string& name : row.model) {
    const std::string value = model_field(name);
    if (value.empty()) continue;
    if (row.present || same_value(value, setting.value) || value == first_number(setting.value)) return "as in --model";
  }
  return "";
}

void SettingReader::judge(const Setting& setting) {
  using Verdict = KeyRow::Verdict;
  const KeyRow* row = table_.find(setting.key);
  if (row == nullptr) return judge_unknown(setting);
  const auto list_as = [&](ImportedKey::Kind kind, const std::string& why) {
    keys_.push_back({kind, setting.key, setting.value, why, setting.line, setting.written});
  };
  const auto nothing = ImportedKey::Kind::without_effect;
  if (row->verdict == Verdict::without_effect)
    return list_as(nothing, setting.value == "auto" ? kFilled : table_.reason_of(*row).why);
  if (row->verdict == Verdict::reads || row->verdict == Verdict::alias) return list_as(nothing, "nothing here depends on it");
  if (setting.value == "auto") return list_as(nothing, kFilled);
  if (const std::string why = harmless(*row, setting); !why.empty()) return list_as(nothing, why);
  if (row->verdict == Verdict::noted) return list_as(ImportedKey::Kind::read, row->text);
  if (row->verdict == Verdict::changes) return list_as(ImportedKey::Kind::not_modelled, row->text);
  const bool other_model = !row->model.empty() && request_.model_state == ConfigurationRequest::ModelState::given;
  fail(setting.key, shortened(setting.value),
       cat("a configuration without it: ", other_model ? "the given model has another value" : row->text),
       cat("pass --ignore ", setting.key, " if the plan may be predicted without it"));
}

void SettingReader::judge_unknown(const Setting& setting) {
  const auto list_as = [&](ImportedKey::Kind kind, const char* why) {
    keys_.push_back({kind, setting.key, setting.value, why, setting.line, setting.written});
  };
  if (switched_off(setting.value)) return list_as(ImportedKey::Kind::without_effect, "off");
  const auto speaks = std::find_if(table_.words.begin(), table_.words.end(), [&](const std::string& word) {
    return base::lower(setting.key).find(word) != std::string::npos;
  });
  // A misspelt key of the plan is reported instead of listed as unknown.
  std::vector<std::string> known;
  for (const KeyRow& row : table_.rows)
    if (row.verdict == KeyRow::Verdict::reads) known.push_back(row.key);
  const std::string similar = base::suggestion(setting.key, known);
  if (speaks == table_.words.end() && similar.empty()) return list_as(ImportedKey::Kind::not_understood, "unknown");
  const std::string why = speaks == table_.words.end() ? "" : cat(": by its name (\"", *speaks, "\") it may change the plan");
  fail(setting.key, shortened(setting.value), cat("a known key", why),
       cat(similar, similar.empty() ? "" : "; ", "pass --ignore ", setting.key, " if it does not"));
}

/// Returns a single fault unchanged, or several as one error, sorted by line.
Error SettingReader::all_faults() {
  if (lacks_files_) std::erase_if(errors_, [](const Fault& fault) { return fault.line == 0; });
  std::stable_sort(errors_.begin(), errors_.end(), [](const Fault& a, const Fault& b) { return a.line < b.line; });
  std::vector<Error> all;
  std::vector<std::string> names;
  for (Fault& fault : errors_) {
    for (const std::string& name : fault.names)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    all.push_back(std::move(fault.error));
  }
  if (lacking_) all.push_back(std::move(*lacking_));
  if (all.size() == 1) return all.front();
  Error out{ErrorKind::bad_input, request_.name, cat(static_cast<std::int64_t>(all.size()), " faults"), "a file without them",
            "fix each of these:"};
  for (const Error& error : all) out.hint += cat("\n  ", error.message());
  if (names.size() > 1) out.hint += cat("\nthe script needs: ", asked(names));
  return out;
}

Result<std::vector<ImportedKey>> SettingReader::finish() {
  for (const Entry& e : entries_)
    if (!e.taken) judge(e.setting);
  if (!ok()) return all_faults();
  std::stable_sort(keys_.begin(), keys_.end(), [](const ImportedKey& a, const ImportedKey& b) {
    if (a.kind != b.kind) return rank_of(a.kind) < rank_of(b.kind);
    return a.line < b.line;
  });
  return std::move(keys_);
}

std::int64_t said_or(SettingReader& reader, std::string_view key, std::int64_t in_file, const std::optional<std::int64_t>& asked,
                     std::string_view flag) {
  ESPALIER_CHECK(flag.starts_with("--"));
  if (asked.value_or(0) == 0) return in_file;
  if (in_file != 0 && in_file != *asked) {
    reader.fail(key, std::to_string(in_file), cat(*asked, ", as ", flag, " sets"), "omit the flag: the file sets it");
    return in_file;
  }
  if (in_file == 0)
    reader.list({ImportedKey::Kind::read, std::string(flag), std::to_string(*asked), "set on the command line", 0});
  return *asked;
}

}  // namespace espalier::exchange
