// SPDX-License-Identifier: Apache-2.0
#include "storage/pretrained.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"

namespace espalier::storage {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> extents;
  for (const std::int64_t extent : shape) extents.push_back(std::to_string(extent));
  return cat("[", base::joined(extents), "]");
}

Result<std::vector<std::vector<TensorBlock>>> all_blocks(const Model& model) {
  std::vector<std::vector<TensorBlock>> out;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    auto blocks = blocks_of(model, static_cast<std::int32_t>(l));
    if (!blocks) return blocks.error();
    out.push_back(std::move(*blocks));
  }
  return out;
}

/// Gives the block the folder's name of its tensor.
Status find_tensor(TensorBlock& block, const TensorFolder& folder, const Model& model, const std::string& path) {
  for (const std::string& name : names_in_files(block.tensor, model)) {
    const TensorEntry* tensor = folder.find(name);
    if (tensor == nullptr) continue;
    const std::string where = cat(folder.file_of(name), ": ", name);
    if (tensor->shape != block.shape)
      return Error{ErrorKind::bad_input, where, cat("shape ", shape_text(tensor->shape)),
                   cat(shape_text(block.shape), ", as in the plan's model"), "weights of another model?"};
    if (!tensor->type.real)
      return Error{ErrorKind::bad_input, where, cat("type ", tensor->type.name), "F32, BF16, F16 or F64", ""};
    block.tensor = name;
    return {};
  }
  return Error{ErrorKind::bad_input, path, cat("no tensor ", block.tensor), "all parameters of the plan's model", ""};
}

}  // namespace

// ---- reading ------------------------------------------------------------------------------------------------------

Result<Pretrained> Pretrained::open(const std::string& path, const Model& model) {
  auto folder = TensorFolder::open(path);
  if (!folder) return folder.error();
  auto layers = all_blocks(model);
  if (!layers) return layers.error();
  std::set<std::string> used;
  for (std::vector<TensorBlock>& blocks : *layers)
    for (TensorBlock& block : blocks) {
      if (Status status = find_tensor(block, *folder, model, path); !status.ok()) return status.error();
      used.insert(block.tensor);
    }
  for (const std::string& name : folder->names())
    if (used.count(name) == 0 && !is_no_parameter(name, model))
      return Error{ErrorKind::bad_input, folder->file_of(name), cat("tensor ", name), "only parameters of the plan's model",
                   "weights of another model?"};
  Pretrained out;
  out.folder_ = std::move(*folder);
  out.layers_ = std::move(*layers);
  return out;
}

std::vector<float> Pretrained::elements(std::int32_t layer, const Intervals& held) const {
  std::vector<float> out(static_cast<std::size_t>(elements_of(held)));
  std::int64_t at = 0, filled = 0;
  for (const Interval& piece : held) {
    for (const TensorBlock& block : layers_[static_cast<std::size_t>(layer)]) {
      const TensorValues values = folder_.values(block.tensor);
      runs_in(block, piece, [&](const ElementRun& run) {
        filled += run.count;
        for (std::int64_t k = 0; k < run.count; ++k)
          out[static_cast<std::size_t>(at + run.layer_first - piece.first + k * run.layer_step)] =
              values[run.tensor_first + k * run.tensor_step];
      });
    }
    at += piece.size();
  }
  ESPALIER_CHECK(filled == at);
  return out;
}

// ---- writing ------------------------------------------------------------------------------------------------------

std::string PretrainedWriter::path_of(const std::string& file) const { return (std::filesystem::path(folder_) / file).string(); }

