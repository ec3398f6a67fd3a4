// SPDX-License-Identifier: Apache-2.0
// What is trained: a transformer as a list of layers, each a list of operators with shapes.
//
// A Model is what a Hugging Face config.json says, made explicit. It knows no device, no batch, no strategy and no
// sequence length (config.json holds none). Layers are in pipeline order; the embedding is the first layer and the head
// (final norm, output projection, loss) the last one, so that pipeline stages are contiguous ranges of layers.
//
// Shapes are per token: a `linear` maps [tokens, in] to [tokens, out]; how many tokens one sample brings to a layer is
// given by Sequence and the layer's TokenStream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"
#include "espalier/units.h"

namespace espalier {

/// What an operator computes. The cost model has one equation per kind (src/cost/operator_cost.h).
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
  causal_conv,        ///< depthwise convolution along the sequence, `chunk` taps on each of `in` features, and its
                      ///< activation
  scan,               ///< selective scan (Mamba): each of `in` channels carries `qk_dim` states from token to token
  chunked_scan,       ///< linear attention with decay (Mamba-2, lightning): products inside `chunk` tokens, one state a
                      ///< head
                      ///< between
  gated_delta,        ///< the same with the delta rule (Gated DeltaNet, KDA): a triangular inverse a chunk besides
};

/// How tensor parallelism (TP, Shoeybi et al. 2019) splits an operator's weight and output.
enum class TpSplit : std::uint8_t {
  none,    ///< not split: weight replicated; work replicated too, or split along the sequence when SP is on
  column,  ///< output features split (needs the whole input)
  row,     ///< input features split (output is a partial sum, reduced after)
  heads,   ///< attention heads split; element-wise work between a column and a row linear is `heads` too
  vocab,   ///< vocabulary split (embedding, output projection, cross-entropy)
};

/// One operator of a layer. Fields that a kind does not use are 0.
struct Operator {
  OperatorKind kind = OperatorKind::linear;
  std::string name;      ///< e.g. "attn.qkv", "mlp.gate_up", "mlp.down", "head.logits"; unique in the layer
  std::int64_t in = 0;   ///< input features per token
  std::int64_t out = 0;  ///< output features per token
  TpSplit split = TpSplit::none;
  std::int64_t parameters = 0;          ///< trainable elements, biases included, all experts included; tied weights
                                        ///< once, at
                                        ///< first use
  std::int64_t parameters_unsplit = 0;  ///< the part of `parameters` that TP does not split (row bias, norm weight,
                                        ///< router …)
  // attention only
  std::int32_t heads = 0;      ///< query heads
  std::int32_t kv_heads = 0;   ///< key/value heads (GQA, MQA); MLA: = heads
  std::int32_t qk_dim = 0;     ///< features per head of Q and K
  std::int32_t v_dim = 0;      ///< features per head of V
  std::int64_t window = 0;     ///< sliding or shifted window in tokens; 0 = whole sequence
  bool causal = false;         ///< half of the score matrix is needed
  bool cross = false;          ///< keys and values come from the encoder stream (T5 cross-attention); on a linear: it
                               ///< works on
                               ///< the encoder's tokens (the key/value projection of cross-attention)
  bool score_dropout = false;  ///< attention probabilities are dropped out (GPT-2, BERT, T5 …): one mask byte a score
  // attention and scans (of those `heads`, `kv_heads` groups that share q and k, `qk_dim` states, `v_dim` features a
  // head)
  std::int64_t chunk = 0;  ///< attention: only inside pieces of so many tokens (Llama 4), 0 = no pieces; scans: tokens
                           ///< that are
                           ///< computed together; causal_conv: taps
  // MoE only
  std::int32_t experts = 0;  ///< routed experts of this layer
  std::int32_t top_k = 0;    ///< experts per token
  // what is trained of it (mark_trained, espalier/plan.h); as loaded all of it, and there are no adapters
  bool frozen = false;        ///< `parameters` stay as they are
  std::int32_t adapters = 0;  ///< low-rank pairs beside it, `adapter_rank` features wide each
  std::int32_t adapter_rank = 0;
  std::int64_t adapter_out = 0;  ///< output features that all pairs together add to
  [[nodiscard]] std::int64_t adapter_parameters() const { return adapter_rank * (adapters * in + adapter_out); }
  // linear only
  bool parallel = false;  ///< reads what the block's first linear reads (MLP beside attention): that tensor is kept
                          ///< once
  bool operator==(const Operator&) const = default;
};

