// SPDX-License-Identifier: Apache-2.0
#include "sim/block_trace.h"

#include <map>
#include <utility>

#include "base/document.h"
#include "cost/partitioned_block.h"
#include "partition/slices.h"
#include "plan/program.h"

namespace espalier::sim {
namespace {

std::string_view word_of(StepPart part) {
  return part == StepPart::forward ? "forward" : part == StepPart::input_gradient ? "backward" : "gradient";
}

std::string traffic_name(const Step& step, const std::string& compute_name) {
  switch (step.traffic.kind) {
    case CollectiveKind::ring_shift: return compute_name + " shift";
    case CollectiveKind::resharding: return (step.part == StepPart::forward ? "to " : "gradients from ") + step.name;
    default: return step.name + " all-reduce";
  }
}

class BlockWriter {
 public:
  explicit BlockWriter(base::JsonWriter& w) : w_(w) {}

  void phase(const cost::PhaseSteps& phase) {
    const std::vector<cost::StepSpan> spans = cost::step_spans(phase);
    std::map<std::pair<std::string, StepPart>, int> numbers;  // numbers of an operator's steps
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const Step& step = phase.steps[i];
      const cost::StepSpan& at = spans[i];
      std::string name;
      if (phase.costs[i].compute_s > 0) {
        const int number = numbers[{step.name, step.part}]++;
        name = step.name + " " + std::string(word_of(step.part)) + " " + std::to_string(number);
      }
      if (step.moves()) span(traffic_name(step, name), Stream::data, at.traffic_start_ns, at.traffic_end_ns);
      if (!name.empty()) span(name, Stream::compute, at.compute_start_ns, at.compute_end_ns);
    }
    const cost::PhaseTime whole = cost::phase_time(phase);
    const std::int64_t busy = whole.compute_ns + whole.exposed_ns;
    if (whole.other_ns > 0) span("kernel launches", Stream::compute, busy, whole.duration_ns());
    offset_ns_ += whole.duration_ns();
  }

 private:
  void span(const std::string& name, Stream stream, std::int64_t start_ns, std::int64_t end_ns) {
    w_.compact_next().begin_object();
    w_.key("name").value(name).key("ph").value("X").key("pid").value(std::int64_t{0});
    w_.key("tid").value(static_cast<std::int64_t>(stream)).key("cat").value(to_string(stream));
    w_.key("ts").value(static_cast<double>(start_ns + offset_ns_) * 1e-3);
    w_.key("dur").value(static_cast<double>(end_ns - start_ns) * 1e-3).end_object();
  }

  base::JsonWriter& w_;
  std::int64_t offset_ns_ = 0;
};

}  // namespace

Result<std::string> block_trace(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                std::int32_t devices, const BlockPartition& partition) {
  const auto block = cost::priced_block(context, kind, samples, devices, partition);
  if (!block) return block.error();
  base::JsonWriter w;
  w.begin_object().key("traceEvents").begin_array();
  BlockWriter writer(w);
  writer.phase(block->steps.forward);
  writer.phase(block->steps.backward);
  w.end_array().key("displayTimeUnit").value("ns").key("partition").value(partition.text()).end_object();
  return w.text() + "\n";
}

}  // namespace espalier::sim
