// SPDX-License-Identifier: Apache-2.0
// Reads a Hugging Face config.json: its family, with the family's reader, then the common parts of all families.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include "base/document.h"
#include "base/document_kind.h"
#include "base/format.h"
#include "espalier/model.h"
#include "model/decoder_traits.h"
#include "model/model_invariants.h"
#include "model/tower.h"

namespace espalier {
namespace {

using model::Fields;

struct ModelFamily {
  std::string_view type;          ///< model_type
  std::string_view architecture;  ///< prefix of architectures[0], for files without model_type
  model::ReadFamily read;
  const model::Traits* traits = nullptr;      ///< traits of a family that is a row of switches
  const model::TowerFamily* tower = nullptr;  ///< tower of a family with text and images
};

/// Lists families with a reader of their own. Rows of switches are in decoder_families.cpp, those with towers in
/// tower_families.cpp.
constexpr std::array kReaders = std::to_array<ModelFamily>({
    {"albert", "Albert", model::read_albert},
    {"bert", "Bert", model::read_bert},
    {"blocks", "", model::read_generic},
    {"clip", "CLIP", model::read_image_text_pair},
    {"dbrx", "Dbrx", model::read_dbrx},
    {"deberta-v2", "DebertaV2", model::read_deberta},
    {"dit", "DiT", model::read_dit},
    {"gemma3n_text", "Gemma3nText", model::read_gemma3n_text},
    {"gemma4_text", "Gemma4Text", model::read_gemma4_text},
    {"phi4mm", "Phi4MM", model::read_phi4mm},
    {"qwen2_5_omni", "Qwen2_5Omni", model::read_omni},
    {"siglip", "Siglip", model::read_image_text_pair},
    {"t5gemma", "T5Gemma", model::read_t5gemma},
    {"bloom", "Bloom", model::read_bloom},
    {"deepseek_v2", "DeepseekV2", model::read_deepseek_v2},
    {"deepseek_v3", "DeepseekV3", model::read_deepseek_v3},
    {"deepseek_v32", "DeepseekV32", model::read_deepseek_v32},
    {"glm4_moe_lite", "Glm4MoeLite", model::read_deepseek_v3},
    {"gpt2", "GPT2", model::read_gpt2},
    {"gpt_neox", "GPTNeoX", model::read_gpt_neox},
    {"kimi_k2", "KimiK2", model::read_deepseek_v3},
    {"mamba", "Mamba", model::read_mamba},
    {"mamba2", "Mamba2", model::read_mamba2},
    {"falcon_mamba", "FalconMamba", model::read_mamba},
    {"nemotron_h", "NemotronH", model::read_nemotron_h},
    {"gptj", "GPTJ", model::read_gptj},
    {"codegen", "CodeGen", model::read_gptj},
    {"gpt_neo", "GPTNeo", model::read_gpt_neo},
    {"gpt_bigcode", "GPTBigCode", model::read_gpt_bigcode},
    {"falcon", "Falcon", model::read_falcon},
    {"mpt", "Mpt", model::read_mpt},
    {"xglm", "XGLM", model::read_fairseq_decoder},
    {"biogpt", "BioGpt", model::read_fairseq_decoder},
    {"roberta", "Roberta", model::read_bert},
    {"xlm-roberta", "XLMRoberta", model::read_bert},
    {"camembert", "Camembert", model::read_bert},
    {"ernie", "Ernie", model::read_bert},
    {"electra", "Electra", model::read_bert},
    {"distilbert", "DistilBert", model::read_distilbert},
    {"modernbert", "ModernBert", model::read_modernbert},
    {"mt5", "MT5", model::read_t5},
    {"umt5", "UMT5", model::read_t5},
    {"minicpm3", "MiniCPM3", model::read_latent_dense},
    {"opt", "OPT", model::read_opt},
    {"swin", "Swin", model::read_swin},
    {"swinv2", "Swinv2", model::read_swin},
    {"t5", "T5", model::read_t5},
    {"bart", "Bart", model::read_bart},
    {"mbart", "MBart", model::read_bart},
    {"m2m_100", "M2M100", model::read_bart},
    {"marian", "Marian", model::read_bart},
    {"pegasus", "Pegasus", model::read_bart},
    {"whisper", "Whisper", model::read_bart},
    {"dinov2", "Dinov2", model::read_vit},
    {"vit", "ViT", model::read_vit},
    {"youtu", "Youtu", model::read_latent_dense},
    {"zamba2", "Zamba2", model::read_zamba2},
});

/// Returns all families, sorted by type.
const std::vector<ModelFamily>& families() {
  static const std::vector<ModelFamily> all = [] {
    std::vector<ModelFamily> rows(kReaders.begin(), kReaders.end());
    for (const model::DecoderFamily& row : model::decoder_families())
      rows.push_back({row.type, row.architecture, nullptr, &row.traits});
    for (const model::TowerFamily& row : model::tower_families())
      rows.push_back({row.type, row.architecture, nullptr, nullptr, &row});
    std::sort(rows.begin(), rows.end(), [](const ModelFamily& a, const ModelFamily& b) { return a.type < b.type; });
    return rows;
  }();
  return all;
}

const ModelFamily* find_type(std::string_view type) {
  const auto at = std::find_if(families().begin(), families().end(), [&](const ModelFamily& f) { return f.type == type; });
  return at == families().end() ? nullptr : &*at;
}

/// Maps "LlamaForCausalLM" to llama. "Gemma3ForCausalLM" is the text model, "Gemma3ForConditionalGeneration" the
/// nested one.
const ModelFamily* find_architecture(std::string_view name) {
  if (name == "Gemma3ForCausalLM") return find_type("gemma3_text");
  const std::size_t cut =
      std::min({name.find("For"), name.find("LMHeadModel"), name.find("WithLMHead"), name.find("Model"), name.size()});
  const std::string_view stem = name.substr(0, cut);
  const auto at = std::find_if(families().begin(), families().end(),
                               [&](const ModelFamily& f) { return !stem.empty() && f.architecture == stem; });
  return at == families().end() ? nullptr : &*at;
}

/// Keeps letters and digits in lower case, and a doubled letter once: "GPT-NeoX" equals "gpt_neox", and "lama" equals
/// "llama".
std::string bare(std::string_view word) {
  std::string out;
  for (const char given : word) {
    const char c = given >= 'A' && given <= 'Z' ? static_cast<char>(given - 'A' + 'a') : given;
    const bool letter = c >= 'a' && c <= 'z';
    if ((letter && (out.empty() || out.back() != c)) || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

/// Returns whether two words are equal except for two swapped neighbouring letters ("mixtarl").
bool swapped(const std::string& a, const std::string& b) {
  const auto first = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (a.size() != b.size() || first.first == a.end()) return false;
  const auto at = static_cast<std::size_t>(first.first - a.begin());
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return at + 1 < a.size() && letter(a[at]) && letter(a[at + 1]) && a[at] == b[at + 1] && a[at + 1] == b[at] &&
         a.compare(at + 2, std::string::npos, b, at + 2) == 0;
}

/// Returns the family with another spelling of this name; empty if there is none. It never returns a family whose
/// name is merely similar. llama4, mllama, mt5, bart and gptj have other layers than llama, t5, bert and gpt2, and
/// edit distance cannot tell.
std::string same_family(const std::string& type) {
  constexpr std::size_t kLongest = 40;
  if (type.size() > kLongest) return "";
  for (const ModelFamily& family : families()) {
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

/// Lists types of files that later releases of transformers write under another name, for the same layers.
constexpr std::array kRenamed = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"Yi", "llama"},                 // huggingface.co/01-ai/Yi-34B, discussion 11
    {"RefinedWeb", "falcon"},        // huggingface.co/tiiuae/falcon-40b, history of config.json
    {"RefinedWebModel", "falcon"},   // huggingface.co/tiiuae/falcon-7b
    {"stablelm_epoch", "stablelm"},  // huggingface.co/stabilityai/stablelm-3b-4e1t
    {"phi-msft", "phi"},             // huggingface.co/microsoft/phi-2
});

/// Returns the remedies for a file without a reader: its known part, its twin, or a description of its layers.
std::string help_for(const base::Reader& reader, const std::string& type) {
  const std::string lists =
      // "blocks" is our own.
      base::cat("docs/models.md lists the ", families().size() - 1, " known model_type values");
  const std::string describe =
      base::cat("no other type is assumed: describe its layers as blocks (docs/models.md#blocks); ", lists);
  if (const std::string same = same_family(type); !same.empty()) return base::cat("did you mean ", quoted(same), "? ", lists);
  const auto renamed = std::find_if(kRenamed.begin(), kRenamed.end(), [&](const auto& row) { return row.first == type; });
  if (renamed != kRenamed.end())
    return base::cat("its layers equal those of ", renamed->second, ": --set model.model_type=", renamed->second);
  for (const char* part : {"text_config", "llm_config", "language_config"}) {
    const base::Node* node = reader.node().find(part);
    const base::Node* inner = node != nullptr && node->kind == base::NodeKind::mapping ? node->find("model_type") : nullptr;
    if (inner != nullptr && inner->kind == base::NodeKind::string && find_type(inner->text) != nullptr)
      return base::cat("its ", part, " is a known one, ", quoted(inner->text),
                       ": save that part as a separate config.json to plan the text model");
  }
  const std::string architecture = first_architecture(reader);
  if (const ModelFamily* family = find_architecture(architecture); family != nullptr && !type.empty())
    return base::cat("its architecture, ", quoted(architecture), ", is that of ", family->type,
                     ": if the layers are the same, --set model.model_type=", family->type);
  return describe;
}

void refuse_family(base::Reader& reader, const std::string& type) {
  if (!type.empty()) return reader.fail("model_type", quoted(type), "a known model family", help_for(reader, type));
  const base::Node* class_name = reader.node().find("_class_name");
  if (class_name != nullptr && class_name->kind == base::NodeKind::string)
    return reader.fail("_class_name", quoted(class_name->text), "DiTTransformer2DModel, the only known model of diffusers",
                       help_for(reader, ""));
  const std::string architecture = first_architecture(reader);
  reader.fail("model_type", architecture.empty() ? "no value" : "only architectures = " + quoted(architecture),
              "the model_type of a Hugging Face config.json", help_for(reader, ""));
}

/// Returns the file's family. Returns null, with an error in the sink, if it is not known.
const ModelFamily* choose_family(base::Reader& reader, std::vector<ModelNote>& notes) {
  if (reader.has("model_type")) {
    const std::string type = reader.required_string("model_type");
    if (!reader.sink().ok()) return nullptr;
    if (const ModelFamily* family = find_type(type)) return family;
    refuse_family(reader, type);
    return nullptr;
  }
  if (reader.find("blocks") != nullptr) return find_type("blocks");
  if (reader.has("_class_name") && reader.required_string("_class_name") == "DiTTransformer2DModel") {
    reader.ignore({"_diffusers_version"});
    notes.push_back({ModelNote::Kind::derived, "model_type", "model_type = dit (from _class_name)"});
    return find_type("dit");
  }
  const std::string architecture = first_architecture(reader);
  if (const ModelFamily* family = find_architecture(architecture)) {
    const std::string text = "model_type = " + std::string(family->type) + " (from architectures)";
    notes.push_back({ModelNote::Kind::derived, "model_type", text});
    return family;
  }
  refuse_family(reader, "");
  return nullptr;
}

/// Refuses keys that change the meaning of all others and that no family here reads.
void refuse_unsupported(Fields& fields, std::string_view family) {
  const base::Node* per_layer = fields.reader().find("per_layer_config");
  const bool read = family == "gemma4_text";  // its full layers differ in heads
  if (!read && per_layer != nullptr && (!per_layer->members.empty() || !per_layer->items.empty())) {
    fields.fail("per_layer_config", "per-layer sizes", "one set of sizes for all layers",
                "per_layer_config (pruned or searched architectures) is not supported");
  }
  if (fields.reader().has("quantization_config")) {
    fields.note(ModelNote::Kind::ignored, "quantization_config",
                "quantization_config is the storage format of the published weights; the job sets the training precision");
  }
}

/// Checks that the totals are usable numbers: at most 2^50 parameters, a thousand times the largest known model.
void check_totals(Fields& fields, const Model& model) {
  constexpr double kMost = 1125899906842624.0;
  double sum = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const Operator& op : model.layer(i).operators) sum += static_cast<double>(op.parameters);
  }
  if (sum > kMost)
    fields.fail("model_type", "sizes that multiply to more than 2^50 parameters", "a model of at most 2^50 parameters");
}

/// Maps "models/llama-3-8b/config.json" to "llama-3-8b", and "gpt.json" to "gpt".
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

void read_family(const ModelFamily& family, base::Reader& reader, Model& result) {
  Fields fields(reader, result.notes);
  refuse_unsupported(fields, family.type);
  if (family.traits != nullptr)
    model::read_decoder(fields, result, *family.traits);
  else if (family.tower != nullptr)
    model::read_tower_family(fields, result, *family.tower);
  else
    family.read(fields, result);
  if (!fields.ok()) return;
  check_totals(fields, result);
  model::judge_unread(fields, result.family);
}

}  // namespace

std::vector<std::string> known_model_families() {
  std::vector<std::string> names;
  std::transform(families().begin(), families().end(), std::back_inserter(names),
                 [](const ModelFamily& f) { return std::string(f.type); });
  return names;
}

namespace {

/// Replaces Infinity and NaN, which Python's json writes and JSON lacks. In the hub's files they are limits of time
/// steps. Each becomes a number of the same length, so that positions in messages stay valid. Strings do not change.
std::string without_python_numbers(std::string_view json) {
  std::string text(json);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text.compare(i, 8, "Infinity") == 0) {
      text.replace(i, 8, "1.0e+300");
    } else if (!quoted && text.compare(i, 3, "NaN") == 0) {
      text.replace(i, 3, "0.0");
    }
  }
  return text;
}

}  // namespace

