// SPDX-License-Identifier: Apache-2.0
// Declares one reader per model family, which maps the fields of a config.json to layers. Families that differ only
// in switches share a file (decoder_families.cpp, gpt.cpp). Facts about the families come from the configuration and
// modelling classes of Hugging Face transformers (huggingface/transformers, src/transformers/models/<family>), which
// define the keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/operators.h"

namespace espalier::model {

/// Fills `model` (family and notes are already set). Errors go to the sink of `fields`.
using ReadFamily = void (*)(Fields& fields, Model& model);

void read_deepseek_v2(Fields&, Model&);
void read_deepseek_v3(Fields&, Model&);
void read_deepseek_v32(Fields&, Model&);
void read_latent_dense(Fields&, Model&);
void read_mamba(Fields&, Model&);
void read_mamba2(Fields&, Model&);
void read_nemotron_h(Fields&, Model&);
void read_gptj(Fields&, Model&);
void read_gpt_neo(Fields&, Model&);
void read_gpt_bigcode(Fields&, Model&);
void read_falcon(Fields&, Model&);
void read_mpt(Fields&, Model&);
void read_fairseq_decoder(Fields&, Model&);
void read_distilbert(Fields&, Model&);
void read_albert(Fields&, Model&);
void read_zamba2(Fields&, Model&);
void read_phi4mm(Fields&, Model&);
void read_omni(Fields&, Model&);
void read_modernbert(Fields&, Model&);
void read_gpt2(Fields&, Model&);
void read_opt(Fields&, Model&);
void read_bloom(Fields&, Model&);
void read_gpt_neox(Fields&, Model&);
void read_bert(Fields&, Model&);
void read_t5(Fields&, Model&);
void read_bart(Fields&, Model&);
void read_vit(Fields&, Model&);
void read_generic(Fields&, Model&);  ///< `blocks`: models without a config.json (blocks.cpp)
void read_swin(Fields&, Model&);
void read_dbrx(Fields&, Model&);
void read_deberta(Fields&, Model&);
void read_dit(Fields&, Model&);              ///< diffusion transformers (dit.cpp)
void read_image_text_pair(Fields&, Model&);  ///< clip, siglip (image_text.cpp)
void read_t5gemma(Fields&, Model&);
void read_gemma4_text(Fields&, Model&);
void read_gemma3n_text(Fields&, Model&);
/// Reads the attention keys shared by Gemma's text models; `kv_heads` is the class's default.
AttentionShape read_gemma_attention(Fields& fields, std::int64_t hidden, std::int64_t kv_heads);

/// Adds a note on routing limited to some groups of experts (n_group, topk_group): it is read but not modelled.
void read_routing_groups(Fields& fields);
/// Adds `modules` of multi-token prediction to the head, where frameworks run them (DeepSeek-V3, arXiv 2412.19437,
/// 2.2). Each looks up the next tokens again, norms them and the hidden state, and projects both 2h → h. It then runs
/// `block` and a final norm, and uses the head's logits and loss again. Model::mtp_parameters counts their
/// parameters.
void add_prediction(Model& model, std::int64_t modules, const LayerKind& block);
/// Reads one value per layer from `layer_types`: the window of a sliding layer, 0 for full attention; empty if the
/// key is absent.
std::vector<std::int64_t> windows_of_layer_types(Fields& fields, std::int64_t layers, std::int64_t window);
/// Reads a list with one string per layer, each one of `allowed`; empty if the key is absent or null.
std::vector<std::string> per_layer_list(Fields& fields, std::string_view key, std::int64_t layers,
                                        const std::vector<std::string_view>& allowed);

}  // namespace espalier::model
