// SPDX-License-Identifier: Apache-2.0
#include "report/page_timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "report/packed.h"

namespace espalier::report {
namespace {

using Kind = InstructionKind;

struct Bar {
  std::int64_t start_ns = 0, length_ns = 0;
  std::int64_t name = 0, microbatch = -1, chunk = -1, layer = -1, bytes = 0, members = 0, peer = -1;
};

struct TimelineRow {
  std::size_t rank = 0;
  std::string_view stream;
  std::vector<Bar> bars;
};

/// Returns the category that sets the colour: the kind of work of a rank, or the parallelism that it communicates
/// for.
std::string_view category_of(std::string_view group) {
  if (group == "tensor" || group == "operators") return "tensor";
  if (group == "context") return "context";
  if (group.starts_with("expert") && !group.ends_with("shard") && !group.ends_with("replica")) return "expert";
  if (group.ends_with("shard") || group.ends_with("replica")) return "data";
  return "other";
}

class TimelineWriter {
 public:
  TimelineWriter(const Timeline& timeline, const ShownPart& shown) : timeline_(timeline), shown_(shown) {}

  void write(base::JsonWriter& w) {
    for (std::size_t r = 0; r < timeline_.ranks.size(); ++r) add_rank(r);
    w.begin_object();
    w.key("iteration_ns").value(timeline_.iteration_ns).key("microbatches").value(timeline_.microbatches);
    w.key("microbatches_shown").value(shown_.microbatches).key("all_steps").value(shows_all_steps());
    write_names(w);
    write_ranks(w);
    write_rows(w);
    w.key("memory").value(packed_memory());
    w.end_object();
  }

 private:
  [[nodiscard]] bool shows(std::int32_t microbatch) const { return microbatch < shown_.microbatches; }

  /// A timeline may hold only the steps of the first micro-batch (TimelineRank::steps).
  [[nodiscard]] bool shows_all_steps() const {
    bool any = false, later = false;
    for (const TimelineRank& rank : timeline_.ranks)
      for (const TimelineStep& x : rank.steps) {
        any = true;
        later |= x.microbatch > 0;
      }
    return !any || timeline_.microbatches == 1 || (later && shown_.all_steps);
  }

  std::int64_t name(const std::string& text, std::string_view category) {
    const auto [at, fresh] = numbers_.try_emplace({text, std::string(category)}, static_cast<std::int64_t>(names_.size()));
    if (fresh) names_.emplace_back(text, category);
    return at->second;
  }
  std::int64_t name_of(const TimelineSpan& x) {
    switch (x.kind) {
      case Kind::forward: return name("forward", "forward");
      case Kind::backward: return name("backward", "backward");
      case Kind::backward_input: return name("backward, input gradients", "backward");
      case Kind::backward_weight: return name("backward, weight gradients", "weight");
      case Kind::send: return name(x.gradient ? "send gradient" : "send activation", "pipeline");
      case Kind::recv: return name(x.gradient ? "receive gradient" : "receive activation", "pipeline");
      case Kind::grad_reduce: return name("gradients " + std::string(to_string(x.collective)), "data");
      case Kind::param_gather: return name("parameters all_gather", "data");
      case Kind::tied_reduce: return name("shared table all_reduce", "data");
      case Kind::optimizer: return name("optimizer", "update");
    }
    return name("?", "other");
  }
  std::int64_t name_of(const TimelineStep& x) {
    if (x.times > 0)
      return name(x.name + " " + std::string(to_string(x.collective)) + ", " + std::string(x.group), category_of(x.group));
    if (x.name == "waiting" || x.name == "pass") return name(x.name, "other");
    const std::string_view category = x.part == "forward" ? "forward" : x.part == "weight_gradient" ? "weight" : "backward";
    return name(x.name + ", " + std::string(x.part), category);
  }

  Bar bar(const TimelineSpan& x) {
    Bar b{x.start_ns, x.end_ns - x.start_ns};
    b.name = name_of(x);
    b.microbatch = x.microbatch;
    b.chunk = x.kind == Kind::optimizer ? -1 : x.chunk;
    b.bytes = x.bytes;
    b.members = x.group_size;
    b.peer = x.peer;
    return b;
  }
  Bar bar(const TimelineStep& x) {
    Bar b{x.start_ns, x.end_ns - x.start_ns};
    b.name = name_of(x);
    b.microbatch = x.microbatch;
    b.chunk = x.chunk;
    b.layer = x.layer;
    b.bytes = x.times > 0 ? x.bytes * x.times : 0;
    return b;
  }

  void add_rank(std::size_t r) {
    constexpr std::array<std::string_view, 3> kTracks{"operators", "collectives", "ZeRO"};
    const TimelineRank& rank = timeline_.ranks[r];
    std::vector<TimelineRow> rows(kStreams + kTracks.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto stream = static_cast<Stream>(std::min<std::size_t>(i, kStreams - 1));
      rows[i] = {r, i < kStreams ? to_string(stream) : kTracks[i - kStreams], {}};
    }
    for (const TimelineSpan& x : rank.spans)
      if (shows(x.microbatch)) rows[static_cast<std::size_t>(x.stream)].bars.push_back(bar(x));
    for (const TimelineStep& x : rank.steps)
      if (shows(x.microbatch) && (shown_.all_steps || x.microbatch == 0))
        rows[kStreams + static_cast<std::size_t>(x.track)].bars.push_back(bar(x));
    for (TimelineRow& row : rows) {
      if (row.bars.empty()) continue;
      std::stable_sort(row.bars.begin(), row.bars.end(), [](const Bar& a, const Bar& b) { return a.start_ns < b.start_ns; });
      rows_.push_back(std::move(row));
    }
  }