Result<Model> load_model(std::string_view config_json, const std::string& where) {
  const Result<base::Document> document = base::read_json(without_python_numbers(config_json), where);
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
  const ModelFamily* family = choose_family(root, result.notes);
  if (family == nullptr) return base::wrong_kind_of(config_json, where, "a model's config.json", sink.first().error());
  result.family = std::string(family->type);
  read_family(*family, root, result);
  if (!sink.ok()) return sink.first().error();
  model::check_model(result);
  return result;
}

Result<Model> load_model_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path inside = std::filesystem::path(path) / "config.json";
  const bool folder = std::filesystem::is_directory(path, ignored);
  if (folder && !std::filesystem::is_regular_file(inside, ignored)) {
    return Error{ErrorKind::bad_input, path, "a folder without config.json", "a Hugging Face config.json, or its folder",
                 "is this the folder of the model?"};
  }
  const std::string file = folder ? inside.string() : path;
  const Result<std::string> text = base::read_file(file);
  if (!text.ok()) return text.error();
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension != ".yaml" && extension != ".yml") return load_model(*text, file);
  // The file holds a description in blocks; config.json files are JSON.
  const Result<base::Document> document = base::read_yaml(*text, file);
  if (!document.ok()) return document.error();
  return load_model(base::to_json(document->root), file);
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
