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
  const auto of = [&](std::string_view name) { return figure(name, engine, version); };
  Figures f{};
  f.pass_launches = of("pass_launches");
  f.update_launches = of("update_launches");
  f.collective_launches = of("collective_launches");
  f.eager_kernel_launches = of("eager_kernel_launches");
  f.scan_kernels = of("scan_kernels");
  f.delta_scan_kernels = of("delta_scan_kernels");
  f.second_products_again = of("second_products_again");
  f.flash1_rate = figure("flash_attention_rate", "", Version::parse("1"));
  f.cublas_workspace = of("cublas_workspace");
  f.cublas_workspace_fp8 = of("cublas_workspace_fp8");
  f.transformer_engine_workspace = of("transformer_engine_workspace");
  f.transformer_engine_workspace_fp8 = of("transformer_engine_workspace_fp8");
  f.vector_product_share = of("vector_product_share");
  f.matrix_unit_ratio = of("matrix_unit_ratio");
  f.tree_all_reduce = of("tree_all_reduce");
  f.in_network_all_reduce = of("in_network_all_reduce");
  f.host_link_share = of("host_link_share");
  f.host_update_share = of("host_update_share");
  return f;
}

}  // namespace espalier::check
