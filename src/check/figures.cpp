// SPDX-License-Identifier: Apache-2.0
#include "check/figures.h"

#include <string_view>

#include "base/document.h"
#include "base/invariant.h"
#include "data/facts_yaml.h"

namespace espalier::check {
namespace {

using base::Node;
using base::Version;

const Node& list_of_facts() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const base::Document document = [] {
    auto read = base::read_yaml(embedded::facts_yaml, "data/facts.yaml");
    ESPALIER_CHECK(read.ok());
    return std::move(read).value();
  }();
  const Node* list = document.root.find("facts");
  ESPALIER_CHECK(list != nullptr);
  return *list;
}

std::string text_of(const Node& row, std::string_view key) {
  const Node* node = row.find(key);
  return node == nullptr ? "" : node->text;
}

/// Returns the rows of an engine that have begun at a version, the newest one; null without any.
const Node* newest_row(const Node& rows, const std::string& engine, const std::optional<Version>& version) {
  const Node* newest = nullptr;
  std::optional<Version> begun;
  for (const Node& row : rows.items) {
    if (text_of(row, "engine") != engine) continue;
    const std::string since = text_of(row, "since");
    const std::optional<Version> begins = since.empty() ? std::nullopt : Version::parse(since);
    if (begins && version && *version < *begins) continue;
    if (newest != nullptr && (!begins || (begun && *begins < *begun))) continue;
    newest = &row;
    begun = begins;
  }
  return newest;
}

double figure(std::string_view name, const std::string& engine, const std::optional<Version>& version) {
  for (const Node& fact : list_of_facts().items) {
    if (text_of(fact, "name") != name) continue;
    const Node* rows = fact.find("rows");
    ESPALIER_CHECK(rows != nullptr);
    const Node* row = newest_row(*rows, engine, version);
    if (row == nullptr) row = newest_row(*rows, "", version);
    ESPALIER_CHECK(row != nullptr && row->find("value") != nullptr);
    return row->find("value")->real;
  }
  base::check_failed("no such fact", std::string(name).c_str(), 0);
}

}  // namespace

Figures figures_for(const std::string& engine, const std::optional<Version>& version) {
  Figures out{};
  for (const FigureRow& row : kFigures)
    out.*row.member = row.version.empty() ? figure(row.name, engine, version) : figure(row.name, "", Version::parse(row.version));
  return out;
}

}  // namespace espalier::check
