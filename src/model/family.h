// SPDX-License-Identifier: Apache-2.0
// One reader per model family: from the fields of a config.json to layers. The families that differ only in switches
// share a file (llama.cpp, gpt.cpp). Facts about the families come from the configuration and modelling classes of
// Hugging Face transformers (huggingface/transformers, src/transformers/models/<family>), which define what the keys
// mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/operators.h"

namespace espalier::model {

/// Fills `model` (family and notes are set already). Errors go to the sink behind `fields`.
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
void read_generic(Fields&, Model&);  ///< `blocks`: what no config.json says (blocks.cpp)
void read_swin(Fields&, Model&);
void read_dbrx(Fields&, Model&);
void read_deberta(Fields&, Model&);
void read_dit(Fields&, Model&);              ///< diffusion transformers (dit.cpp)
void read_image_text_pair(Fields&, Model&);  ///< clip, siglip (image_text.cpp)
void read_t5gemma(Fields&, Model&);
void read_gemma4_text(Fields&, Model&);
void read_gemma3n_text(Fields&, Model&);
/// Keys of attention that the texts of Gemma share; `kv_heads`: what the class assumes of them.
AttentionShape read_gemma_attention(Fields& fields, std::int64_t hidden, std::int64_t kv_heads);

/// Notes of routing that is limited to some groups of experts (n_group, topk_group): it is read and not modelled.
void read_routing_groups(Fields& fields);
/// Adds `modules` of multi-token prediction to the head, where frameworks run them: each looks the next tokens up
/// again, norms them and the hidden state, projects both 2h → h, runs `block` and a final norm, and uses the head's
/// logits and loss again (DeepSeek-V3, arXiv
/// 2412.19437, 2.2). Model::mtp_parameters says how many of the model's parameters are theirs.
void add_prediction(Model& model, std::int64_t modules, const LayerKind& block);
/// One value per layer from `layer_types`: the window of a sliding layer, 0 for full attention; empty when the key is
/// absent.
std::vector<std::int64_t> windows_of_layer_types(Fields& fields, std::int64_t layers, std::int64_t window);
/// The strings of a list with one entry per layer, each one of `allowed`; empty when the key is absent or null.
std::vector<std::string> per_layer_list(Fields& fields, std::string_view key, std::int64_t layers,
                                        const std::vector<std::string_view>& allowed);

}  // namespace espalier::model
