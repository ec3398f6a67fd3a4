// SPDX-License-Identifier: Apache-2.0
// Reads a Hugging Face config.json: which family, its reader, then what holds for all families.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include "base/document.h"
#include "base/document_kind.h"
#include "espalier/model.h"
#include "model/family.h"

namespace espalier {
namespace {

using model::Fields;

struct Family {
  std::string_view type;          ///< model_type
  std::string_view architecture;  ///< prefix of architectures[0], for files without model_type
  model::ReadFamily read;
  bool nested = false;  ///< the text model is under text_config
};

/// Sorted by type.
constexpr std::array kFamilies = std::to_array<Family>({
    {"bert", "Bert", model::read_bert},
    {"bloom", "Bloom", model::read_bloom},
    {"deepseek_v3", "DeepseekV3", model::read_deepseek_v3},
    {"gemma", "Gemma", model::read_gemma},
    {"gemma2", "Gemma2", model::read_gemma2},
    {"gemma3", "Gemma3", model::read_gemma3_text, true},
    {"gemma3_text", "Gemma3Text", model::read_gemma3_text},
    {"gpt2", "GPT2", model::read_gpt2},
    {"gpt_neox", "GPTNeoX", model::read_gpt_neox},
    {"llama", "Llama", model::read_llama},
    {"mistral", "Mistral", model::read_mistral},
    {"mixtral", "Mixtral", model::read_mixtral},
    {"opt", "OPT", model::read_opt},
    {"phi3", "Phi3", model::read_phi3},
    {"qwen2", "Qwen2", model::read_qwen2},
    {"qwen3", "Qwen3", model::read_qwen3},
    {"qwen3_moe", "Qwen3Moe", model::read_qwen3_moe},
    {"swin", "Swin", model::read_swin},
    {"t5", "T5", model::read_t5},
    {"vit", "ViT", model::read_vit},
});

std::string family_list() {
  std::string text;
  for (const Family& family : kFamilies) text += (text.empty() ? "" : ", ") + std::string(family.type);
  return text;
}

const Family* find_type(std::string_view type) {
  const auto at = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return f.type == type; });
  return at == kFamilies.end() ? nullptr : &*at;
}

/// "LlamaForCausalLM" -> llama. "Gemma3ForCausalLM" is the text model, "Gemma3ForConditionalGeneration" the nested one.
const Family* find_architecture(std::string_view name) {
  if (name == "Gemma3ForCausalLM") return find_type("gemma3_text");
  const std::size_t cut =
      std::min({name.find("For"), name.find("LMHeadModel"), name.find("WithLMHead"), name.find("Model"), name.size()});
  const std::string_view stem = name.substr(0, cut);
  const auto at = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return f.architecture == stem; });
  return at == kFamilies.end() ? nullptr : &*at;
}