void PretrainedWriter::plan_parts(std::int64_t part_bytes) {
  const TensorType type = *tensor_type("F32");
  std::set<std::string> seen;
  parts_.emplace_back();
  for (const std::vector<TensorBlock>& blocks : layers_)
    for (const TensorBlock& block : blocks) {
      if (!seen.insert(block.tensor).second) continue;
      const TensorEntry entry = following(parts_.back().tensors, block.tensor, type, block.shape);
      if (entry.end > part_bytes && !parts_.back().tensors.empty()) parts_.emplace_back();
      parts_.back().tensors.push_back(following(parts_.back().tensors, block.tensor, type, block.shape));
    }
  const auto five = [](std::size_t n) {
    return base::cat(std::string(5 - std::min<std::size_t>(5, std::to_string(n).size()), '0'), n);
  };
  for (std::size_t i = 0; i < parts_.size(); ++i)
    parts_[i].file =
        parts_.size() == 1 ? "model.safetensors" : cat("model-", five(i + 1), "-of-", five(parts_.size()), ".safetensors");
}

Result<PretrainedWriter> PretrainedWriter::create(const std::string& folder, const Model& model, std::string_view config,
                                                  std::int64_t part_bytes) {
  auto layers = all_blocks(model);
  if (!layers) return layers.error();
  if (Status status = make_folder(folder); !status.ok()) return status.error();
  PretrainedWriter out;
  out.folder_ = folder;
  out.layers_ = std::move(*layers);
  out.plan_parts(part_bytes);
  NewFile file(out.path_of("config.json"));
  file.write(config);
  if (Status status = file.commit(); !status.ok()) return status.error();
  return out;
}

Status PretrainedWriter::add(std::int32_t layer, const std::vector<float>& elements) {
  const std::vector<TensorBlock>& blocks = layers_[static_cast<std::size_t>(layer)];
  const Interval all{0, static_cast<std::int64_t>(elements.size())};
  std::set<std::string> done;
  for (const TensorBlock& first : blocks) {
    if (!done.insert(first.tensor).second) continue;
    const TensorEntry& entry = parts_[part_].tensors[written_];
    ESPALIER_CHECK(entry.name == first.tensor);
    std::vector<float> tensor(static_cast<std::size_t>((entry.end - entry.begin) / 4));
    for (const TensorBlock& block : blocks) {  // queries, keys and values may share one
      if (block.tensor != first.tensor) continue;
      runs_in(block, all, [&](const ElementRun& run) {
        for (std::int64_t k = 0; k < run.count; ++k)
          tensor[static_cast<std::size_t>(run.tensor_first + k * run.tensor_step)] =
              elements[static_cast<std::size_t>(run.layer_first + k * run.layer_step)];
      });
    }
    if (file_ == nullptr) {
      file_ = std::make_unique<NewFile>(path_of(parts_[part_].file));
      file_->write(tensor_header_text(parts_[part_].tensors, {{"format", "pt"}}));
    }
    file_->write({reinterpret_cast<const char*>(tensor.data()), tensor.size() * sizeof(float)});
    if (++written_ < parts_[part_].tensors.size()) continue;
    if (Status status = file_->commit(); !status.ok()) return status;
    file_.reset();
    ++part_;
    written_ = 0;
  }
  return {};
}

Status PretrainedWriter::write_index() {
  std::int64_t bytes = 0;
  base::JsonWriter json;
  json.begin_object().key("weight_map").begin_object();
  for (const Part& part : parts_) {
    bytes += part.tensors.back().end;
    for (const TensorEntry& tensor : part.tensors) json.key(tensor.name).value(part.file);
  }
  json.end_object().key("metadata").begin_object().key("total_size").value(bytes).end_object().end_object();
  NewFile file(path_of("model.safetensors.index.json"));
  file.write(json.text());
  return file.commit();
}

Status PretrainedWriter::finish() {
  ESPALIER_CHECK(part_ == parts_.size());
  const bool several = parts_.size() > 1;
  if (several)
    if (Status status = write_index(); !status.ok()) return status;
  std::error_code none;  // from an earlier save in the other form
  std::filesystem::remove(path_of(several ? "model.safetensors" : "model.safetensors.index.json"), none);
  return {};
}

}  // namespace espalier::storage
