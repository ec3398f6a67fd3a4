// SPDX-License-Identifier: Apache-2.0
// Writes every field of every engine as text, one line an engine. The file data/engines.yaml must equal the earlier
// catalogue in C++, and a change of a figure appears here by its name.
#include <string>

#include "answer_file.h"
#include "base/document.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "report/engines_text.h"

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
  w.add("activations", e.memory.activations);
  w.add("states.parameter", e.memory.states.parameter);
  w.add("states.gradient", e.memory.states.gradient);
  w.add("states.master", e.memory.states.master);
  w.add("states.optimizer", e.memory.states.optimizer);
  w.add("states.reduce", e.memory.states.reduce);
  w.add("states.gather", e.memory.states.gather);
  w.add("loss.saved", e.memory.loss.saved);
  w.add("loss.forward", e.memory.loss.forward);
  w.add("loss.backward", e.memory.loss.backward);
  w.add("loss.deferred", e.memory.loss.deferred);
  w.add("workspace.cublas", e.memory.workspace.cublas);
  w.add("workspace.deterministic", e.memory.workspace.deterministic);
  w.add("workspace.transformer_engine", e.memory.workspace.transformer_engine);
  w.add("copies_attention_output", e.memory.copies_attention_output);
  w.add("copies_rotated", e.eager.copies_rotated);
  w.add("queued_blocks", e.eager.queued_blocks);
  w.add("eager_gate", e.memory.eager_gate);
  w.add("allocator_reserve", e.memory.allocator_reserve);
  w.add("vocabulary_multiple", e.memory.vocabulary_multiple);
}

void time_words(const EngineModel& e, Words& w) {
  w.add("attention_kernel", e.kernels.attention_kernel);
  w.add("selective", to_string(e.memory.selective));
  w.add("fuses_norms", e.memory.fuses_norms);
  w.add("host_launches", e.kernels.host_launches);
  w.add("eager_launches", e.eager.eager_launches);
  w.add("fused_gradient_accumulation", e.eager.fused_gradient_accumulation);
  w.add("elementwise_traffic", e.kernels.elementwise_traffic);
  w.add("loss_forward_bytes", e.kernels.loss_forward_bytes);
  w.add("loss_backward_bytes", e.kernels.loss_backward_bytes);
  w.add("whole_gradient_bytes", e.eager.whole_gradient_bytes);
  w.add("gather_copy_bytes", e.kernels.gather_copy_bytes);
  w.add("reduce_copy_bytes", e.kernels.reduce_copy_bytes);
  w.add("scattered_messages", e.communication.scattered_messages);
  w.add("message_host_calls", e.eager.message_host_calls);
  w.add("reduce_bucket_bytes", e.eager.reduce_bucket_bytes);
  w.add("deduplicates_dispatch", e.communication.deduplicates_dispatch);
  w.add("zero1_all_reduces", e.eager.zero1_all_reduces);
}

void restriction_words(const EngineModel& e, Words& w) {
  w.add("family", e.family);
  w.add("split", e.split);
  w.list("schedules", e.runs.schedules);
  std::vector<std::int32_t> zero;
  for (const ZeroStage z : e.runs.zero) zero.push_back(number_of(z));
  w.list("zero", zero);
  w.list("orders", e.runs.orders);
  w.list("cp_kinds", e.runs.cp_kinds);
  w.add("hybrid_shard", e.runs.hybrid_shard);
  w.add("zero_with_pipeline", e.runs.zero_with_pipeline);
  w.add("ulysses", e.runs.ulysses);
  w.add("context_parallel", e.runs.context_parallel);
  w.add("tensor_parallel", e.runs.tensor_parallel);
  w.add("pipeline", e.runs.pipeline);
  w.add("expert_parallel", e.runs.expert_parallel);
  w.add("uneven_stages", e.runs.uneven_stages);
  w.add("selective_recompute", e.runs.selective_recompute);
  w.add("recompute_modules", to_string(e.runs.recompute_modules));
  w.add("partial_recompute", e.runs.partial_recompute);
  w.add("fused_bucket_overlap", e.runs.fused_bucket_overlap);
  w.add("zero_grad_overlap", e.runs.zero_grad_overlap);
  w.add("overlap_param_gather", e.runs.overlap_param_gather);
  w.add("overlap_p2p", e.runs.overlap_p2p);
  w.add("overlap_tp", e.runs.overlap_tp);
  w.add("frozen_weights", e.runs.frozen_weights);
  w.add("packed_sequences", e.runs.packed_sequences);
  w.add("offload_optimizer", e.runs.offload_optimizer);
  w.add("splits_adapters", e.memory.splits_adapters);
  w.add("overlaps_offload", e.communication.overlaps_offload);
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

// The table of docs/engines.md comes from the catalogue; ESPALIER_UPDATE_GOLDEN=1 writes it.
TEST(Golden, EnginesPage) {
  const std::string begin = "<!-- begin engines -->\n", end = "<!-- end engines -->",
                    path = ESPALIER_SOURCE_DIR "/docs/engines.md";
  const std::string page = golden::read_text(path);
  std::string table = "\n";
  bool head = true;
  for (const std::vector<std::string>& row : report::engine_rows(engine_catalogue())) {
    for (const std::string& cell : row) table += "| " + cell + " ";
    table += "|\n";
    if (head) {
      for (std::size_t i = 0; i < row.size(); ++i) table += "| --- ";
      table += "|\n";
    }
    head = false;
  }
  const std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos);
  const std::string expected = page.substr(0, from) + begin + table + "\n" + page.substr(to);
  if (std::getenv("ESPALIER_UPDATE_GOLDEN") != nullptr)
    std::ofstream(path, std::ios::binary) << expected;
  else
    EXPECT_EQ(page, expected) << "ESPALIER_UPDATE_GOLDEN=1 ./dev test -R golden";
}

}  // namespace
}  // namespace espalier
