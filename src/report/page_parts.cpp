// SPDX-License-Identifier: Apache-2.0
#include "report/page_parts.h"

#include <algorithm>

namespace espalier::report {

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::array<MemoryPart, 6> memory_parts(const MemoryBreakdown& m) {
  return {{{"parameters", m.parameters},
           {"gradients", m.gradients},
           {"optimizer", m.optimizer},
           {"activations", m.activations},
           {"buffers", m.communication_buffers},
           {"framework", m.framework}}};
}

std::string source_of(const DeviceKind& device, std::string_view field) {
  const auto found = std::find_if(device.sources.begin(), device.sources.end(), [&](const auto& s) { return s.first == field; });
  return found == device.sources.end() ? "the cluster file" : found->second;
}

void write(base::JsonWriter& w, const Figure& figure) {
  w.begin_object();
  w.key("id").value(figure.id).key("name").value(figure.name).key("text").value(figure.text).key("note").value(figure.note);
  w.key("from").value(figure.from).key("equation").value(figure.equation);
  if (figure.share) w.key("share").value(*figure.share);
  w.key("derivation").begin_array();
  for (const DerivationLine& line : figure.derivation) {
    w.compact_next().begin_object().key("name").value(line.name).key("text").value(line.text);
    w.key("source").value(line.source).end_object();
  }
  w.end_array().end_object();
}

void write(base::JsonWriter& w, const PageTable& table) {
  w.begin_object();
  w.key("id").value(table.id).key("title").value(table.title).key("note").value(table.note);
  w.key("columns").compact_next().begin_array();
  for (const std::string& column : table.columns) w.value(column);
  w.end_array();
  w.key("words").compact_next().begin_array();
  for (const std::size_t column : table.words) w.value(static_cast<std::int64_t>(column));
  w.end_array();
  w.key("rows").begin_array();
  for (const auto& row : table.rows) {
    w.compact_next().begin_array();
    for (const Cell& cell : row) {
      if (cell.share)
        w.begin_array().value(cell.text).value(*cell.share).end_array();
      else
        w.value(cell.text);
    }
    w.end_array();
  }
  w.end_array().end_object();
}

}  // namespace espalier::report
