// SPDX-License-Identifier: Apache-2.0
// Every field of every engine as text, one line an engine: data/engines.yaml must say exactly what the catalogue said when it was C++, and a
// change of a figure shows here by its name.
#include <string>

#include "answer_file.h"
#include "base/document.h"
#include "plan/dimension.h"
#include "plan/engine.h"

namespace espalier {
namespace {

std::string text(double value) {
  std::string out = std::to_string(value);
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out;
}

class Words {
 public:
  template <class T>
  void add(const char* name, T value) {
    out_ += std::string(out_.empty() ? "" : " ") + name + "=" + text(static_cast<double>(value));
  }
  template <class T>
  void list(const char* name, const std::vector<T>& values) {
    std::string joined;
    for (const T& value : values) joined += (joined.empty() ? "" : ",") + text(static_cast<double>(value));
    out_ += std::string(" ") + name + "=" + joined;
  }
  void add(const char* name, const std::string& value) { out_ += std::string(" ") + name + "=" + value; }
  [[nodiscard]] const std::string& all() const { return out_; }

 private:
  std::string out_;
};

void memory_words(const EngineModel& e, Words& w) {
  w.add("activations", e.activations);
  w.add("states.parameter", e.states.parameter);
  w.add("states.gradient", e.states.gradient);
  w.add("states.master", e.states.master);
  w.add("states.optimizer", e.states.optimizer);
  w.add("states.reduce", e.states.reduce);
  w.add("states.gather", e.states.gather);
  w.add("loss.saved", e.loss.saved);
  w.add("loss.forward", e.loss.forward);
  w.add("loss.backward", e.loss.backward);
  w.add("loss.deferred", e.loss.deferred);
  w.add("workspace.cublas", e.workspace.cublas);
  w.add("workspace.deterministic", e.workspace.deterministic);
  w.add("workspace.transformer_engine", e.workspace.transformer_engine);
  w.add("copies_attention_output", e.copies_attention_output);
  w.add("keeps_gathered", e.keeps_gathered);
  w.add("eager_gate", e.eager_gate);
  w.add("allocator_reserve", e.allocator_reserve);
  w.add("vocabulary_multiple", e.vocabulary_multiple);
}

void time_words(const EngineModel& e, Words& w) {
  w.add("attention_kernel", e.attention_kernel);
  w.add("selective_recomputes_linears", e.selective_recomputes_linears);
  w.add("host_launches", e.host_launches);
  w.add("eager_launches", e.eager_launches);
  w.add("fused_gradient_accumulation", e.fused_gradient_accumulation);
  w.add("elementwise_traffic", e.elementwise_traffic);
  w.add("loss_forward_bytes", e.loss_forward_bytes);
  w.add("loss_backward_bytes", e.loss_backward_bytes);
  w.add("whole_gradient_bytes", e.whole_gradient_bytes);
  w.add("gather_copy_bytes", e.gather_copy_bytes);
  w.add("reduce_copy_bytes", e.reduce_copy_bytes);
  w.add("scattered_messages", e.scattered_messages);
  w.add("message_host_calls", e.message_host_calls);
  w.add("reduce_bucket_bytes", e.reduce_bucket_bytes);
  w.add("deduplicates_dispatch", e.deduplicates_dispatch);
  w.add("zero1_all_reduces", e.zero1_all_reduces);
}

void restriction_words(const EngineModel& e, Words& w) {
  w.add("family", e.family);
  w.add("split", e.split);
  w.list("schedules", e.schedules);
  w.list("zero", e.zero);
  w.list("orders", e.orders);
  w.list("cp_kinds", e.cp_kinds);
  w.add("hybrid_shard", e.hybrid_shard);
  w.add("zero_with_pipeline", e.zero_with_pipeline);
  w.add("ulysses", e.ulysses);
  w.add("context_parallel", e.context_parallel);
  w.add("tensor_parallel", e.tensor_parallel);
  w.add("pipeline", e.pipeline);
  w.add("expert_parallel", e.expert_parallel);
  w.add("uneven_stages", e.uneven_stages);
  w.add("selective_recompute", e.selective_recompute);
  w.add("partial_recompute", e.partial_recompute);
  w.add("fused_bucket_overlap", e.fused_bucket_overlap);
  w.add("zero_grad_overlap", e.zero_grad_overlap);
  w.add("overlap_param_gather", e.overlap_param_gather);
  w.add("overlap_p2p", e.overlap_p2p);
  w.add("overlap_tp", e.overlap_tp);
}

TEST(Golden, Engines) {
  std::vector<golden::AnswerLine> lines;
  for (const EngineModel& e : engine_catalogue()) {
    Words w;
    memory_words(e, w);
    time_words(e, w);
    restriction_words(e, w);
    w.add("note", base::content_hash(e.note));
    lines.push_back({e.name, w.all()});
  }
  golden::expect_answers("engines.txt", lines);
}

}  // namespace
}  // namespace espalier