/// Which of the sample's sequences a layer works on.
enum class TokenStream : std::uint8_t {
  main,     ///< the one sequence of a decoder-only or encoder-only text model
  encoder,  ///< the other sequence: T5's source text, the patches of images, the frames of a recording
  decoder,  ///< T5 decoder
  fixed,    ///< `fixed_tokens` of the layer kind: vision models, whose image size decides
};

enum class LayerRole : std::uint8_t { embedding, block, head };

/// A distinct kind of layer; many layers share one.
struct LayerKind {
  std::string name;  ///< "embedding", "decoder", "decoder.moe", "decoder.sliding", "swin.stage2" …
  LayerRole role = LayerRole::block;
  TokenStream stream = TokenStream::main;
  std::int64_t fixed_tokens = 0;               ///< tokens per sample when stream == fixed
  std::int64_t hidden = 0;                     ///< width of the activation this layer hands on
  std::int64_t boundary_tokens_fixed = 0;      ///< tokens per sample handed on when stream == fixed (Swin merges
                                               ///< patches)
  std::int64_t tokens_divisor = 1;             ///< of the stream's tokens (layers behind a merge of neighbouring
                                               ///< patches)
  TokenStream carried = TokenStream::encoder;  ///< what travels along to later layers beside this layer's own output:
  std::int64_t carried_hidden = 0;             ///< so many features of each token of that stream (T5: the encoder's
                                               ///< output past
                                               ///< the decoder; towers: the embedded text past the tower); 0 = nothing
  bool backward = true;                        ///< something is trained in it or before it; else no gradient gets here
  std::vector<Operator> operators;
  bool operator==(const LayerKind&) const = default;
};

/// Tokens per sample of each stream. Text models: main. T5: encoder and decoder. Vision: all 0. Text with images: main
/// (the places of images in the text counted) and encoder, the patches of all images.
struct Sequence {
  std::int64_t main = 0;
  std::int64_t encoder = 0;
  std::int64_t decoder = 0;
  std::int64_t images = 1;  ///< pieces that the encoder's sequence consists of; attention stays inside each
  bool operator==(const Sequence&) const = default;
};

/// A value that the file did not hold, or that was not planned: shown by `espalier inspect model`. What is `ignored` (a
/// key that nothing here reads) or `left_out` (a part of the model that is not planned) is named by every command.
struct ModelNote {
  enum class Kind : std::uint8_t { defaulted, ignored, derived, left_out } kind = Kind::defaulted;
  std::string key;
  std::string text;  ///< e.g. "head_dim = 128 (hidden_size / num_attention_heads)"
  bool operator==(const ModelNote&) const = default;
};

/// A transformer in pipeline order. Value type: compare, copy, hash.
struct Model {
  std::string name;                  ///< from the path or the job file; no meaning
  std::string family;                ///< model_type: "llama", "mixtral", …
  std::vector<LayerKind> kinds;      ///< distinct layer kinds
  std::vector<std::int32_t> layers;  ///< index into `kinds`; front() is the embedding, back() the head
  std::int64_t vocabulary = 0;       ///< rows of the token embedding; 0 for vision
  bool tied_embeddings = false;      ///< output projection shares the embedding table
  std::int64_t max_positions = 0;    ///< 0 = unbounded (rotary, ALiBi, relative)
  std::int64_t context_length =
      0;  ///< max_position_embeddings where positions are computed (rotary); beyond it a sequence can be
          ///< planned, but the published weights have not seen it. 0 = not stated
  std::int64_t mtp_parameters = 0;  ///< of all parameters those of multi-token-prediction modules, operators of the
                                    ///< head
  bool vision = false;              ///< needs no training.sequence_length
  bool tower = false;               ///< images stand in the text: the encoder's sequence is theirs
  std::int64_t encoder_tokens = 0;  ///< tokens of one image or recording, where the configuration sets them; 0 = the
                                    ///< job does
  std::vector<ModelNote> notes;

