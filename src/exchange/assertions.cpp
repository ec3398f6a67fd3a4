// SPDX-License-Identifier: Apache-2.0
#include "exchange/assertions.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "base/shipped.h"
#include "data/assertions_yaml.h"

namespace espalier::exchange {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

enum class Truth : std::uint8_t { no, yes, unknown };

Truth truth(bool holds) { return holds ? Truth::yes : Truth::no; }

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_on(const Values& values, const std::string& key) {
  const auto at = values.find(key);
  return at != values.end() && !switched_off(at->second);
}

/// Returns a number, or the value of a key: true counts 1, an absent flag is unknown.
std::optional<std::int64_t> value_of(const Values& values, const std::string& word) {
  if (const auto number = number_of(word)) return number;
  const auto at = values.find(word);
  if (at == values.end()) return std::nullopt;
  if (at->second == "True" || at->second == "true") return 1;
  if (at->second == "False" || at->second == "false") return 0;
  return number_of(at->second);
}

/// Evaluates from left to right: "a * b + 1 % c" is ((a · b) + 1) mod c.
std::optional<std::int64_t> sum_of(const Values& values, const std::vector<std::string>& words) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  auto out = words.empty() ? std::nullopt : value_of(values, words.front());
  for (std::size_t i = 1; out && i + 1 < words.size(); i += 2) {
    const auto right = value_of(values, words[i + 1]);
    if (!right || *right > kMost || *out > kMost || *out < -kMost || *right < -kMost) return std::nullopt;
    if ((words[i] == "%" || words[i] == "/") && *right <= 0) return std::nullopt;
    out = words[i] == "*"   ? capped_product({std::max<std::int64_t>(0, *out), std::max<std::int64_t>(0, *right)})
          : words[i] == "+" ? *out + *right
          : words[i] == "-" ? *out - *right
          : words[i] == "/" ? *out / *right
                            : *out % *right;
  }
  return out;
}

bool compares(std::int64_t a, const std::string& how, std::int64_t b) {
  if (how == "=") return a == b;
  if (how == "!=") return a != b;
  if (how == "<") return a < b;
  if (how == "<=") return a <= b;
  if (how == ">") return a > b;
  return a >= b;
}

bool is_comparison(const std::string& word) {
  return word == "=" || word == "!=" || word == "<" || word == "<=" || word == ">" || word == ">=";
}

Truth truth_of(const Values& values, const std::string& term) {
  const std::vector<std::string> words = words_of(term);
  ESPALIER_CHECK(!words.empty() && !words.front().empty());
  const auto at = std::find_if(words.begin(), words.end(), is_comparison);
  if (at == words.end())
    return words.front().front() == '!' ? truth(!is_on(values, words.front().substr(1))) : truth(is_on(values, words.front()));
  const std::vector<std::string> left(words.begin(), at), right(at + 1, words.end());
  const bool word = left.size() == 1 && right.size() == 1 && !number_of(right.front()) && !values.contains(right.front());
  if (word && (*at == "=" || *at == "!=")) {
    const auto own = values.find(left.front());
    if (own == values.end()) return Truth::unknown;
    return truth((own->second == right.front()) == (*at == "="));
  }
  const auto a = sum_of(values, left), b = sum_of(values, right);
  return a && b ? truth(compares(*a, *at, *b)) : Truth::unknown;
}

bool is_broken(const Assertion& rule, const Values& values) {
  ESPALIER_CHECK(!rule.id.empty() && !(rule.when.empty() && rule.needs.empty()));  // the rule has a term
  const bool asked = std::all_of(rule.when.begin(), rule.when.end(),
                                 [&](const std::string& term) { return truth_of(values, term) == Truth::yes; });
  return asked && std::all_of(rule.needs.begin(), rule.needs.end(),
                              [&](const std::string& term) { return truth_of(values, term) == Truth::no; });
}

std::vector<std::string> texts(Reader& r, std::string_view key) {
  std::vector<std::string> out;
  const base::Node* node = r.find(key);
  if (node == nullptr) return out;
  if (node->kind != base::NodeKind::sequence) r.fail(key, "", "a list of terms");
  for (const base::Node& item : node->items) out.push_back(item.text);
  for (const std::string& term : out)
    if (words_of(term).empty()) r.fail(key, "an empty term", "a key, or a comparison");
  return out;
}

Assertion read_assertion(Reader& r) {
  Assertion out;
  out.id = r.required_string("id");
  out.says = r.required_string("says");
  out.source = r.required_string("source");
  if (r.has("hint")) out.hint = r.required_string("hint");
  if (r.has("adjust")) out.adjust = r.required_string("adjust");
  out.when = texts(r, "when");
  out.needs = texts(r, "needs");
  r.finish();
  return out;
}

std::vector<std::pair<std::string, std::string>> pairs(Reader& r, std::string_view key) {
  std::vector<std::pair<std::string, std::string>> out;
  if (const base::Node* node = r.find(key); node != nullptr)
    for (const auto& [name, value] : node->members)
      out.emplace_back(name, value.kind == base::NodeKind::boolean ? (value.boolean ? "True" : "False") : value.text);
  return out;
}

