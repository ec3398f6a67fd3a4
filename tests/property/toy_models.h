// SPDX-License-Identifier: Apache-2.0
// Generates random models of at most eight layers, embedding and head included. These are dense and expert decoders,
// tied or not, two layer kinds (first layers dense), encoder-decoder pairs, and images with unequal stages. Shapes
// are small, but they use the same code paths as the real ones.
#pragma once

#include <algorithm>
#include <string>

#include "base/invariant.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "random.h"

namespace espalier::property {

struct ToyModel {
  Model model;
  Sequence sequence;
};

inline Model loaded(const std::string& json) {
  auto model = load_model(json, "toy");
  ESPALIER_CHECK(model.ok());
  return *model;
}

inline std::string number(const char* key, std::int64_t value) {
  return std::string(", \"") + key + "\": " + std::to_string(value);
}

inline ToyModel toy_decoder(Random& random, bool experts) {
  DecoderShape shape;
  shape.layers = random.between(1, 6);
  shape.heads = random.of<std::int64_t>({2, 4, 6, 8, 12, 16});
  shape.kv_heads = random.one_in(2) ? shape.heads : random.of<std::int64_t>({1, 2});
  shape.hidden = shape.heads * random.of<std::int64_t>({8, 16});
  shape.ffn = random.of<std::int64_t>({96, 192, 384});
  shape.vocabulary = random.of<std::int64_t>({50, 96, 1000});
  shape.gated = random.one_in(2);
  shape.rms_norm = random.one_in(2);
  shape.biases = random.one_in(2);
  shape.tied = random.one_in(2);
  shape.rotary = random.one_in(2);
  shape.learned_positions = !shape.rotary;
  shape.dropout = random.one_in(3);
  shape.max_positions = 128;
  if (experts) {
    shape.experts = static_cast<std::int32_t>(random.of<std::int64_t>({2, 4, 6, 8, 12}));
    shape.top_k = static_cast<std::int32_t>(random.between(1, 2));
  }
  auto model = make_decoder(shape, "toy");
  ESPALIER_CHECK(model.ok());
  return {*model, {.main = random.of<std::int64_t>({16, 24, 32, 48, 64})}};
}

/// Returns a model whose first layers are dense; the others have shared and routed experts and latent attention.
inline ToyModel toy_deepseek(Random& random) {
  const std::int64_t blocks = random.between(2, 6);
  return {loaded("{\"model_type\": \"deepseek_v3\", \"q_lora_rank\": 12, \"kv_lora_rank\": 10, \"qk_rope_head_dim\": 2, "
                 "\"qk_nope_head_dim\": 6, \"v_head_dim\": 8, \"num_experts_per_tok\": 2, \"n_shared_experts\": 1" +
                 number("hidden_size", 64) + number("num_hidden_layers", blocks) +
                 number("num_attention_heads", random.of<std::int64_t>({4, 8})) + number("intermediate_size", 96) +
                 number("vocab_size", 64) + number("n_routed_experts", random.of<std::int64_t>({4, 8})) +
                 number("moe_intermediate_size", 48) + number("first_k_dense_replace", random.between(1, blocks - 1)) + "}"),
          {.main = random.of<std::int64_t>({16, 32, 48})}};
}

inline ToyModel toy_t5(Random& random) {
  return {loaded("{\"model_type\": \"t5\", \"d_kv\": 16, \"d_ff\": 96" + number("d_model", 32) +
                 number("num_heads", random.of<std::int64_t>({4, 6})) + number("num_layers", random.between(1, 3)) +
                 number("num_decoder_layers", random.between(1, 3)) + number("vocab_size", 100) + "}"),
          {.encoder = random.of<std::int64_t>({24, 48}), .decoder = random.of<std::int64_t>({8, 24})}};
}

inline ToyModel toy_image(Random& random) {
  if (random.one_in(2)) {
    return {loaded("{\"model_type\": \"vit\", \"num_attention_heads\": 4, \"intermediate_size\": 96, \"image_size\": 32, "
                   "\"patch_size\": 8" +
                   number("hidden_size", 32) + number("num_hidden_layers", random.between(1, 6)) + "}"),
            {}};
  }
  return {loaded("{\"model_type\": \"swin\", \"embed_dim\": 16, \"depths\": [1, 2, " + std::to_string(random.between(1, 2)) +
                 "], \"num_heads\": [2, 4, 8], \"window_size\": 4, \"image_size\": 64, \"patch_size\": 4, \"num_labels\": 10}"),
          {}};
}

/// Returns a model with sliding and full attention in turn.
inline ToyModel toy_gemma(Random& random) {
  return {loaded("{\"model_type\": \"gemma2\", \"head_dim\": 8, \"sliding_window\": 16, \"num_key_value_heads\": 2" +
                 number("hidden_size", 64) + number("num_hidden_layers", random.between(2, 6)) +
                 number("num_attention_heads", 8) + number("intermediate_size", 96) + number("vocab_size", 128) + "}"),
          {.main = random.of<std::int64_t>({32, 48})}};
}

inline ToyModel toy_model(Random& random, bool experts) {
  if (experts) return random.one_in(4) ? toy_deepseek(random) : toy_decoder(random, true);
  switch (random.below(8)) {
    case 0: return toy_t5(random);
    case 1: return toy_image(random);
    case 2: return toy_gemma(random);
    default: return toy_decoder(random, false);
  }
}

}  // namespace espalier::property