/// Letters and digits in lower case, a doubled letter once: "GPT-NeoX" and "gpt_neox", "lama" and "llama" are one word.
std::string bare(std::string_view word) {
  std::string out;
  for (const char given : word) {
    const char c = given >= 'A' && given <= 'Z' ? static_cast<char>(given - 'A' + 'a') : given;
    const bool letter = c >= 'a' && c <= 'z';
    if ((letter && (out.empty() || out.back() != c)) || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

/// Equal but for two neighbouring letters that changed places ("mixtarl").
bool swapped(const std::string& a, const std::string& b) {
  const auto first = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (a.size() != b.size() || first.first == a.end()) return false;
  const auto at = static_cast<std::size_t>(first.first - a.begin());
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return at + 1 < a.size() && letter(a[at]) && letter(a[at + 1]) && a[at] == b[at + 1] && a[at + 1] == b[at] &&
         a.compare(at + 2, std::string::npos, b, at + 2) == 0;
}

/// The family that is spelt otherwise here; empty when there is none. Never a family whose name merely resembles: llama4, mllama,
/// mt5, bart and gptj have other layers than llama, t5, bert and gpt2, and edit distance does not know that.
std::string same_family(const std::string& type) {
  constexpr std::size_t kLongest = 40;
  if (type.size() > kLongest) return "";
  for (const Family& family : kFamilies) {
    const std::string wanted = bare(family.type), given = bare(type);
    if (given == wanted || swapped(given, wanted)) return std::string(family.type);
  }
  return "";
}

std::string first_architecture(const base::Reader& reader) {
  const base::Node* list = reader.find("architectures");
  const bool usable = list != nullptr && !list->items.empty() && list->items.front().kind == base::NodeKind::string;
  return usable ? list->items.front().text : "";
}

std::string quoted(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  std::string result(1, '"');
  result += text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
  return result += '"';
}

/// Null with an error in the sink when the file's family is not known.
const Family* choose_family(base::Reader& reader, std::vector<ModelNote>& notes) {
  const std::string hint = "known model_type values: " + family_list();
  if (reader.has("model_type")) {
    const std::string type = reader.required_string("model_type");
    if (!reader.sink().ok()) return nullptr;
    if (const Family* family = find_type(type)) return family;
    const std::string same = same_family(type);
    reader.fail("model_type", quoted(type), "a known model family",
                (same.empty() ? "another family has other layers, so none is taken in its place; "
                              : "did you mean " + quoted(same) + "? ") +
                    hint);
    return nullptr;
  }
  const std::string architecture = first_architecture(reader);
  if (const Family* family = find_architecture(architecture)) {
    const std::string text = "model_type = " + std::string(family->type) + " (from architectures)";
    notes.push_back({ModelNote::Kind::derived, "model_type", text});
    return family;
  }
  reader.fail("model_type", architecture.empty() ? "no value" : "only architectures = " + quoted(architecture),
              "the model_type of a Hugging Face config.json", hint);
  return nullptr;
}

/// Keys that change the meaning of everything else and that no family here reads.
void refuse_unsupported(Fields& fields) {
  const base::Node* per_layer = fields.reader().find("per_layer_config");
  if (per_layer != nullptr && (!per_layer->members.empty() || !per_layer->items.empty())) {
    fields.fail("per_layer_config", "per-layer sizes", "one set of sizes for all layers",
                "per_layer_config (pruned or searched architectures) is not supported");
  }
  if (fields.reader().has("quantization_config")) {
    fields.note(ModelNote::Kind::ignored, "quantization_config",
                "quantization_config is the storage format of the published weights; the job sets the training precision");
  }
}

/// The totals must be usable numbers: 2^50 parameters, a thousand times the largest model known.
void check_totals(Fields& fields, const Model& model) {
  constexpr double kMost = 1125899906842624.0;
  double sum = static_cast<double>(model.mtp_parameters);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const Operator& op : model.layer(i).operators) sum += static_cast<double>(op.parameters);
  }
  if (sum > kMost)
    fields.fail("model_type", "sizes that multiply to more than 2^50 parameters", "a model of at most 2^50 parameters");
}

/// "models/llama-3-8b/config.json" -> "llama-3-8b"; "gpt.json" -> "gpt".
std::string name_from(const std::string& where) {
  const std::size_t slash = where.find_last_of('/');
  const std::string file = slash == std::string::npos ? where : where.substr(slash + 1);
  if (file == "config.json" && slash != std::string::npos && slash > 0) {
    const std::string folder = where.substr(0, slash);
    const std::size_t before = folder.find_last_of('/');
    const std::string name = before == std::string::npos ? folder : folder.substr(before + 1);
    if (!name.empty() && name != "." && name != "..") return name;
  }
  const std::size_t dot = file.find_last_of('.');
  return dot == std::string::npos || dot == 0 ? file : file.substr(0, dot);
}

void read_family(const Family& family, base::Reader& reader, Model& result) {
  Fields fields(reader, result.notes);
  refuse_unsupported(fields);
  family.read(fields, result);
  if (!fields.ok()) return;
  check_totals(fields, result);
  model::judge_unread(fields, result.family);
}

}  // namespace

std::vector<std::string> known_model_families() {
  std::vector<std::string> names;
  std::transform(kFamilies.begin(), kFamilies.end(), std::back_inserter(names),
                 [](const Family& f) { return std::string(f.type); });
  return names;
}

Result<Model> load_model(std::string_view config_json, const std::string& where) {
  const Result<base::Document> document = base::read_json(config_json, where);
  if (!document.ok()) return base::wrong_kind_of(config_json, where, "a model's config.json", document.error());
  if (document->root.kind != base::NodeKind::mapping) {
    const std::string place = where + ":" + std::to_string(document->root.line) + ":" + std::to_string(document->root.column);
    return Error{ErrorKind::bad_input, place, std::string(base::to_string(document->root.kind)), "a JSON object",
                 "give a Hugging Face config.json"};
  }
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  Model result;
  result.name = name_from(where);
  const Family* family = choose_family(root, result.notes);
  if (family == nullptr) return base::wrong_kind_of(config_json, where, "a model's config.json", *sink.first());
  if (family != nullptr) {
    result.family = std::string(family->type);
    if (family->nested) {
      base::Reader text = root.child("text_config", true);
      if (root.has("vision_config"))
        result.notes.push_back(
            {ModelNote::Kind::left_out, "vision_config", "vision_config: only the text model of text_config is planned"});
      if (sink.ok()) read_family(*family, text, result);
    } else {
      read_family(*family, root, result);
    }
  }
  if (sink.first()) return *sink.first();
  return result;
}

Result<Model> load_model_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path inside = std::filesystem::path(path) / "config.json";
  const bool folder = std::filesystem::is_directory(path, ignored);
  if (folder && !std::filesystem::is_regular_file(inside, ignored)) {
    return Error{ErrorKind::bad_input, path, "a folder without config.json",
                 "a Hugging Face config.json, or the folder that holds it", "is this the folder of the model?"};
  }
  const std::string file = folder ? inside.string() : path;
  const Result<std::string> text = base::read_file(file);
  if (!text.ok()) return text.error();
  return load_model(*text, file);
}

std::vector<std::string> unplanned_parts(const Model& model) {
  std::vector<std::string> out;
  for (const ModelNote& note : model.notes) {
    const bool unplanned = note.kind == ModelNote::Kind::ignored || note.kind == ModelNote::Kind::left_out;
    if (unplanned) out.push_back(note.text.empty() ? note.key : note.text);
  }
  return out;
}

}  // namespace espalier
