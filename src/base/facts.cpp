// SPDX-License-Identifier: Apache-2.0
#include "base/facts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "base/shipped.h"
#include "data/facts_yaml.h"

namespace espalier::base {
namespace {

constexpr double kMostValue = 1e15;  // beyond any rate, size or count of a machine

void read_row(Reader& row, Fact& fact) {
  FactRow read{row.required_real("value", 0, kMostValue), read_era(row), row.required_string("source")};
  const std::string engine = row.optional_string("engine", "");
  (void)row.optional_string("holds", "");
  std::vector<FactRow>& rows = fact.rows[engine];
  if (std::any_of(rows.begin(), rows.end(), [&](const FactRow& other) { return overlap(other.era, read.era); }))
    row.fail("since", "", "an era of its own, which no other row of the engine has");
  if (engine.empty() && fact.versions.empty() && (read.era.since || read.era.until))
    row.fail("since", "", "an engine whose version it is, or `versions` of the fact");
  if (!engine.empty() && !fact.versions.empty()) row.fail("engine", engine, "no engine: `versions` of the fact are not its");
  row.finish();
  rows.push_back(std::move(read));
}

/// Checks that each version has a row.
void check_complete(Reader& fact, const Fact& read) {
  const auto all = read.rows.find("");
  const bool complete = all != read.rows.end() &&
                        std::any_of(all->second.begin(), all->second.end(), [](const FactRow& row) { return !row.era.since; });
  if (!complete) fact.fail("rows", "", "a row without `engine` and `since`, which holds where no other does");
}

}  // namespace

const Fact& Facts::fact(std::string_view name, bool has_versions) const {
  const auto at = facts_.find(name);
  if (at == facts_.end()) check_failed("no such fact", std::string(name).c_str(), 0);
  if (at->second.versions.empty() == has_versions)
    check_failed(has_versions ? "a fact without versions of its own" : "a fact with versions of its own",
                 std::string(name).c_str(), 0);
  return at->second;
}

double Facts::value(std::string_view name, const FactContext& context) const {
  const auto& rows = fact(name, false).rows;
  for (const std::string_view engine : {context.engine, std::string_view()}) {
    const auto own = rows.find(engine);
    if (own == rows.end()) continue;
    if (const FactRow* row = row_at(std::span<const FactRow>(own->second), context.version)) return row->value;
  }
  check_failed("no row of a fact holds", std::string(name).c_str(), 0);
}

double Facts::value_at(std::string_view name, std::string_view version) const {
  const auto& rows = fact(name, true).rows;
  const std::optional<Version> at = Version::parse(version);
  if (!at) check_failed("no version", std::string(version).c_str(), 0);
  const FactRow* row = row_at(std::span<const FactRow>(rows.at("")), at);
  ESPALIER_CHECK(row != nullptr);  // check_complete
  return row->value;
}

Result<Facts> read_facts(std::string_view yaml, const std::string& where) {
  auto document = read_yaml(yaml, where);
  if (!document) return document.error();
  ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  const std::string schema = root.required_string("schema");
  if (schema != "espalier.facts/1") root.fail("schema", schema, "espalier.facts/1");
  std::map<std::string, Fact, std::less<>> facts;
  root.each("facts", true, [&](Reader& r) {
    const std::string name = r.required_string("name");
    Fact fact{r.required_string("unit"), r.required_string("meaning"), r.optional_string("versions", ""), {}};
    r.each("rows", true, [&](Reader& row) { read_row(row, fact); });
    check_complete(r, fact);
    r.finish();
    if (!facts.emplace(name, std::move(fact)).second) r.fail("name", cat(name, " a second time"), "one entry per fact");
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return Facts(std::move(facts));
}

const Facts& shipped_facts() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const Facts facts = shipped(read_facts(embedded::facts_yaml, "data/facts.yaml"), "data/facts.yaml");
  return facts;
}

}  // namespace espalier::base
