// SPDX-License-Identifier: Apache-2.0
#include "exchange/dictionary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "base/shipped.h"
#include "data/dictionary_accelerate_yaml.h"
#include "data/dictionary_deepspeed_yaml.h"
#include "data/dictionary_launchers_yaml.h"
#include "data/dictionary_megatron_yaml.h"
#include "data/dictionary_programs_yaml.h"
#include "data/dictionary_torchtitan_yaml.h"

namespace espalier::exchange {
namespace {

constexpr std::array<std::pair<const char*, KeyRow::Verdict>, 6> kVerdicts = {
    std::pair{"reads", KeyRow::Verdict::reads},  {"noted", KeyRow::Verdict::noted},
    {"effect", KeyRow::Verdict::without_effect}, {"changes", KeyRow::Verdict::changes},
    {"refused", KeyRow::Verdict::refused},       {"alias", KeyRow::Verdict::alias}};

std::vector<std::string> words_in(base::Reader& reader, const char* key) {
  std::vector<std::string> out;
  const base::Node* list = reader.find(key);
  if (list == nullptr) return out;
  for (const base::Node& item : list->items) out.push_back(item.text);
  return out;
}

KeyRow read_row(base::Reader& in, std::string& fault) {
  KeyRow row;
  row.key = in.required_string("key");
  row.names = words_in(in, "names");
  row.flags = words_in(in, "flags");
  row.type = in.required_string("type");
  row.default_value = in.optional_string("default", "");
  row.older = in.optional_bool("older", false);
  int verdicts = 0;
  for (const auto& [name, verdict] : kVerdicts)
    if (in.has(name)) {
      row.verdict = verdict;
      row.text = in.required_string(name);
      ++verdicts;
    }
  row.value = in.optional_string("value", "");
  row.unless = words_in(in, "unless");
  row.with = in.optional_string("with", "");
  row.model = words_in(in, "model");
  row.present = in.optional_bool("present", false);
  row.given = in.optional_bool("given", false);
  row.same_as = in.optional_string("same_as", "");
  row.asserts = in.optional_string("asserts", "");
  in.finish();
  if (verdicts != 1 || row.text.empty()) fault = cat(row.key, " with ", verdicts, " verdicts");
  constexpr std::array<std::string_view, 6> kTypes = {"flag", "off", "integer", "real", "word", "list"};
  if (std::find(kTypes.begin(), kTypes.end(), row.type) == kTypes.end()) fault = cat(row.key, " of type ", row.type);
  return row;
}

/// Indexes the rows by every spelling, which must be unique.
std::string index_of(KeyTable& table) {
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const KeyRow& row = table.rows[i];
    std::vector<std::string> names = row.names;
    names.insert(names.begin(), row.key);
    for (const std::string& flag : row.flags) names.push_back(plain_key(flag));
    for (const std::string& name : names) {
      const auto [at, fresh] = table.index.emplace(name, i);
      if (!fresh && at->second != i) return cat("a second row of ", name);
    }
  }
  return "";
}

std::string broken_reference(const KeyTable& table) {
  for (const KeyRow& row : table.rows) {
    if (row.verdict == KeyRow::Verdict::without_effect && table.reasons.count(row.text) == 0)
      return cat(row.key, " of class ", row.text);
    for (const std::string* key : {&row.with, &row.same_as})
      if (!key->empty() && table.index.count(*key) == 0) return cat(row.key, " that refers to ", *key);
  }
  return "";
}

KeyTable shipped(std::string_view text, const char* file) { return base::shipped(read_key_table(text, file), file); }

}  // namespace

std::string_view to_string(KeyRow::Verdict verdict) {
  for (const auto& [name, value] : kVerdicts)
    if (value == verdict) return name;
  return "";
}

std::string plain_key(std::string_view name) {
  if (name.starts_with("--")) name.remove_prefix(2);
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

Result<KeyTable> read_key_table(std::string_view yaml, const std::string& where) {
  const auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader in = base::Reader::root(*document, sink);
  KeyTable out;
  std::string fault;
  in.required_string("schema");
  out.format = in.required_string("format");
  out.framework = in.required_string("framework");
  out.version = in.required_string("version");
  in.required_string("source");
  out.words = words_in(in, "words");
  out.also = words_in(in, "also");
  in.each("reasons", true, [&](base::Reader& row) {
    const std::string name = row.required_string("class");
    out.reasons[name] = {row.required_string("why"), row.required_string("source")};
    row.finish();
  });
  in.each("keys", true, [&](base::Reader& row) { out.rows.push_back(read_row(row, fault)); });
  in.each("programs", false, [&](base::Reader& row) {
    KeyTable::Program program{row.required_string("program"), row.required_string("source"), words_in(row, "signs"), {}};
    for (const std::string& set : words_in(row, "sets")) {
      const std::size_t equals = set.find('=');
      program.sets.emplace_back(set.substr(0, equals), set.substr(std::min(equals, set.size() - 1) + 1));
    }
    row.finish();
    out.programs.push_back(std::move(program));
  });
  in.finish();
  if (!sink.ok()) return sink.first().error();
  if (fault.empty()) fault = index_of(out);
  if (fault.empty()) fault = broken_reference(out);
  if (!fault.empty()) return Error{ErrorKind::bad_input, where, fault, "one row per key, with one verdict", ""};
  return out;
}

const KeyRow* KeyTable::find(std::string_view name) const {
  auto at = index.find(name);
  if (at == index.end()) at = index.find(plain_key(name));
  if (at != index.end()) return &rows[at->second];
  for (const std::string& other : also)
    if (const KeyRow* row = key_table(other).find(name)) return row;
  return nullptr;
}

const KeyTable::Reason& KeyTable::reason_of(const KeyRow& row) const {
  const auto own = reasons.find(row.text);
  if (own != reasons.end() && &row >= rows.data() && &row < rows.data() + rows.size()) return own->second;
  for (const std::string& other : also) {
    const KeyTable& table = key_table(other);
    if (&row >= table.rows.data() && &row < table.rows.data() + table.rows.size()) return table.reason_of(row);
  }
  ESPALIER_CHECK(own != reasons.end());
  return own->second;
}

const KeyTable& key_table(std::string_view format) {
  ESPALIER_CHECK(!format.empty());
  if (format == "megatron-args") {
    static const KeyTable table = shipped(embedded::dictionary_megatron_yaml, "data/dictionary/megatron.yaml");
    return table;
  }
  if (format == "torchtitan") {
    static const KeyTable table = shipped(embedded::dictionary_torchtitan_yaml, "data/dictionary/torchtitan.yaml");
    return table;
  }
  if (format == "deepspeed") {
    static const KeyTable table = shipped(embedded::dictionary_deepspeed_yaml, "data/dictionary/deepspeed.yaml");
    return table;
  }
  if (format == "accelerate") {
    static const KeyTable table = shipped(embedded::dictionary_accelerate_yaml, "data/dictionary/accelerate.yaml");
    return table;
  }
  if (format == "launchers") {
    static const KeyTable table = shipped(embedded::dictionary_launchers_yaml, "data/dictionary/launchers.yaml");
    return table;
  }
  ESPALIER_CHECK(format == "programs");
  static const KeyTable table = shipped(embedded::dictionary_programs_yaml, "data/dictionary/programs.yaml");
  return table;
}

}  // namespace espalier::exchange
