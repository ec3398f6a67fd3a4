// SPDX-License-Identifier: Apache-2.0
// Maps the model of a run: published, configured, or described by its sizes.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "runs/mapper.h"
#include "runs/model.h"

namespace espalier::runs {

namespace {

constexpr std::int64_t kNoVocabulary = 128;  ///< so few that neither the embedding nor the loss counts

}  // namespace

void Mapper::map_model() {
  if (!r_.model.config.empty()) return map_config();
  const job::ArchitectureDefault* architecture = architecture_of(r_, all_);
  if (!architecture) return map_sizes();
  if (!architecture->unsupported.empty()) return skip("architecture not supported", architecture->unsupported);
  if (!architecture->config.empty()) return load_published(*architecture);
  DecoderShape s = architecture->shape;
  if (arguments_) {
    const bool encoder = s.encoder_only;
    s = arguments_->flags;
    s.encoder_only = encoder;
    used("architecture flags", "as on the command line", "Megatron-LM megatron/training/arguments.py, flags of the record");
  } else {
    used("architecture", architecture->match.front(), architecture->source);
  }
  fill_sizes(s);
  if (skip_) return;
  build_model(s);
}

void Mapper::load_published(const job::ArchitectureDefault& architecture) {
  take_model(load_model(architecture.config, r_.model.name), "model.layers differ from the published model");
  used("architecture", architecture.match.front(), architecture.source);
}

void Mapper::map_config() {
  auto text = base::read_file(r_.model.config);
  if (!text) return skip("model.config cannot be read", text.error().message());
  take_model(load_model(*text, r_.model.config), "model.layers differ from model.config");
  used("architecture", r_.model.config, "model.config of the record");
}

void Mapper::take_model(Result<Model> model, const char* contradiction) {
  if (!model) return skip("model cannot be built", model.error().message());
  if (r_.model.layers && *r_.model.layers != model->blocks()) return skip(contradiction, std::to_string(*r_.model.layers));
  run_.job.model = std::move(model).value();
}

void Mapper::map_sizes() {
  const bool sizes = r_.model.layers && r_.model.hidden && r_.model.heads;
  if (!sizes) return skip("architecture unknown", r_.model.name.empty() ? "no model.name" : r_.model.name);
  if (arguments_) {
    DecoderShape s = arguments_->flags;
    used("architecture flags", "as on the command line", "Megatron-LM megatron/training/arguments.py, flags of the record");
    fill_sizes(s);
    return skip_ ? void() : build_model(s);
  }
  const SizesChoice choice = architecture_of_sizes(r_);
  used("architecture", choice.name, choice.source);
  DecoderShape s = choice.shape;
  fill_sizes(s);
  if (!skip_) build_model(s);
}

void Mapper::fill_sizes(DecoderShape& s) {
  s.layers = count(r_.model.layers, "model.layers");
  s.hidden = count(r_.model.hidden, "model.hidden");
  s.heads = count(r_.model.heads, "model.heads");
  s.ffn = r_.model.ffn ? count(r_.model.ffn, "model.ffn") : 4 * s.hidden;
  if (!r_.model.ffn) {
    if (s.gated) skip("model.ffn missing");
    used("model.ffn", std::to_string(s.ffn), "4 · hidden (Vaswani et al. 2017)");
  }
  s.kv_heads = r_.model.kv_heads ? count(r_.model.kv_heads, "model.kv_heads") : s.heads;
  if (!r_.model.kv_heads) used("model.kv_heads", std::to_string(s.heads), "not named in the record: every head has its own");
  if (r_.model.head_dim) s.head_dim = count(r_.model.head_dim, "model.head_dim");
  std::optional<std::int64_t> vocabulary = r_.model.vocab;
  if (!vocabulary && arguments_) vocabulary = arguments_->vocabulary;
  if (!vocabulary && r_.mixture.network.stated()) {
    vocabulary = kNoVocabulary;
    used("vocab", std::to_string(kNoVocabulary), "none in a record that states its network: embedding and loss do not count");
  }
  s.vocabulary = count(vocabulary, "vocab");
  if (r_.model.experts && *r_.model.experts > 1) {
    s.experts = degree(r_.model.experts, "model.experts");
    s.top_k = degree(r_.model.topk, "model.topk");
    if (arguments_ && arguments_->expert_ffn)
      s.ffn = count(arguments_->expert_ffn, "--moe-ffn-hidden-size");  // every block is routed
  }
  const std::int64_t sequence = std::max<std::int64_t>(1, r_.seq.value_or(1));
  if (s.learned_positions) s.max_positions = std::max(s.max_positions, sequence);
}

void Mapper::build_model(DecoderShape s) {
  auto model = make_decoder(s, r_.model.name);
  if (!model) return skip("model cannot be built", model.error().message());
  if (r_.model.params && *r_.model.params > 0 && !arguments_) {
    DecoderShape other = s;
    other.tied = !s.tied;
    auto alternative = make_decoder(other, r_.model.name);
    const auto miss = [&](const Model& m) { return std::fabs(static_cast<double>(parameter_count(m)) - *r_.model.params); };
    if (alternative && miss(*alternative) < miss(*model)) {
      model = std::move(alternative);
      used("tied embeddings", other.tied ? "yes" : "no", "closer to the record's model.params");
    }
  }
  run_.job.model = std::move(model).value();
}

}  // namespace espalier::runs