AssertionTable read_table(Reader& r) {
  AssertionTable out;
  out.format = r.required_string("format");
  out.version = r.required_string("version");
  out.defaults = pairs(r, "defaults");
  out.derived = pairs(r, "derived");
  r.each("assertions", true, [&](Reader& row) { out.assertions.push_back(read_assertion(row)); });
  r.finish();
  return out;
}

}  // namespace

Result<std::vector<AssertionTable>> read_assertions(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  const std::string schema = root.required_string("schema");
  if (schema != "espalier.assertions/1") root.fail("schema", schema, "espalier.assertions/1");
  std::vector<AssertionTable> out;
  root.each("formats", true, [&](Reader& r) { out.push_back(read_table(r)); });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

const AssertionTable& assertion_table(std::string_view format) {
  static const std::vector<AssertionTable> tables =
      base::shipped(read_assertions(embedded::assertions_yaml, "data/assertions.yaml"), "data/assertions.yaml");
  static const AssertionTable none;
  const auto at = std::find_if(tables.begin(), tables.end(), [&](const AssertionTable& t) { return t.format == format; });
  return at == tables.end() ? none : *at;
}

namespace {

/// Computes the derived names from the other values.
void derive(const AssertionTable& table, Values& values) {
  for (const auto& [name, what] : table.derived)
    if (const auto value = sum_of(values, words_of(what))) values[name] = std::to_string(*value);
}

/// Returns the values of the terms: defaults, the settings, and derived names.
Values values_of(const AssertionTable& table, const ConfigurationRequest& request, const std::vector<Setting>& settings) {
  Values values(table.defaults.begin(), table.defaults.end());
  values["world_size"] = std::to_string(request.devices);
  const KeyTable& keys = key_table(table.format);
  for (Setting setting : settings) {
    name_by_row(keys, setting);
    const bool ignored = std::find(request.ignored.begin(), request.ignored.end(), setting.key) != request.ignored.end();
    const bool silent = setting.value == "None" || setting.value == "null" || setting.value == "auto";
    if (ignored || silent || setting.condition != 0) continue;
    values[setting.key] = setting.value;
    if (setting.key.starts_with("no_") && !switched_off(setting.value)) values[setting.key.substr(3)] = "False";
  }
  derive(table, values);
  return values;
}

/// Returns the nearest values below and above the key's present one: "--tensor-model-parallel-size 2 or 4 would do".
/// They divide the number of devices and break no rule that would adjust the key. Empty: there are none.
std::string nearest_values(const AssertionTable& table, const Values& values, const std::string& key, std::int64_t devices) {
  const auto present = value_of(values, key);
  if (!present) return "";
  const auto would_do = [&](std::int64_t value) {
    Values changed = values;
    changed[key] = std::to_string(value);
    derive(table, changed);
    return devices % value == 0 && std::none_of(table.assertions.begin(), table.assertions.end(), [&](const Assertion& rule) {
             return rule.adjust == key && is_broken(rule, changed);
           });
  };
  std::vector<std::string> found;
  for (std::int64_t value = std::min(*present - 1, devices); value >= 1 && found.empty(); --value)
    if (would_do(value)) found.push_back(std::to_string(value));
  const std::size_t below = found.size();
  for (std::int64_t value = std::max<std::int64_t>(1, *present + 1); value <= devices && found.size() == below; ++value)
    if (would_do(value)) found.push_back(std::to_string(value));
  ESPALIER_CHECK(below <= 1 && found.size() <= 2);
  if (found.empty()) return "";
  std::string flag = key;
  if (table.format == "megatron-args") {
    std::replace(flag.begin(), flag.end(), '_', '-');
    flag.insert(0, "--");
  }
  return cat(flag, " ", base::joined(found, " or "), " would do");
}

}  // namespace

Status broken_assertions(const AssertionTable& table, const ConfigurationRequest& request, const std::vector<Setting>& settings) {
  ESPALIER_CHECK(request.devices >= 0);
  const Values values = values_of(table, request, settings);
  std::string broken, expected, hints;
  const auto add = [](std::string& text, const std::string& piece) {
    if (!piece.empty() && text.find(piece) == std::string::npos) text += cat(text.empty() ? "" : "; ", piece);
  };
  for (const Assertion& rule : table.assertions) {
    if (!is_broken(rule, values)) continue;
    ESPALIER_CHECK(!rule.source.empty());  // every assertion names its place in the framework
    add(broken, rule.id);
    add(expected, cat(rule.says, " (", rule.source, ")"));
    add(hints, rule.hint);
    if (!rule.adjust.empty()) add(hints, nearest_values(table, values, rule.adjust, request.devices));
  }
  if (broken.empty()) return {};
  return Error{ErrorKind::check_failed, request.name, cat("settings that violate ", broken),
               cat("what ", table.version, " asserts: ", expected), hints};
}

Result<ImportedConfiguration> with_assertions(Result<ImportedConfiguration> read, const Status& broken) {
  if (broken.ok()) return read;
  ESPALIER_CHECK(!broken.error().found.empty() && !broken.error().expected.empty());
  if (read) return broken.error();
  const auto both = [](const std::string& a, const std::string& b) { return a.empty() || b.empty() ? a + b : a + "; " + b; };
  const Error& refused = read.error();
  return Error{broken.error().kind, refused.where, both(refused.found, broken.error().found),
               both(refused.expected, broken.error().expected), both(refused.hint, broken.error().hint)};
}

}  // namespace espalier::exchange
