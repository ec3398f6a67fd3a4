// SPDX-License-Identifier: Apache-2.0
#include "model/fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "base/text.h"

namespace espalier::model {
namespace {

/// Lists keys about tokens, generation, training runs and numerics, on which no size, time or byte depends. Sorted
/// (binary search).
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
    "eod_token_id",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "init_std",
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
    "norm_eps",
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
    "reorder_and_upcast_attn",
    "return_dict",
    "rms_norm_eps",
    "rope_interleave",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_emb_base",
    "router_aux_loss_coef",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "sep_token_id",
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

}  // namespace

std::string_view Fields::pick(Names names) const {
  std::string_view first = *names.begin();
  bool found = false;
  for (const auto name : names) {  // all names are read: a second name for one size is not an unread key
    if (reader_->find(name) == nullptr || found) continue;
    first = name;
    found = true;
  }
  return first;
}

std::int64_t Fields::integer(Names names, std::int64_t high, std::int64_t low) {
  const auto key = pick(names);
  if (!reader_->has(key)) {
    for (const auto& [assumed, value] : assumed_)
      if (assumed == key) return integer_or(names, high, value, kFamilyDefault, low);
    reader_->fail(key, reader_->find(key) != nullptr ? "null" : "no value", "an integer under " + base::joined(names, " or "),
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

std::int64_t Fields::context_length() {
  const base::Node* node = reader_->find("max_position_embeddings");
  const bool count = node != nullptr && node->kind == base::NodeKind::integer && node->integer > 0;
  return count && node->integer <= SizeLimits::tokens ? node->integer : 0;
}

bool in_use(const base::Node& value) {
  switch (value.kind) {
    case base::NodeKind::null: return false;
    case base::NodeKind::boolean: return value.boolean;
    case base::NodeKind::integer:
    case base::NodeKind::real: return value.real != 0;
    case base::NodeKind::string: return !value.text.empty();
    case base::NodeKind::sequence: return std::any_of(value.items.begin(), value.items.end(), in_use);
    case base::NodeKind::mapping: return !value.members.empty();
  }
  return true;
}

namespace {

/// Returns whether the name of a key refers to sizes or work. It contains one of these words, and none that makes it
/// a rate, a token or a name.
bool speaks_of_size(const std::string& key) {
  constexpr std::array kWords = std::to_array<std::string_view>({"expert",
                                                                 "moe",
                                                                 "mlp",
                                                                 "ffn",
                                                                 "layer",
                                                                 "window",
                                                                 "sliding",
                                                                 "chunk",
                                                                 "vision",
                                                                 "visual",
                                                                 "image",
                                                                 "audio",
                                                                 "speech",
                                                                 "nextn",
                                                                 "mtp",
                                                                 "n_group",
                                                                 "topk_group",
                                                                 "lora_rank",
                                                                 "ssm",
                                                                 "mamba",
                                                                 "conv",
                                                                 "_heads",
                                                                 "intermediate_size",
                                                                 "hidden_size"});
  constexpr std::array kNoSize =
      std::to_array<std::string_view>({"layer_norm", "layernorm", "norm_eps", "layerdrop", "drop", "token", "loss", "coef",
                                       "init", "_act", "activation", "bias", "dtype", "jitter", "seed", "output_", "return_"});
  const auto in_key = [&](std::string_view word) { return key.find(word) != std::string::npos; };
  return std::any_of(kWords.begin(), kWords.end(), in_key) && std::none_of(kNoSize.begin(), kNoSize.end(), in_key);
}

bool harmless(const std::string& key) { return std::binary_search(kHarmless.begin(), kHarmless.end(), key); }

/// Returns a key as shown in messages: shortened, with control characters escaped.
std::string plain(const std::string& key) {
  const std::string text = base::in_quotes(key);
  return text.substr(1, text.size() - 2);
}

std::string shown(const base::Node& value) {
  if (value.kind == base::NodeKind::sequence) return "[…]";
  if (value.kind == base::NodeKind::mapping) return "{…}";
  return value.kind == base::NodeKind::boolean ? (value.boolean ? "true" : "false") : plain(value.text);
}

/// Collects keys that would change the model. One message names them all, so that one change resolves it.
struct Refused {
  static constexpr std::size_t kNamed = 8;
  std::string first, found, removal;
  std::size_t count = 0;

  void add(const std::string& key, const std::string& name, const std::string& value) {
    if (++count > kNamed) return;
    if (count == 1) first = key;
    found.append(count == 1 ? "" : ", ").append(name).append(" = ").append(value);
    removal.append(count == 1 ? "" : " ").append("--set model.").append(name).append("=");
  }
  void report(Fields& fields, const std::string& family) const {
    const bool more = count > kNamed;
    fields.fail(first, found + (more ? " and " + std::to_string(count - kNamed) + " more" : ""),
                "keys that family " + family + " reads, for keys that change sizes or work",
                std::string("planned without ") + (count == 1 ? "it" : "them") +
                    ", this would be another model; if that is intended, remove " + (count == 1 ? "the key" : "the keys") +
                    " (in a job: " + removal + (more ? " …)" : ")"));
  }
};

}  // namespace

void judge_unread(Fields& fields, const std::string& family) {
  constexpr std::size_t kMost = 32;  // a hostile file can hold millions of keys
  std::size_t count = 0;
  Refused refused;
  auto member = fields.reader().node().members.begin();
  for (const std::string& key : fields.reader().unread()) {  // in file order, like the members: one walk over both
    while (member->first != key) ++member;
    if (harmless(key)) continue;
    const base::Node& value = member->second;
    const std::string name = plain(key);
    const bool sizes = speaks_of_size(key) && in_use(value);
    if (sizes && value.kind != base::NodeKind::string) {
      refused.add(key, name, shown(value));
      continue;
    }
    if (++count > kMost) continue;
    fields.note(
        ModelNote::Kind::ignored, name,
        sizes ? name + " = " + base::in_quotes(value.text) + " is not read for " + family + ", though it may change sizes or work"
              : name + " is not read for " + family + ": no effect on size or cost is known");
  }
  if (refused.count > 0) {
    refused.report(fields, family);
    return;
  }
  if (count > kMost) {
    fields.note(ModelNote::Kind::ignored, "…", "and " + std::to_string(count - kMost) + " more unknown keys");
  }
}

}  // namespace espalier::model
