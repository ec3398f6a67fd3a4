// SPDX-License-Identifier: Apache-2.0
#include "plan/rule_book.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/document.h"
#include "data/engine_rules_yaml.h"

namespace espalier {
namespace {

using base::Node;
using base::NodeKind;
using base::Reader;

struct Family {
  std::string prefix, versions, source;
};

Family read_family(Reader& r) {
  Family out{r.required_string("prefix"), r.required_string("versions"), r.required_string("source")};
  r.required_string("engines");
  r.finish();
  return out;
}

std::vector<std::string> ids_of(Reader& r) {
  std::vector<std::string> out;
  const Node* node = r.find("ids");
  if (node == nullptr || node->kind != NodeKind::sequence || node->items.empty()) {
    r.fail("ids", "", "a list of ids");
    return out;
  }
  for (const Node& item : node->items) {
    if (item.kind != NodeKind::string) r.fail("ids", "", "a list of ids");
    out.push_back(item.text);
  }
  return out;
}

void read_rule(Reader& r, const std::vector<Family>& families, std::set<std::string>& known, std::vector<RuleEntry>& out) {
  RuleEntry entry;
  constexpr std::size_t kNone = 4;
  const std::size_t kept = r.optional_choice("kept", {"plan", "export", "writer", "unused"}, kNone);
  if (kept == kNone) r.fail("kept", "", "plan, export, writer or unused");
  entry.kept = static_cast<RuleKeeper>(kept % kNone);
  entry.statement = r.required_string("statement");
  const std::string versions = r.optional_string("versions", ""), source = r.optional_string("source", "");
  for (const std::string& id : ids_of(r)) {
    const auto family = std::find_if(families.begin(), families.end(), [&](const Family& f) { return id.starts_with(f.prefix); });
    if (family == families.end()) r.fail("ids", id, "an id that begins as one of the families does");
    if (!known.insert(id).second) r.fail("ids", id, "an id that is not stated twice");
    if (family == families.end()) continue;
    entry.id = id;
    entry.versions = versions.empty() ? family->versions : versions;
    entry.source = source.empty() ? family->source : source;
    out.push_back(entry);
  }
  r.finish();
}

}  // namespace

Result<std::vector<RuleEntry>> read_rule_book(std::string_view yaml, const std::string& where) {
  const auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  if (root.required_string("schema") != "espalier.engine-rules/1") root.fail("schema", "", "espalier.engine-rules/1");
  std::vector<Family> families;
  root.each("families", true, [&](Reader& r) { families.push_back(read_family(r)); });
  std::set<std::string> known;
  std::vector<RuleEntry> out;
  root.each("rules", true, [&](Reader& r) { read_rule(r, families, known, out); });
  root.finish();
  if (!sink.ok()) return *sink.first();
  return out;
}

const std::vector<RuleEntry>& rule_book() {
  static const std::vector<RuleEntry> book = [] {
    auto read = read_rule_book(embedded::engine_rules_yaml, "data/engine_rules.yaml");
    ESPALIER_CHECK(read.ok());
    return std::move(*read);
  }();
  return book;
}

const RuleEntry* find_rule_entry(std::string_view id) {
  const std::vector<RuleEntry>& book = rule_book();
  const auto at = std::find_if(book.begin(), book.end(), [id](const RuleEntry& e) { return e.id == id; });
  return at == book.end() ? nullptr : &*at;
}

}  // namespace espalier
