// SPDX-License-Identifier: Apache-2.0
// Reads and writes a model's parameters in a folder of Hugging Face transformers. Every holder of a layer's elements
// reads them; they are written layer by layer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/model.h"
#include "plan/ownership.h"
#include "storage/safetensors.h"
#include "storage/tensor_names.h"

namespace espalier::storage {

/// Reads a folder. It opens when all tensors of the model are present with its shapes, in types of real numbers, and
/// no others.
class Pretrained {
 public:
  static Result<Pretrained> open(const std::string& path, const Model& model);
  /// Returns elements of a layer, one after the other.
  [[nodiscard]] std::vector<float> elements(std::int32_t layer, const Intervals& held) const;

 private:
  TensorFolder folder_;
  std::vector<std::vector<TensorBlock>> layers_;  ///< tensors named as in the folder
};

/// Writes a folder: config.json, and model.safetensors or, where parts are larger than `part_bytes`, several files
/// and their index. Values are F32. Layers come in order, each whole.
class PretrainedWriter {
 public:
  static Result<PretrainedWriter> create(const std::string& folder, const Model& model, std::string_view config,
                                         std::int64_t part_bytes = std::int64_t{4} << 30);
  PretrainedWriter(PretrainedWriter&&) = default;

  Status add(std::int32_t layer, const std::vector<float>& elements);
  /// Writes the index where there are several parts, once all layers are written.
  Status finish();

 private:
  struct Part {
    std::string file;
    std::vector<TensorEntry> tensors;
  };
  PretrainedWriter() = default;
  [[nodiscard]] std::string path_of(const std::string& file) const;
  void plan_parts(std::int64_t part_bytes);
  Status write_index();

  std::string folder_;
  std::vector<std::vector<TensorBlock>> layers_;
  std::vector<Part> parts_;
  std::size_t part_ = 0, written_ = 0;  ///< the part that is being written, and how many of its tensors are
  std::unique_ptr<NewFile> file_;
};

}  // namespace espalier::storage
