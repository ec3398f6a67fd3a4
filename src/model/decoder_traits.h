// SPDX-License-Identifier: Apache-2.0
// Describes decoders that differ in switches: token embedding, then blocks of norm, grouped-query attention with
// rotary positions, norm, MLP or mixture of experts; final norm, logits. A family is one row of Traits
// (decoder_families.cpp), read by read_decoder.
//
//   dense block parameters = h·(H + 2·KV)·d + H·d·h + 3·h·f + norms (+ biases)
//   MoE block              = attention + h·E + E·3·h·f
//   h hidden, H heads, KV key/value heads, d head_dim, f feed-forward width (of one expert), E experts
#pragma once

#include <span>
#include <string_view>

#include "model/family.h"
#include "model/state_space.h"

namespace espalier::model {

enum class Windows {
  none,       ///< full attention everywhere
  all,        ///< `sliding_window` on every layer, null = off (mistral, mixtral, phi3)
  qwen,       ///< off unless `use_sliding_window`; then from layer `max_window_layers` on
  alternate,  ///< every `sliding_window_pattern`-th layer is full, the others slide (gemma2, gemma3)
  listed,     ///< layers marked sliding in layer_types; without a list every `pattern`-th layer is full; null = off
};

/// A switch is always on, never on, or read from a key whose absence means `absent`.
struct Switch {
  std::string_view key;
  bool absent = false;
};
inline constexpr Switch kAlways{{}, true}, kNever{};

enum class HeadNorm {
  none,
  each,   ///< over each head's query and key, one weight vector for all heads
  whole,  ///< over all heads together, or with separate weights for each head
};

/// Holds what the architecture fixes, and what the configuration class assumes if a key is absent.
struct Traits {
  std::int64_t kv_heads = 0;    ///< absent num_key_value_heads; 0 = num_attention_heads
  std::int64_t head_dim = 0;    ///< absent head_dim; 0 = hidden_size / num_attention_heads
  std::int64_t heads = 0;       ///< absent num_attention_heads; 0 = must be given
  std::int64_t vocabulary = 0;  ///< absent vocab_size; 0 = must be given
  bool tied = false;            ///< absent tie_word_embeddings
  bool tied_given = false;      ///< `tied` comes from an outer file and overrides the text's own
  Switch qkv_bias = kNever, out_bias = kNever, mlp_bias = kNever, head_bias = kNever;
  HeadNorm head_norm = HeadNorm::none;
  Switch head_norm_on = kAlways;
  int head_norm_weights = 1;
  int norm_weights = 1;  ///< weights of each norm: 1 scale, 2 scale and shift, 0 none
  NormPlace norms = NormPlace::before;
  Switch parallel = kNever;  ///< attention and MLP in parallel after one norm
  bool final_norm = true;
  bool gated = true;  ///< whether the MLP is gated
  bool sinks = false;
  bool output_gate = false;  ///< gate on attention's output, of the same width
  int sub_norm = 0;          ///< norms before the output and down projections (bitnet)
  std::int64_t activation_parameters = 0;
  bool softcap = false;        ///< absent final_logit_softcapping: tanh on the logits
  double rotary = 1;           ///< absent partial_rotary_factor
  std::string_view dropout{};  ///< key of a dropout after attention and MLP; empty = none
  double dropout_absent = 0;
  double score_dropout = 0;         ///< absent attention_dropout
  bool positions_left_out = false;  ///< `no_rope_layers`: 0 for layers without rotary positions (smollm3)
  Windows windows = Windows::none;
  std::int64_t window = 4096;  ///< absent sliding_window if windows are on
  std::int64_t pattern = 2;
  std::string_view experts_key{};       ///< number of experts; empty = dense family
  std::int64_t experts = 0, top_k = 0;  ///< class defaults
  std::string_view expert_width{};      ///< key of an expert's width; empty = intermediate_size
  std::string_view shared_count{};      ///< key of a number of shared experts, each as wide as a routed one
  std::int64_t shared_absent = 0;
  std::string_view shared_width{};  ///< key of the width of the shared experts
  bool shared_gate = false, expert_bias = false;
  std::string_view first_dense{};  ///< key of a number of dense layers before the mixtures
  std::int64_t dense_layers = 0;
  bool every_layer_sparse = false;  ///< no intermediate_size of dense layers in the file
  ReadMixer mixer = nullptr;        ///< replaces attention in some layers
  /// Sets the period of attention layers if the file has no list of layer types; 0 = by the family's own keys.
  std::int64_t attention_every = 0;
  bool beside = false;            ///< falcon_h1: attention and mixer in parallel in every block
  std::string_view mixer_word{};  ///< the mixer's name in layer_types; empty = "linear_attention"
  /// llama4: layers marked chunked in layer_types attend inside pieces; mixtures are periodic.
  bool chunks = false;
  bool adjusts_width = false;     ///< lfm2: two thirds of intermediate_size, rounded up to block_multiple_of
  std::string_view prediction{};  ///< key of a number of multi-token-prediction modules; empty = none are read
};

void read_decoder(Fields& fields, Model& model, const Traits& traits);

/// Holds a row of decoder_families.cpp.
struct DecoderFamily {
  std::string_view type, architecture;
  Traits traits;
};
std::span<const DecoderFamily> decoder_families();
/// Returns the traits of the row with that type; null if there is none.
const Traits* decoder_traits(std::string_view type);

}  // namespace espalier::model
