// SPDX-License-Identifier: Apache-2.0
#include "espalier/schedule_grid.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/division.h"
#include "base/format.h"
#include "base/invariant.h"
#include "espalier/text.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

using Kind = InstructionKind;

/// Holds work that runs on the compute stream from one moment to another. Buckets of one pass are one.
struct ComputePass {
  Kind kind = Kind::forward;
  std::int32_t chunk = 0, microbatch = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};

std::vector<ComputePass> passes_of(const TimelineRank& rank) {
  std::vector<ComputePass> out;
  for (const TimelineSpan& x : rank.spans) {
    if (x.stream != Stream::compute) continue;
    const bool continues = x.bucket > 0 && !out.empty() && out.back().kind == x.kind && out.back().chunk == x.chunk &&
                           out.back().microbatch == x.microbatch;
    if (continues)
      out.back().end_ns = x.end_ns;
    else
      out.push_back({x.kind, x.chunk, x.microbatch, x.start_ns, x.end_ns});
  }
  return out;
}

/// Returns the first rank of each stage, pipeline after pipeline.
std::vector<const TimelineRank*> stages_of(const Timeline& timeline) {
  std::map<std::pair<std::int32_t, std::int32_t>, const TimelineRank*> first;
  for (const TimelineRank& rank : timeline.ranks) first.try_emplace({rank.pipeline, rank.stage}, &rank);
  std::vector<const TimelineRank*> out;
  for (const auto& [place, rank] : first) out.push_back(rank);
  return out;
}

char letter(Kind kind) {
  switch (kind) {
    case Kind::forward: return 'F';
    case Kind::backward: return 'B';
    case Kind::backward_input: return 'I';
    case Kind::backward_weight: return 'W';
    default: return 'U';
  }
}

class Grid {
 public:
  explicit Grid(const Timeline& timeline) : timeline_(timeline), stages_(stages_of(timeline)) {
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    for (const TimelineRank* stage : stages_) {
      passes_.push_back(passes_of(*stage));
      std::int32_t chunk = -1;
      for (const ComputePass& pass : passes_.back()) {
        if (pass.kind == Kind::forward && pass.end_ns > pass.start_ns) shortest = std::min(shortest, pass.end_ns - pass.start_ns);
        if (pass.kind == Kind::optimizer) continue;
        several_chunks_ |= chunk >= 0 && chunk != pass.chunk;
        chunk = pass.chunk;
      }
    }
    ESPALIER_CHECK(shortest < std::numeric_limits<std::int64_t>::max());  // every plan has a forward pass
    slot_ns_ = shortest;
    slots_ = std::max<std::int64_t>(1, ceil_div(timeline.iteration_ns, slot_ns_));
  }

  std::string text(std::size_t width) {
    for (const auto& passes : passes_)
      for (const ComputePass& pass : passes) cell_ = std::max(cell_, name(pass).size() + 1);
    for (const TimelineRank* stage : stages_) label_ = std::max(label_, label(*stage).size() + 2);
    choose(width);
    std::string out;
    for (std::size_t i = 0; i < stages_.size(); ++i) out += row(*stages_[i], passes_[i]);
    return out;
  }
  [[nodiscard]] std::string legend() const {
    std::string out = cat("a column is ", base::seconds(slot_ns_),
                          ": F forward, B backward, I and W its gradients of inputs and of weights, U update, - continues, . "
                          "idle; the number is the micro-batch",
                          several_chunks_ ? ", the number before it the chunk" : "");
    if (cut_ > 0) out += cat("; ", base::grouped(cut_), " of ", base::grouped(slots_), " columns in the middle are omitted");
    return out + "\n";
  }

 private:
  [[nodiscard]] std::string label(const TimelineRank& rank) const {
    const bool several = stages_.back()->pipeline > 0;
    return several ? cat("pipeline ", rank.pipeline, " stage ", rank.stage) : cat("stage ", rank.stage);
  }
  [[nodiscard]] std::string name(const ComputePass& pass) const {
    if (pass.kind == Kind::optimizer) return "U";
    return cat(several_chunks_ ? std::to_string(pass.chunk) : "", std::string(1, letter(pass.kind)), pass.microbatch);
  }

  /// Chooses the slots that have a column: all, or as many of the beginning and of the end as fit around " ... ".
  void choose(std::size_t width) {
    constexpr std::size_t kGap = 4;
    head_ = slots_;
    if (width == 0 || label_ + static_cast<std::size_t>(slots_) * cell_ <= width) return;
    const std::size_t room = width > label_ + kGap + 2 * cell_ ? (width - label_ - kGap) / cell_ : 2;
    head_ = static_cast<std::int64_t>((room + 1) / 2);
    tail_ = static_cast<std::int64_t>(room / 2);
    cut_ = slots_ - head_ - tail_;
  }

