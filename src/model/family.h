// SPDX-License-Identifier: Apache-2.0
// One reader per model family: from the fields of a config.json to layers. The families that differ only in switches share a
// file (llama.cpp, gpt.cpp). Facts about the families come from the configuration and modelling classes of Hugging Face
// transformers (huggingface/transformers, src/transformers/models/<family>), which define what the keys mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/operators.h"

namespace espalier::model {

/// Fills `model` (family and notes are set already). Errors go to the sink behind `fields`.
using ReadFamily = void (*)(Fields& fields, Model& model);

void read_llama(Fields&, Model&);
void read_mistral(Fields&, Model&);
void read_mixtral(Fields&, Model&);
void read_qwen2(Fields&, Model&);
void read_qwen3(Fields&, Model&);
void read_qwen3_moe(Fields&, Model&);
void read_gemma(Fields&, Model&);
void read_gemma2(Fields&, Model&);
void read_gemma3_text(Fields&, Model&);
void read_phi3(Fields&, Model&);
void read_deepseek_v3(Fields&, Model&);
void read_gpt2(Fields&, Model&);
void read_opt(Fields&, Model&);
void read_bloom(Fields&, Model&);
void read_gpt_neox(Fields&, Model&);
void read_bert(Fields&, Model&);
void read_t5(Fields&, Model&);
void read_vit(Fields&, Model&);
void read_swin(Fields&, Model&);

/// One value per layer from `layer_types`: the window of a sliding layer, 0 for full attention; empty when the key is absent.
std::vector<std::int64_t> windows_of_layer_types(Fields& fields, std::int64_t layers, std::int64_t window);
/// The strings of a list with one entry per layer, each one of `allowed`; empty when the key is absent or null.
std::vector<std::string> per_layer_list(Fields& fields, std::string_view key, std::int64_t layers,
                                        const std::vector<std::string_view>& allowed);

}  // namespace espalier::model
