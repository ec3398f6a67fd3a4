// SPDX-License-Identifier: Apache-2.0
#include "runs/record_dictionary.h"

#include "base/format.h"
#include "base/shipped.h"
#include "data/dictionary_records_yaml.h"

namespace espalier::runs {
namespace {

std::vector<Node> values_of(Reader& r, std::string_view key) {
  const Node* node = r.find(key);
  if (node == nullptr) return {};
  if (node->kind != NodeKind::sequence || node->items.empty())
    r.fail(key, std::string(to_string(node->kind)), "a list of values");
  return node->items;
}

std::vector<std::string> words_of(Reader& r, std::string_view key) {
  std::vector<std::string> out;
  for (const Node& item : values_of(r, key)) {
    if (item.kind != NodeKind::string || item.text.empty()) r.fail(key, base::to_json(item), "a list of words");
    out.push_back(base::lower(item.text));
  }
  if (out.empty()) r.fail(key, "nothing", "a list of words");
  return out;
}

/// Returns the parts of a key: "recipe.moe_a2a_overlap" has two.
std::vector<std::string> path_of(Reader& r) {
  const std::string key = r.required_string("key");
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= key.size();) {
    const std::size_t end = std::min(key.find('.', at), key.size());
    out.push_back(key.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// Ends a row. Every row names its source.
void finish_row(Reader& row) {
  (void)row.required_string("source");
  row.finish();
}

RecordDictionary::Condition read_condition(Reader& r) {
  RecordDictionary::Condition out{path_of(r), values_of(r, "is"), values_of(r, "holds"), std::nullopt};
  if (r.has("above")) out.above = r.required_real("above", 0, 1e9);
  if (int{!out.is.empty()} + int{!out.holds.empty()} + int{out.above.has_value()} != 1)
    r.fail("key", base::to_json(r.node()), "one of is, holds and above");
  r.finish();
  return out;
}

void read_techniques(Reader& in, RecordDictionary& out) {
  Reader denied = in.child("denied", true);
  out.denied = {words_of(denied, "before"), words_of(denied, "after")};
  denied.finish();
  in.each("techniques", true, [&](Reader& row) {
    out.techniques.push_back({row.required_string("technique"), words_of(row, "words"), words_of(row, "fields")});
    finish_row(row);
  });
  in.each("switches", true, [&](Reader& row) {
    RecordDictionary::Switch read{row.required_string("technique"), !row.optional_bool("off", false), {}};
    row.each("when", true, [&](Reader& condition) { read.when.push_back(read_condition(condition)); });
    finish_row(row);
    out.switches.push_back(std::move(read));
  });
}

void read_adapters(Reader& in, RecordDictionary& out) {
  in.each("stated", true, [&](Reader& row) {
    out.stated.push_back({path_of(row), words_of(row, "rank"), words_of(row, "targets")});
    finish_row(row);
  });
  in.each("assumed", true, [&](Reader& row) {
    RecordDictionary::AssumedAdapter read;
    read.framework = base::lower(row.required_string("framework"));
    read.rank = row.required_int("rank", 1, 1 << 16);
    read.targets = words_of(row, "targets");
    read.source = row.required_string("source");
    row.finish();
    out.assumed.push_back(std::move(read));
  });
}

void read_memory(Reader& in, RecordDictionary& out) {
  Reader memory = in.child("memory", true);
  out.memory_clauses = words_of(memory, "clauses");
  memory.each("kinds", true, [&](Reader& row) {
    const auto kind = static_cast<MemoryKind>(row.optional_choice("kind", {"allocated", "reserved", "device"}, 0));
    out.memory.push_back({kind, words_of(row, "words")});
    finish_row(row);
  });
  memory.finish();
}

void read_frozen(Reader& in, RecordDictionary& out) {
  Reader frozen = in.child("frozen", true);
  out.frozen_after = words_of(frozen, "after");
  frozen.each("types", true, [&](Reader& row) {
    const auto type = static_cast<FrozenType>(row.optional_choice(
        "base", {to_string(FrozenType::compute), to_string(FrozenType::nf4), to_string(FrozenType::int8)}, 0));
    out.frozen.push_back({base::lower(row.required_string("word")), type, row.optional_string("note", "")});
    finish_row(row);
  });
  frozen.finish();
}

}  // namespace

std::string_view to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::allocated: return "allocated";
    case MemoryKind::reserved: return "reserved";
    case MemoryKind::device: break;
  }
  return "device";
}

Result<RecordDictionary> read_record_dictionary(std::string_view yaml, const std::string& where) {
  const auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader in = Reader::root(*document, sink);
  constexpr const char* kSchema = "espalier.record-dictionary/1";
  if (in.required_string("schema") != kSchema) in.fail("schema", "", kSchema);
  (void)in.required_string("version");
  RecordDictionary out;
  read_techniques(in, out);
  read_adapters(in, out);
  in.each("releases", true, [&](Reader& row) {
    out.releases.push_back({row.required_string("field"), base::lower(row.optional_string("before", "")),
                            base::lower(row.optional_string("after", "")), row.optional_int("digits", 0, 9, 0)});
    finish_row(row);
  });
  read_memory(in, out);
  read_frozen(in, out);
  finish_row(in);
  if (!sink.ok()) return sink.first().error();
  return out;
}

const RecordDictionary& record_dictionary() {
  static const RecordDictionary dictionary =
      base::shipped(read_record_dictionary(embedded::dictionary_records_yaml, "records.yaml"), "data/dictionary/records.yaml");
  return dictionary;
}

}  // namespace espalier::runs
