// SPDX-License-Identifier: Apache-2.0
#include "exchange/flag_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/document.h"
#include "base/format.h"
#include "data/engine_flags_yaml.h"

namespace espalier::exchange {
namespace {

using base::cat;
using base::Node;
using base::NodeKind;
using base::Reader;

std::vector<std::string> versions_of(Reader& r) {
  std::vector<std::string> out;
  const Node* node = r.find("versions");
  const bool list = node != nullptr && node->kind == NodeKind::sequence && !node->items.empty();
  if (!list) r.fail("versions", "", "a list of versions in quotes, the oldest first");
  for (std::size_t i = 0; list && i < node->items.size(); ++i) {
    if (node->items[i].kind != NodeKind::string) r.fail("versions", "", "versions in quotes");
    out.push_back(node->items[i].text);
  }
  return out;
}

std::ptrdiff_t place_of(const std::vector<std::string>& versions, const std::string& version) {
  return std::find(versions.begin(), versions.end(), version) - versions.begin();
}

/// A bound of a flag: one of the table's versions, or empty.
std::string bound_of(Reader& r, const char* key, const std::vector<std::string>& versions) {
  std::string out = r.optional_string(key, "");
  if (!out.empty() && place_of(versions, out) == static_cast<std::ptrdiff_t>(versions.size()))
    r.fail(key, out, cat("one of ", base::joined(versions)));
  return out;
}

EngineFlags read_engine(Reader& r) {
  EngineFlags out{r.required_string("engine"), r.required_string("product"), versions_of(r), {}};
  const std::string source = r.required_string("source");
  r.each("flags", true, [&](Reader& f) {
    EngineFlag flag{f.required_string("says"), f.required_string("name"), f.optional_string("value", ""), "", "", ""};
    flag.since = bound_of(f, "since", out.versions);
    flag.until = bound_of(f, "until", out.versions);
    flag.source = f.optional_string("source", source);
    f.finish();
    out.flags.push_back(std::move(flag));
  });
  r.finish();
  return out;
}

bool known_to(const EngineFlags& engine, const EngineFlag& flag, const std::string& version) {
  const std::ptrdiff_t at = place_of(engine.versions, version);
  if (!flag.since.empty() && at < place_of(engine.versions, flag.since)) return false;
  return flag.until.empty() || at <= place_of(engine.versions, flag.until);
}

}  // namespace

const EngineFlag* FlagTable::find(std::string_view says) const {
  const auto at = std::find_if(flags.begin(), flags.end(), [says](const EngineFlag& f) { return f.says == says; });
  return at == flags.end() ? nullptr : &*at;
}

Result<std::vector<EngineFlags>> read_engine_flags(std::string_view yaml, const std::string& where) {
  const auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  if (root.required_string("schema") != "espalier.engine-flags/1") root.fail("schema", "", "espalier.engine-flags/1");
  std::vector<EngineFlags> out;
  root.each("engines", true, [&](Reader& r) { out.push_back(read_engine(r)); });
  root.finish();
  if (!sink.ok()) return *sink.first();
  return out;
}

const std::vector<EngineFlags>& engine_flags() {
  static const std::vector<EngineFlags> tables = [] {
    auto read = read_engine_flags(embedded::engine_flags_yaml, "data/engine_flags.yaml");
    ESPALIER_CHECK(read.ok());
    return std::move(*read);
  }();
  return tables;
}

Result<FlagTable> flags_of(std::string_view engine, const std::string& version) {
  const std::vector<EngineFlags>& tables = engine_flags();
  const auto at = std::find_if(tables.begin(), tables.end(), [engine](const EngineFlags& t) { return t.engine == engine; });
  ESPALIER_CHECK(at != tables.end());  // every exporter that asks has one
  const std::string wanted = version.empty() ? at->versions.back() : version;
  if (place_of(at->versions, wanted) == static_cast<std::ptrdiff_t>(at->versions.size()))
    return Error{ErrorKind::usage, cat("--engine ", engine, "@", wanted), cat("version ", wanted),
                 cat("one of ", base::joined(at->versions)), cat("without @VERSION: ", at->versions.back())};
  FlagTable out{at->product, wanted, {}};
  for (const EngineFlag& flag : at->flags)
    if (known_to(*at, flag, wanted)) out.flags.push_back(flag);
  return out;
}

}  // namespace espalier::exchange