  void write_names(base::JsonWriter& w) const {
    w.key("names").begin_array();
    for (const auto& [text, category] : names_) {
      w.compact_next().begin_object().key("name").value(text).key("category").value(category).end_object();
    }
    w.end_array();
  }
  void write_ranks(base::JsonWriter& w) const {
    w.key("ranks").begin_array();
    for (const TimelineRank& rank : timeline_.ranks) {
      std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> chunks;
      for (const TimelineSpan& x : rank.spans)
        if (x.first_layer >= 0) chunks.try_emplace(x.chunk, x.first_layer, x.last_layer);
      w.compact_next().begin_object();
      w.key("device").value(rank.device).key("represents").value(rank.represents).key("pipeline").value(rank.pipeline);
      w.key("stage").value(rank.stage).key("static_bytes").value(rank.static_bytes);
      w.key("samples").value(static_cast<std::int64_t>(samples_of(rank).size()));
      w.key("chunks").begin_array();
      for (const auto& [chunk, layers] : chunks) {
        w.begin_array().value(chunk).value(layers.first).value(layers.second).end_array();
      }
      w.end_array().end_object();
    }
    w.end_array();
  }
  void write_rows(base::JsonWriter& w) const {
    Packed bars;
    w.key("rows").begin_array();
    for (const TimelineRow& row : rows_) {
      pack(row.bars, bars);
      w.compact_next().begin_object().key("rank").value(static_cast<std::int64_t>(row.rank)).key("stream").value(row.stream);
      w.key("bars").value(static_cast<std::int64_t>(row.bars.size())).end_object();
    }
    w.end_array();
    w.key("bars").value(bars.base64());
  }
  static void pack(const std::vector<Bar>& bars, Packed& out) {
    std::int64_t before = 0;
    for (const Bar& bar : bars) {
      out.add_signed(bar.start_ns - before);
      before = bar.start_ns;
    }
    for (const Bar& bar : bars) out.add(bar.length_ns);
    for (const Bar& bar : bars) out.add(bar.name);
    for (const Bar& bar : bars) out.add(bar.microbatch + 1);
    for (const Bar& bar : bars) out.add(bar.chunk + 1);
    for (const Bar& bar : bars) out.add(bar.layer + 1);
    for (const Bar& bar : bars) out.add(bar.bytes);
    for (const Bar& bar : bars) out.add(bar.members);
    for (const Bar& bar : bars) out.add(bar.peer + 1);
  }

  /// Returns (moment, bytes in addition to the static ones). Where there are too many, it returns the highest of each
  /// part of the step.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> samples_of(const TimelineRank& rank) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    const bool thin = rank.memory.size() > kMemorySamples;
    const std::int64_t part = std::max<std::int64_t>(1, timeline_.iteration_ns / static_cast<std::int64_t>(kMemorySamples) + 1);
    for (const MemorySample& sample : rank.memory) {
      if (thin && !out.empty() && out.back().first / part == sample.at_ns / part)
        out.back() = std::max(out.back(), {sample.at_ns, sample.activation_bytes},
                              [](const auto& a, const auto& b) { return a.second < b.second; });
      else
        out.emplace_back(sample.at_ns, sample.activation_bytes);
    }
    return out;
  }
  [[nodiscard]] std::string packed_memory() const {
    Packed out;
    for (const TimelineRank& rank : timeline_.ranks) {
      const auto samples = samples_of(rank);
      std::int64_t at = 0, bytes = 0;
      for (const auto& sample : samples) out.add_signed(sample.first - std::exchange(at, sample.first));
      for (const auto& sample : samples) out.add_signed(sample.second - std::exchange(bytes, sample.second));
    }
    return out.base64();
  }

  const Timeline& timeline_;
  ShownPart shown_;
  std::vector<TimelineRow> rows_;
  std::vector<std::pair<std::string, std::string>> names_;
  std::map<std::pair<std::string, std::string>, std::int64_t> numbers_;
};

std::size_t size_of(const Timeline& timeline, const ShownPart& shown) {
  base::JsonWriter w;
  write_timeline(w, timeline, shown);
  return w.text().size();
}

}  // namespace

void write_timeline(base::JsonWriter& w, const Timeline& timeline, const ShownPart& shown) {
  ESPALIER_CHECK(shown.microbatches >= 0);
  TimelineWriter(timeline, shown).write(w);
}

ShownPart shown_part(const Timeline& timeline, std::size_t most_bytes) {
  ShownPart shown{timeline.microbatches, true};
  if (size_of(timeline, shown) <= most_bytes) return shown;
  shown.all_steps = false;
  while (shown.microbatches > 1 && size_of(timeline, shown) > most_bytes) shown.microbatches -= (shown.microbatches + 3) / 4;
  return shown;
}

}  // namespace espalier::report
