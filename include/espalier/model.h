// SPDX-License-Identifier: Apache-2.0
// The model to train: a transformer as a list of layers, each a list of operators with shapes.
//
// A Model makes the contents of a Hugging Face config.json explicit. It contains no device, no batch, no strategy and
// no sequence length (config.json holds none). Layers are in pipeline order: the embedding is the first layer and the
// head (final norm, output projection, loss) the last one. Pipeline stages are therefore contiguous ranges of layers.
//
// Shapes are per token: a `linear` maps [tokens, in] to [tokens, out]. Sequence and the layer's TokenStream determine
// how many tokens one sample brings to a layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"
#include "espalier/units.h"

namespace espalier {

/// Selects what an operator computes. The cost model has one equation per kind (src/cost/operator_cost.h).
enum class OperatorKind : std::uint8_t {
  embedding,          ///< table lookup: token, position or type embedding ([tokens] -> [tokens, out])
  patch_embed,        ///< vision patch convolution, a linear of in = channels·patch²
  norm,               ///< LayerNorm or RMSNorm over `in` features
  linear,             ///< dense GEMM, in -> out
  rotary,             ///< rotary position embedding applied to `in` features (queries and keys)
  attention,          ///< core attention: QKᵀ, softmax, dropout, AV
  dropout,            ///< element-wise dropout over `in` features (0 parameters; only families that train with it)
  activation,         ///< element-wise non-linearity reading `in` features, writing `out` (gated: in = 2·out)
  residual,           ///< residual addition over `in` features
  router,             ///< MoE gate: GEMM in -> experts, softmax, top-k
  dispatch,           ///< MoE all-to-all of routed tokens to the experts, width `in`; `top_k` copies of each token
  expert_linear,      ///< grouped GEMM in -> out over `experts`, each token through `top_k`
  expert_activation,  ///< activation inside the experts
  combine,            ///< MoE all-to-all back and weighted sum, width `in`
  cross_entropy,      ///< softmax cross-entropy over `in` = vocabulary (or classes)
  pool,               ///< vision/BERT pooler, token merge; cost of moving `in` features
  /// Computes a depthwise convolution along the sequence, `chunk` taps on each of `in` features, and its activation.
  causal_conv,
  scan,  ///< selective scan (Mamba): each of `in` channels carries `qk_dim` states from token to token
  /// Computes linear attention with decay (Mamba-2, lightning): matrix products inside chunks of `chunk` tokens, and
  /// one state per head that passes from chunk to chunk.
  chunked_scan,
  gated_delta,  ///< chunked_scan with the delta rule (Gated DeltaNet, KDA): adds a triangular inverse per chunk
};

/// Selects how tensor parallelism (TP, Shoeybi et al. 2019) splits an operator's weight and output.
enum class TpSplit : std::uint8_t {
  none,    ///< not split: weight replicated; work also replicated, or split along the sequence with SP
  column,  ///< output features split (needs the whole input)
  row,     ///< input features split (output is a partial sum, reduced after)
  heads,   ///< attention heads split; also for element-wise work between a column and a row linear
  vocab,   ///< vocabulary split (embedding, output projection, cross-entropy)
};

/// Describes one operator of a layer. Fields that a kind does not use are 0.
struct Operator {
  OperatorKind kind = OperatorKind::linear;
  std::string name;      ///< e.g. "attn.qkv", "mlp.gate_up", "mlp.down", "head.logits"; unique in the layer
  std::int64_t in = 0;   ///< input features per token
  std::int64_t out = 0;  ///< output features per token
  TpSplit split = TpSplit::none;
  /// Counts the trainable elements, including biases and all experts; tied weights count once, at first use.
  std::int64_t parameters = 0;
  std::int64_t parameters_unsplit = 0;  ///< parameters that TP does not split (row bias, norm weight, router …)
  // attention only
  std::int32_t heads = 0;     ///< query heads
  std::int32_t kv_heads = 0;  ///< key/value heads (GQA, MQA); MLA: = heads
  std::int32_t qk_dim = 0;    ///< features per head of Q and K
  std::int32_t v_dim = 0;     ///< features per head of V
  std::int64_t window = 0;    ///< sliding or shifted window in tokens; 0 = whole sequence
  bool causal = false;        ///< half of the score matrix is needed
  /// Keys and values come from the encoder stream (T5 cross-attention). A linear with this flag works on the
  /// encoder's tokens (the key/value projection of cross-attention).
  bool cross = false;
  bool score_dropout = false;  ///< attention probabilities are dropped out (GPT-2, BERT, T5 …): one mask byte per score
  // attention and scans; a scan has `heads`, `kv_heads` groups that share q and k, and `qk_dim` states
  // and `v_dim` features per head
  /// Attention stays inside pieces of this many tokens (Llama 4); 0: no pieces. Scans compute this many tokens
  /// together. For causal_conv it is the number of taps.
  std::int64_t chunk = 0;
  // MoE only
  std::int32_t experts = 0;  ///< routed experts of this layer
  std::int32_t top_k = 0;    ///< experts per token
  // trained parts (mark_trained, espalier/plan.h); a loaded model is trained as a whole and has no adapters
  bool frozen = false;        ///< `parameters` are not updated
  std::int32_t adapters = 0;  ///< low-rank pairs next to it, each `adapter_rank` features wide
  std::int32_t adapter_rank = 0;
  std::int64_t adapter_out = 0;  ///< output features that the pairs add to, summed over the pairs
  [[nodiscard]] std::int64_t adapter_parameters() const { return adapter_rank * (adapters * in + adapter_out); }
  // linear only
  bool parallel = false;  ///< parallel MLP: reads the input of the block's first linear, which is kept once
  bool operator==(const Operator&) const = default;
};

/// Selects the sequence of a sample that a layer works on.
enum class TokenStream : std::uint8_t {
  main,     ///< the one sequence of a decoder-only or encoder-only text model
  encoder,  ///< the other sequence: T5's source text, the patches of images, the frames of a recording
  decoder,  ///< T5 decoder
  fixed,    ///< `fixed_tokens` of the layer kind: vision models, where the image size decides
};

enum class LayerRole : std::uint8_t { embedding, block, head };

/// Describes a distinct kind of layer, which many layers may share.
struct LayerKind {
  std::string name;  ///< "embedding", "decoder", "decoder.moe", "decoder.sliding", "swin.stage2" …
  LayerRole role = LayerRole::block;
  TokenStream stream = TokenStream::main;
  std::int64_t fixed_tokens = 0;           ///< tokens per sample when stream == fixed
  std::int64_t hidden = 0;                 ///< width of the activation that this layer passes on
  std::int64_t boundary_tokens_fixed = 0;  ///< tokens per sample passed on when stream == fixed (Swin merges patches)
  std::int64_t tokens_divisor = 1;         ///< divisor of the stream's tokens (layers after a merge of patches)
  /// Names the stream that travels to later layers together with this layer's own output.
  TokenStream carried = TokenStream::encoder;
  /// Counts the features per token of that stream: T5 carries the encoder's output past the decoder, and towers carry
  /// the embedded text past the tower. 0: nothing is carried.
  std::int64_t carried_hidden = 0;
  bool backward = true;  ///< the layer or one before it is trained; otherwise no gradient reaches it
  std::vector<Operator> operators;
  bool operator==(const LayerKind&) const = default;
};

/// Counts the tokens per sample of each stream. Text models use main, and T5 uses encoder and decoder.
/// Vision models have 0 everywhere. Text with images uses main (including the positions of the images) and encoder
/// (the patches of all images).
struct Sequence {
  std::int64_t main = 0;
  std::int64_t encoder = 0;
  std::int64_t decoder = 0;
  std::int64_t images = 1;  ///< pieces of the encoder's sequence; attention stays inside each
  bool operator==(const Sequence&) const = default;
};

/// Reports a value that the file lacks or a part that was not planned; `espalier inspect model` shows it. Every
/// command prints notes of kind `ignored` (a key that is not read) and `left_out` (a part of the model that is not
/// planned).
struct ModelNote {
  enum class Kind : std::uint8_t { defaulted, ignored, derived, left_out } kind = Kind::defaulted;
  std::string key;
  std::string text;  ///< e.g. "head_dim = 128 (hidden_size / num_attention_heads)"
  bool operator==(const ModelNote&) const = default;
};

/// Describes a transformer in pipeline order. It is a value type: compare, copy, hash.
struct Model {
  std::string name;                  ///< from the path or the job file; not interpreted
  std::string family;                ///< model_type: "llama", "mixtral", …
  std::vector<LayerKind> kinds;      ///< distinct layer kinds
  std::vector<std::int32_t> layers;  ///< index into `kinds`; front() is the embedding, back() the head
  std::int64_t vocabulary = 0;       ///< rows of the token embedding; 0 for vision
  bool tied_embeddings = false;      ///< the output projection shares the embedding table
  std::int64_t max_positions = 0;    ///< 0 = unbounded (rotary, ALiBi, relative)
  /// Holds max_position_embeddings where positions are computed (rotary). A longer sequence can be planned, but the
  /// published weights were not trained on it. 0: not stated.
  std::int64_t context_length = 0;
  std::int64_t mtp_parameters = 0;  ///< parameters of multi-token-prediction modules, which are operators of the head
  bool vision = false;              ///< needs no training.sequence_length
  bool tower = false;               ///< the text contains images, whose patches form the encoder's sequence
  std::int64_t encoder_tokens = 0;  ///< tokens of one image or recording; 0: the job sets them
  std::vector<ModelNote> notes;

