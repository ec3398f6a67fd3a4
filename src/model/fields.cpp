// SPDX-License-Identifier: Apache-2.0
#include "model/fields.h"

#include <algorithm>
#include <array>
#include <utility>

namespace espalier::model {
namespace {

/// Keys about tokens, generation, training runs and numerics: nothing that a size, a time or a byte depends on. Sorted.
constexpr std::array kHarmless = std::to_array<std::string_view>({
    "_attn_implementation",
    "_espalier_provenance",
    "_name_or_path",
    "add_bos_token",
    "add_eos_token",
    "architectures",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_layer",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "length_penalty",
    "masked_softmax_fusion",
    "max_length",
    "min_length",
    "model_type",
    "name_or_path",
    "norm_epsilon",
    "num_beams",
    "offset_alibi",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "pad_token_id",
    "position_embedding_type",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "rms_norm_eps",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_emb_base",
    "router_aux_loss_coef",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "reorder_and_upcast_attn",
    "rope_interleave",
    "seq_length",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "slow_but_exact",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "use_mrope",
    "use_return_dict",
});

std::string join(Names names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : " or ") + std::string(name);
  return text;
}

}  // namespace

std::string_view Fields::pick(Names names) const {
  for (const auto name : names) {
    if (reader_->find(name) != nullptr) return name;
  }
  return *names.begin();
}

std::int64_t Fields::integer(Names names, std::int64_t high, std::int64_t low) {
  const auto key = pick(names);
  if (!reader_->has(key)) {
    reader_->fail(key, reader_->find(key) != nullptr ? "null" : "no value", "an integer under " + join(names),
                  "sizes are not guessed; give the model's original config.json");
    return low;
  }
  return std::clamp(reader_->required_int(key, low, high), low, high);
}

std::int64_t Fields::integer_or(Names names, std::int64_t high, std::int64_t fallback, std::string_view why, std::int64_t low) {
  const auto key = pick(names);
  if (!reader_->has(key)) {
    defaulted(key, std::to_string(fallback), why);
    return fallback;
  }
  return std::clamp(reader_->required_int(key, low, high), low, high);
}

std::int64_t Fields::integer_nullable(Names names, std::int64_t high, std::int64_t absent, std::int64_t null,
                                      std::string_view why, std::int64_t low) {
  const auto key = pick(names);
  if (reader_->find(key) == nullptr) {
    defaulted(key, std::to_string(absent), absent == null ? why : kFamilyDefault);
    return absent;
  }
  return integer_or(names, high, null, why, low);
}

bool Fields::flag(std::string_view name, bool fallback) {
  if (!reader_->has(name)) {
    defaulted(name, fallback ? "true" : "false");
    return fallback;
  }
  return reader_->optional_bool(name, fallback);
}

bool Fields::positive_rate(Names names, double fallback) { return real(names, 0, 1, fallback) > 0; }

double Fields::real(Names names, double low, double high, double fallback) {
  const auto key = pick(names);
  if (!reader_->has(key)) {
    std::string value = std::to_string(fallback);
    value.erase(value.find_last_not_of('0') + 1);
    if (value.back() == '.') value.pop_back();
    defaulted(key, value);
    return fallback;
  }
  return std::clamp(reader_->required_real(key, low, high), low, high);
}

std::string Fields::text(Names names, std::string fallback) {
  const auto key = pick(names);
  if (!reader_->has(key)) {
    defaulted(key, fallback);
    return fallback;
  }
  return reader_->required_string(key);
}

void Fields::fail(std::string_view key, std::int64_t found, std::string expected, std::string hint) {
  reader_->fail(key, std::string(key) + " = " + std::to_string(found), std::move(expected), std::move(hint));
}

void Fields::fail(std::string_view key, std::string found, std::string expected, std::string hint) {
  reader_->fail(key, std::move(found), std::move(expected), std::move(hint));
}

void Fields::require_divides(std::string_view divisor_key, std::int64_t divisor, std::string_view whole_key, std::int64_t whole) {
  if (!ok() || whole % divisor == 0) return;
  fail(divisor_key, divisor, "a divisor of " + std::string(whole_key) + " = " + std::to_string(whole),
       "one of the two values is not from this model");
}

void Fields::note(ModelNote::Kind kind, std::string_view key, std::string text) {
  notes_->push_back({kind, std::string(key), std::move(text)});
}

void Fields::defaulted(std::string_view key, const std::string& value, std::string_view why) {
  note(ModelNote::Kind::defaulted, key, std::string(key) + " = " + value + " (" + std::string(why) + ")");
}

void note_unread(const base::Reader& reader, std::vector<ModelNote>& notes) {
  constexpr std::size_t kMost = 32, kLongest = 80;  // a hostile file can hold millions of keys
  std::size_t count = 0;
  for (const std::string& key : reader.unread()) {
    if (std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end()) continue;
    if (++count > kMost) continue;
    notes.push_back(
        {ModelNote::Kind::ignored, key.substr(0, kLongest), "not read for this family: no effect on size or cost is known"});
  }
  if (count > kMost) {
    notes.push_back({ModelNote::Kind::ignored, "…", "and " + std::to_string(count - kMost) + " more unknown keys"});
  }
}

}  // namespace espalier::model
