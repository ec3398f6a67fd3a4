// SPDX-License-Identifier: Apache-2.0
#include "runs/model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier::runs {
namespace {

DecoderShape gpt_flags() {
  DecoderShape s;
  s.gated = false;
  s.rms_norm = false;
  s.biases = true;
  s.tied = true;
  s.learned_positions = true;
  s.rotary = false;
  s.dropout = true;
  return s;
}

DecoderShape llama_flags() {
  DecoderShape s;
  s.gated = true;
  s.rms_norm = true;
  s.biases = false;
  s.tied = false;
  s.learned_positions = false;
  s.rotary = true;
  s.dropout = false;
  return s;
}

/// Returns whether the sizes are possible for a model. The mapping rejects sizes outside this range without trying
/// them.
bool plausible(const RunModel& m) {
  const auto inside = [](const std::optional<std::int64_t>& v) { return !v || (*v >= 1 && *v <= 1 << 20); };
  return inside(m.layers) && inside(m.hidden) && inside(m.heads) && inside(m.ffn) && inside(m.kv_heads) && inside(m.head_dim) &&
         inside(m.vocab) && inside(m.experts) && inside(m.topk);
}

/// Returns how far the parameters of this shape are from the stated ones, with tied or separate embeddings, whichever
/// is closer.
double miss(DecoderShape s, const RunRecord& r) {
  const RunModel& m = r.model;
  s.layers = *m.layers;
  s.hidden = *m.hidden;
  s.heads = *m.heads;
  s.ffn = m.ffn.value_or(4 * s.hidden);
  s.kv_heads = m.kv_heads.value_or(s.heads);
  s.head_dim = m.head_dim.value_or(0);
  s.vocabulary = m.vocab.value_or(1);
  if (m.experts.value_or(1) > 1) {
    s.experts = static_cast<std::int32_t>(*m.experts);
    s.top_k = static_cast<std::int32_t>(std::clamp<std::int64_t>(m.topk.value_or(1), 1, *m.experts));
  }
  if (s.learned_positions) s.max_positions = std::max<std::int64_t>(1, r.seq.value_or(1));
  double least = std::numeric_limits<double>::infinity();
  for (const bool tied : {false, true}) {
    s.tied = tied;
    const auto model = make_decoder(s, m.name);
    if (model) least = std::min(least, std::fabs(static_cast<double>(parameter_count(*model)) - *m.params));
  }
  return least;
}

}  // namespace

const job::ArchitectureDefault* architecture_of(const RunRecord& record, const job::RunDefaults& defaults) {
  const auto named = [&](const job::ArchitectureDefault& a) { return job::mentions(record.model.name, a.match); };
  const auto found = std::find_if(defaults.architectures.begin(), defaults.architectures.end(), named);
  return found == defaults.architectures.end() ? nullptr : &*found;
}

SizesChoice architecture_of_sizes(const RunRecord& record) {
  const RunModel& m = record.model;
  const bool wide = m.ffn && *m.ffn != 4 * *m.hidden;
  bool llama = wide || (m.kv_heads && *m.kv_heads != *m.heads) || m.experts.value_or(1) > 1;
  std::string why = "only the sizes: an MLP of 4 · hidden indicates GPT-2; another width, shared keys or experts indicate Llama";
  if (m.params && *m.params > 0 && m.ffn && plausible(m)) {
    llama = miss(llama_flags(), record) < miss(gpt_flags(), record);
    why = "only the sizes: closer to the record's model.params";
  }
  return llama ? SizesChoice{llama_flags(), "Llama-like decoder", why + " (Touvron et al. 2023, arXiv 2302.13971)"}
               : SizesChoice{gpt_flags(), "GPT-2-like decoder", why + " (Radford et al. 2019)"};
}

}  // namespace espalier::runs
