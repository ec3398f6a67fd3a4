// SPDX-License-Identifier: Apache-2.0
#include "planner/brief_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "planner/table_layout.h"
#include "planner/text_layout.h"

namespace espalier::text {
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

std::string fixed(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string seconds(std::int64_t nanoseconds) {
  const double s = static_cast<double>(nanoseconds) * 1e-9;
  const double size = std::fabs(s);
  if (size >= 100) return fixed(s, 1) + " s";
  if (size >= 1) return fixed(s, 3) + " s";
  if (size >= 1e-3) return fixed(s * 1e3, 1) + " ms";
  if (size > 0) return fixed(s * 1e6, 1) + " us";
  return "0 s";
}

std::string gib(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / 1073741824.0, 1) + " GiB"; }

std::string percent(double fraction) { return fixed(fraction * 100, 1) + " %"; }

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > (value < 0 ? 4u : 3u);) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string count(double value) {
  if (std::fabs(value) < 9007199254740992.0) return grouped(std::llround(value));
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

std::string short_count(double value) {
  struct Scale {
    double unit;
    const char* suffix;
    int decimals;
  };
  static constexpr Scale kScales[] = {{1e12, "T", 2}, {1e9, "B", 2}, {1e6, "M", 1}, {1e3, "k", 1}};
  for (const Scale& s : kScales) {
    if (value >= s.unit) return fixed(value / s.unit, s.decimals) + s.suffix;
  }
  return fixed(value, 0);
}

std::string bar(double fraction, int width) {
  const double clamped = std::clamp(fraction, 0.0, 1.0);
  long blocks = std::lround(clamped * width);
  if (blocks == 0 && clamped > 0.005) blocks = 1;
  std::string out;
  for (long i = 0; i < blocks; ++i) out += "█";
  return out;
}

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string pad_right(std::string_view s, std::size_t width) {
  const std::size_t w = display_width(s);
  return std::string(s) + std::string(width > w ? width - w : 0, ' ');
}

std::string pad_left(std::string_view s, std::size_t width) {
  const std::size_t w = display_width(s);
  return std::string(width > w ? width - w : 0, ' ') + std::string(s);
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& left,
                  std::string_view indent) {
  return mark_table(rows, left, indent);
}

std::string wrap(std::string_view sentence, std::size_t width, std::string_view indent) {
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

std::int32_t last_layer_of(const Plan& plan) {
  std::int32_t last = 0;
  for (const Stage& stage : plan.stages) {
    for (const Chunk& chunk : stage.chunks) last = std::max(last, chunk.last());
  }
  return last;
}

std::vector<StageRun> stage_runs(const Plan& plan, const std::vector<std::int64_t>& peak_bytes_per_stage) {
  std::vector<StageRun> runs;
  const std::int32_t last_layer = last_layer_of(plan);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto stage = static_cast<std::int32_t>(i);
    const std::int64_t peak = i < peak_bytes_per_stage.size() ? peak_bytes_per_stage[i] : 0;
    std::string layers = layers_of(plan.stages[i], last_layer);
    if (!runs.empty() && runs.back().layers == layers) {
      runs.back().last = stage;
      runs.back().peak_bytes = std::max(runs.back().peak_bytes, peak);
    } else {
      runs.push_back({stage, stage, std::move(layers), peak});
    }
  }
  return runs;
}

}  // namespace espalier::text