  [[nodiscard]] const LayerKind& layer(std::size_t i) const { return kinds[static_cast<std::size_t>(layers[i])]; }
  /// Returns the number of layers that are neither embedding nor head.
  [[nodiscard]] std::int64_t blocks() const;
  bool operator==(const Model&) const = default;
};

/// Counts the trainable parameters over layers and operators. Tied weights count once, and
/// multi-token prediction is included.
std::int64_t parameter_count(const Model& model);
std::int64_t parameter_count(const LayerKind& kind);
/// Counts the parameters that are not frozen, and adapters.
std::int64_t trained_parameter_count(const Model& model);
/// Counts the parameters that one token passes through (MoE: top_k of the experts).
std::int64_t active_parameter_count(const Model& model);

/// Returns the tokens per sample that `kind` works on.
std::int64_t tokens_per_sample(const LayerKind& kind, const Sequence& sequence);
/// Returns the tokens per sample that a token of `kind` can attend to: all of its layer, or those of its image.
std::int64_t attended_tokens(const LayerKind& kind, const Sequence& sequence);
/// Returns the elements per sample passed to the next layer: hidden · tokens, and the carried features.
std::int64_t boundary_elements(const LayerKind& kind, const Sequence& sequence);

/// Returns the floating-point operations of one sample's forward pass through a layer. Every GEMM counts 2·in·out per
/// token. Attention adds 2·heads·(qk_dim + v_dim)·kv per token. Here kv is the mean number of keys that a query sees:
/// the sequence, half of it when causal, or the window. `causal_half = false` counts causal attention in full, as the
/// MFU of Megatron and PaLM does. Scans count per token, with c chunk, k states and v features of each of H heads
/// (`causal_half` counts half of the triangle):
///   chunked_scan  H·(2c(k + v) + 4kv)      gated_delta  H·(2c(3k + 2v) + 6kv + c²/3)
///   scan          6·in·k                   causal_conv  2·in·c
Flops forward_flops(const LayerKind& kind, const Sequence& sequence, bool causal_half);
/// Returns 3 × the forward pass of the whole model for one sample ("model FLOPs" of MFU, no recomputation), less the
/// gradients that frozen parts save.
Flops training_flops(const Model& model, const Sequence& sequence, bool causal_half = false);

/// Reads the text of a Hugging Face config.json. An unknown `model_type` is rejected with the list of known ones.
/// Unknown keys are notes, not errors, because the format is not ours. A key whose name suggests that it changes
/// sizes or work (experts, layers, windows, towers) is rejected by name. `where` names the file in messages.
Result<Model> load_model(std::string_view config_json, const std::string& where);
/// Reads a file; `path` is the file itself, or a folder that holds config.json.
Result<Model> load_model_file(const std::string& path);
/// Returns a sentence for each part of the model that was not planned: its notes of kind `ignored` and `left_out`.
std::vector<std::string> unplanned_parts(const Model& model);
/// Returns the `model_type` values that load_model accepts, sorted.
std::vector<std::string> known_model_families();

/// Holds the plain dimensions of a decoder like GPT or Llama, for measured runs without a config.json.
struct DecoderShape {
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, vocabulary = 0, head_dim = 0;
  bool gated = false, rms_norm = false, biases = true, tied = true, learned_positions = true, rotary = false, dropout = false;
  std::int64_t max_positions = 0;
  std::int32_t experts = 0, top_k = 0;
  bool encoder_only = false;  ///< not causal, as in BERT
  bool qk_norm = false;       ///< RMSNorm over each head's features of Q and K
};
/// Builds the model that the dimensions describe. Every value must be positive (Error otherwise), with these
/// exceptions: kv_heads = 0 stands for `heads`, and head_dim = 0 for hidden / heads. Experts, top_k and (without
/// learned positions) max_positions may be 0.
Result<Model> make_decoder(const DecoderShape& shape, const std::string& name);

}  // namespace espalier