  [[nodiscard]] const LayerKind& layer(std::size_t i) const { return kinds[static_cast<std::size_t>(layers[i])]; }
  /// Layers that are neither embedding nor head.
  [[nodiscard]] std::int64_t blocks() const;
  bool operator==(const Model&) const = default;
};

/// Trainable parameters: Σ over layers and operators; tied weights once; multi-token prediction included.
std::int64_t parameter_count(const Model& model);
std::int64_t parameter_count(const LayerKind& kind);
/// Of those, what is not frozen, and adapters.
std::int64_t trained_parameter_count(const Model& model);
/// Parameters that one token passes through (MoE: top_k of experts).
std::int64_t active_parameter_count(const Model& model);

/// Tokens per sample that `kind` works on.
std::int64_t tokens_per_sample(const LayerKind& kind, const Sequence& sequence);
/// Tokens per sample that a token of `kind` can attend to: all of its layer, or those of its image.
std::int64_t attended_tokens(const LayerKind& kind, const Sequence& sequence);
/// Elements per sample handed to the next layer: hidden · tokens, and what travels along.
std::int64_t boundary_elements(const LayerKind& kind, const Sequence& sequence);

/// Floating-point operations of one sample's forward pass through a layer: 2·in·out per token of every GEMM, plus
/// attention 2·heads·(qk_dim + v_dim)·kv per token, where kv is the mean number of keys a query sees: the sequence, or
/// half of it when causal, or the window. `causal_half = false` counts causal attention in full, as Megatron and PaLM's
/// MFU do. Scans, per token (c chunk, k states, v features of each of H heads; of the triangle half with
/// `causal_half`):
///   chunked_scan  H·(2c(k + v) + 4kv)      gated_delta  H·(2c(3k + 2v) + 6kv + c²/3)      scan  6·in·k      causal_conv  2·in·c
Flops forward_flops(const LayerKind& kind, const Sequence& sequence, bool causal_half);
/// 3 × the forward pass of the whole model for one sample ("model FLOPs" of MFU, no recomputation), less gradients that
/// frozen parts spare.
Flops training_flops(const Model& model, const Sequence& sequence, bool causal_half = false);

/// Reads the text of a Hugging Face config.json. Unknown `model_type` is refused with the list of known ones. Unknown
/// keys are notes, not errors (the format is not ours), unless their name says that they change sizes or work (experts,
/// layers, windows, towers): such a key is refused by name. `where` names the file in messages.
Result<Model> load_model(std::string_view config_json, const std::string& where);
/// `path`: the file, or a folder that holds config.json.
Result<Model> load_model_file(const std::string& path);
/// What was not planned of the model, a sentence each: its notes of kind `ignored` and `left_out`.
std::vector<std::string> unplanned_parts(const Model& model);
/// The `model_type` values load_model accepts, sorted.
std::vector<std::string> known_model_families();

/// Plain dimensions of a GPT/llama-like decoder, for measured runs that have no config.json.
struct DecoderShape {
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, vocabulary = 0, head_dim = 0;
  bool gated = false, rms_norm = false, biases = true, tied = true, learned_positions = true, rotary = false, dropout = false;
  std::int64_t max_positions = 0;
  std::int32_t experts = 0, top_k = 0;
  bool encoder_only = false;  ///< BERT-like: not causal
  bool qk_norm = false;       ///< RMSNorm over each head's features of Q and K
};
/// Builds the model that the dimensions describe; every value must be positive (Error otherwise), but kv_heads = 0
/// means `heads`, head_dim = 0 means hidden / heads, and experts, top_k and (without learned positions) max_positions
/// may be 0.
Result<Model> make_decoder(const DecoderShape& shape, const std::string& name);

}  // namespace espalier