  /// Returns, by slot, the pass that fills most of it; −1 where idle time exceeds twice any pass.
  [[nodiscard]] std::vector<std::int64_t> filled(const std::vector<ComputePass>& passes) const {
    std::vector<std::int64_t> most(static_cast<std::size_t>(slots_), 0), which(static_cast<std::size_t>(slots_), -1);
    for (std::size_t i = 0; i < passes.size(); ++i)
      for (std::int64_t s = passes[i].start_ns / slot_ns_; s < slots_ && s * slot_ns_ < passes[i].end_ns; ++s) {
        const std::int64_t covers = std::min(passes[i].end_ns, (s + 1) * slot_ns_) - std::max(passes[i].start_ns, s * slot_ns_);
        if (covers <= most[static_cast<std::size_t>(s)] || 3 * covers < slot_ns_) continue;
        most[static_cast<std::size_t>(s)] = covers;
        which[static_cast<std::size_t>(s)] = static_cast<std::int64_t>(i);
      }
    return which;
  }

  std::string row(const TimelineRank& rank, const std::vector<ComputePass>& passes) const {
    const std::vector<std::int64_t> which = filled(passes);
    std::string out = base::pad_right(label(rank), label_);
    std::int64_t before = -1;
    for (std::int64_t s = 0; s < slots_; ++s) {
      if (s == head_ && cut_ > 0) {
        out += "... ";
        before = -1;
        s += cut_;
      }
      const std::int64_t now = which[static_cast<std::size_t>(s)];
      const std::string cell = now < 0 ? "." : now == before ? "-" : name(passes[static_cast<std::size_t>(now)]);
      out += base::pad_right(cell, cell_);
      before = now;
    }
    out.resize(out.find_last_not_of(' ') + 1);
    return out + "\n";
  }

  const Timeline& timeline_;
  std::vector<const TimelineRank*> stages_;
  std::vector<std::vector<ComputePass>> passes_;
  bool several_chunks_ = false;
  std::int64_t slot_ns_ = 1, slots_ = 1, head_ = 0, tail_ = 0, cut_ = 0;
  std::size_t cell_ = 2, label_ = 0;
};

std::string devices_of_stage(const Stage& stage) {
  std::string out;
  for (const DeviceRange& range : stage.devices) {
    const std::int64_t last = range.first + (range.count - 1) * range.stride;
    out += cat(out.empty() ? "" : ",", range.first, range.count > 1 ? cat("-", last) : "",
               range.stride > 1 ? cat("/", range.stride) : "");
  }
  return out;
}

std::string stage_rows(const PlannerResult& r) {
  std::vector<std::vector<std::string>> rows{{"stage", "devices", "layers", "peak", "busy"}};
  const Prediction& p = r.prediction;
  std::size_t number = 0;
  for (const Pipeline& pipeline : r.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s, ++number) {
      std::string layers;
      for (const Chunk& chunk : pipeline.stages[s].chunks)
        layers += cat(layers.empty() ? "" : " | ", chunk.first(), chunk.last() > chunk.first() ? cat("-", chunk.last()) : "");
      const bool known = number < p.peak_memory_bytes_per_stage.size() && number < p.bottleneck.busy_per_stage.size();
      rows.push_back({std::to_string(number), devices_of_stage(pipeline.stages[s]), layers,
                      known ? base::gib(p.peak_memory_bytes_per_stage[number]) : "-",
                      known ? base::percent(p.bottleneck.busy_per_stage[number]) : "-"});
    }
  return table(rows, {1, 2});
}

/// Replaces the non-ASCII characters of our texts by ASCII ones.
std::string to_ascii(const std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kTyped[] = {{"·", "."}, {"×", "x"},  {"–", "-"}, {"…", "..."},
                                                                             {"−", "-"}, {"≤", "<="}, {"≥", ">="}};
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto at = std::find_if(std::begin(kTyped), std::end(kTyped),
                                 [&](const auto& t) { return text.compare(i, t.first.size(), t.first) == 0; });
    if (at != std::end(kTyped)) {
      out += at->second;
      i += at->first.size();
      continue;
    }
    const auto byte = static_cast<unsigned char>(text[i++]);
    if (byte < 0x80) out += static_cast<char>(byte);
    if (byte >= 0xc0) out += '?';  // the first byte of a letter; its other bytes are dropped
  }
  return out;
}

}  // namespace

std::string schedule_grid(const PlannerResult& result, const Timeline& timeline, const GridOptions& options) {
  Grid grid(timeline);
  const std::string rows = grid.text(options.width);  // laid out already: a cell is never broken
  const std::string head = cat(result.plan.label(), "\n  step ", base::seconds(result.prediction.iteration_ns), ", ",
                               base::grouped(timeline.microbatches), " micro-batches\n");
  const std::string text = cat(lay_out(head, options.width), "\n", rows, "\n",
                               lay_out(cat(wrap(grid.legend(), 100, "  "), "\n", stage_rows(result)), options.width));
  return options.ascii ? to_ascii(text) : text;
}

}  // namespace espalier::report
