// SPDX-License-Identifier: Apache-2.0
#include "report/brief_text.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/invariant.h"
#include "planner/plan_layers.h"
#include "report/table_layout.h"
#include "report/text_layout.h"

namespace espalier::report {
namespace {

std::string layers_of(const Chunk& chunk, std::int32_t last_layer) {
  const bool embedding = chunk.first() == 0, head = chunk.last() == last_layer;
  const std::int32_t blocks = chunk.last() - chunk.first() + 1 - (embedding ? 1 : 0) - (head ? 1 : 0);
  std::string out = embedding ? "embedding" : "";
  const auto add = [&](const std::string& part) { out.append(out.empty() ? "" : " + ").append(part); };
  if (blocks > 0) add(std::to_string(blocks) + (blocks == 1 ? " block" : " blocks"));
  if (head) add("head");
  return out;
}

std::string layers_of(const Stage& stage, std::int32_t last_layer) {
  std::string out;
  for (const Chunk& chunk : stage.chunks) out.append(out.empty() ? "" : " | ").append(layers_of(chunk, last_layer));
  return out;
}

}  // namespace

std::string bar(double fraction, int width) {
  ESPALIER_CHECK(std::isfinite(fraction) && width >= 1);
  const double clamped = std::clamp(fraction, 0.0, 1.0);
  long blocks = std::lround(clamped * width);
  if (blocks == 0 && clamped > 0.005) blocks = 1;
  std::string out;
  for (long i = 0; i < blocks; ++i) out += "█";
  return out;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& left,
                  std::string_view indent) {
  return mark_table(rows, left, indent);
}

std::string wrap(std::string_view sentence, std::size_t width, std::string_view indent) {
  ESPALIER_CHECK(width > display_width(indent));  // room for a word after the indent
  std::string out;
  std::size_t column = 0;
  while (!sentence.empty()) {
    const std::size_t space = sentence.find(' ');
    const std::string_view word = sentence.substr(0, space);
    sentence.remove_prefix(space == std::string_view::npos ? sentence.size() : space + 1);
    const std::size_t w = display_width(word);
    if (column > 0 && column + 1 + w > width) {
      out.append(1, kBreak).append(indent);
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += w;
  }
  return out;
}

std::vector<StageRun> stage_runs(const Pipeline& pipeline, const std::vector<std::int64_t>& peak_bytes_per_stage) {
  std::vector<StageRun> runs;
  const std::int32_t last_layer = planner::last_layer_of(pipeline);
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const auto stage = static_cast<std::int32_t>(i);
    const std::int64_t peak = i < peak_bytes_per_stage.size() ? peak_bytes_per_stage[i] : 0;
    std::string layers = layers_of(pipeline.stages[i], last_layer);
    if (!runs.empty() && runs.back().layers == layers) {
      runs.back().last = stage;
      runs.back().peak_bytes = std::max(runs.back().peak_bytes, peak);
    } else {
      runs.push_back({stage, stage, std::move(layers), peak});
    }
  }
  return runs;
}

}  // namespace espalier::report
