// SPDX-License-Identifier: Apache-2.0
#include "storage/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"

namespace espalier::storage {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kStep = "step-";
constexpr std::array<const char*, 3> kArrayNames{"values", "first", "second"};

std::string digits(std::int64_t number, std::size_t width) {
  const std::string text = std::to_string(number);
  return cat(std::string(width - std::min(width, text.size()), '0'), text);
}

std::string rank_path(const std::string& folder, std::size_t rank, const char* ending) {
  return (fs::path(folder) / cat("rank-", digits(static_cast<std::int64_t>(rank), 5), ending)).string();
}

std::string tensor_name(std::size_t piece, StateArray array) {
  return cat(piece, ".", kArrayNames[static_cast<std::size_t>(array)]);
}

std::string_view bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Error damaged_checkpoint(const std::string& where, std::string found, std::string expected) {
  return {ErrorKind::bad_input, where, std::move(found), std::move(expected), "the checkpoint is damaged"};
}

/// Returns the step that a folder is named after; −1 for other folders.
std::int64_t step_of(const std::string& name) {
  const std::string_view prefix(kStep);
  if (name.rfind(prefix, 0) != 0 || name.size() > prefix.size() + 18 || name.size() == prefix.size()) return -1;
  std::int64_t step = 0;
  for (const char c : name.substr(prefix.size())) {
    if (c < '0' || c > '9') return -1;
    step = 10 * step + (c - '0');
  }
  return step;
}

/// Removes a checkpoint. The manifest goes first, so that a half-removed folder is no checkpoint.
void remove_checkpoint(const std::string& folder) {
  std::error_code none;
  fs::remove(fs::path(folder) / kManifest, none);
  fs::remove_all(folder, none);
}

}  // namespace

// ---- writing ------------------------------------------------------------------------------------------------------

std::string step_folder(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / cat(kStep, digits(step, 9))).string();
}

std::string partial_folder(const std::string& folder, std::int64_t step) { return step_folder(folder, step) + ".partial"; }

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;  // updates, number of the folder
  std::error_code none;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
    const std::int64_t step = step_of(at->path().filename().string());
    std::error_code missing;
    const fs::path path = at->path() / kManifest;
    if (step < 0 || !fs::exists(path, missing)) continue;
    const auto text = base::read_file(path.string());
    const auto manifest = text ? read_manifest(*text, path.string()) : Result<Manifest>(text.error());
    found.emplace_back(manifest ? manifest->step : step, step);
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  std::vector<std::int64_t> steps;
  for (const auto& [updates, step] : found) steps.push_back(step);
  return steps;
}

Result<std::string> write_rank(const std::string& partial, int rank, const std::vector<CheckpointPiece>& pieces) {
  const TensorType type = *tensor_type("F32");
  RankIndex index;
  std::vector<TensorEntry> tensors;
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    RankIndex::Piece& piece = index.pieces.emplace_back();
    piece.layer = pieces[k].layer;
    piece.elements = pieces[k].elements;
    for (const StateArray array : kStateArrays) {
      const std::vector<float>& values = pieces[k].arrays[static_cast<std::size_t>(array)];
      ESPALIER_CHECK(static_cast<std::int64_t>(values.size()) == elements_of(piece.elements));
      tensors.push_back(following(tensors, tensor_name(k, array), type, {static_cast<std::int64_t>(values.size())}));
      piece.checksums[static_cast<std::size_t>(array)] = base::content_hash(bytes_of(values));
    }
  }
  const std::string header = tensor_header_text(tensors, {});
  index.header = base::content_hash(header);
  NewFile file(rank_path(partial, static_cast<std::size_t>(rank), ".safetensors"));
  file.write(header);
  for (const CheckpointPiece& piece : pieces)
    for (const std::vector<float>& values : piece.arrays) file.write(bytes_of(values));
  if (Status status = file.commit(); !status.ok()) return status.error();
  const std::string text = to_json(index);
  NewFile description(rank_path(partial, static_cast<std::size_t>(rank), ".json"));
  description.write(text);
  if (Status status = description.commit(); !status.ok()) return status.error();
  return base::content_hash(text);
}

Status complete(const std::string& folder, const Manifest& manifest, std::int64_t keep) {
  const std::string partial = partial_folder(folder, manifest.step), whole = step_folder(folder, manifest.step);
  NewFile file((fs::path(partial) / kManifest).string());
  file.write(to_json(manifest));
  if (Status status = file.commit(); !status.ok()) return status;
  std::error_code failed, none;
  const std::string old = whole + ".old";
  fs::remove_all(old, none);
  fs::rename(whole, old, none);  // an existing one of the same step: damaged, or of a run that began earlier
  fs::rename(partial, whole, failed);
  if (failed) return unwritable_file(whole, failed.value());
  if (Status status = sync_folder(folder); !status.ok()) return status;
  fs::remove_all(old, none);
  const std::vector<std::int64_t> steps = steps_in(folder);
  for (std::size_t k = static_cast<std::size_t>(keep); k < steps.size(); ++k) remove_checkpoint(step_folder(folder, steps[k]));
  return {};
}

// ---- reading ------------------------------------------------------------------------------------------------------

Result<Checkpoint> Checkpoint::open(const std::string& step_folder) {
  Checkpoint out;
  out.folder_ = step_folder;
  const std::string path = (fs::path(step_folder) / kManifest).string();
  const auto text = base::read_file(path);
  if (!text) return text.error();
  auto manifest = read_manifest(*text, path);
  if (!manifest) return manifest.error();
  out.manifest_ = std::move(*manifest);
  for (std::size_t rank = 0; rank < out.manifest_.ranks.size(); ++rank) {
    const std::string described = rank_path(step_folder, rank, ".json");
    const auto bytes = MappedFile::open(described);
    if (!bytes) return bytes.error();
    if (const std::string checksum = base::content_hash(bytes->bytes()); checksum != out.manifest_.ranks[rank])
      return damaged_checkpoint(described, "checksum " + checksum, out.manifest_.ranks[rank]);
    auto index = read_rank_index(bytes->bytes(), described);
    if (!index) return index.error();
    for (std::size_t k = 0; k < index->pieces.size(); ++k) out.places_[index->pieces[k].layer].push_back({rank, k});
    out.ranks_.push_back(std::move(*index));
  }
  return out;
}

Result<const TensorFile*> Checkpoint::file_of(std::size_t rank) {
  const auto known = files_.find(rank);
  if (known != files_.end()) return &known->second;
  auto file = TensorFile::open(rank_path(folder_, rank, ".safetensors"));
  if (!file) return file.error();
  if (const std::string checksum = base::content_hash(file->header_bytes()); checksum != ranks_[rank].header)
    return damaged_checkpoint(file->path(), "header of checksum " + checksum, ranks_[rank].header);
  return &files_.emplace(rank, std::move(*file)).first->second;
}

Result<std::string_view> Checkpoint::array_of(const Place& place, StateArray array) {
  const auto file = file_of(place.rank);
  if (!file) return file.error();
  const RankIndex::Piece& piece = ranks_[place.rank].pieces[place.piece];
  const auto which = static_cast<std::size_t>(array);
  const std::string name = tensor_name(place.piece, array);
  for (const TensorEntry& tensor : (*file)->header().tensors) {
    if (tensor.name != name) continue;
    const std::string_view bytes = (*file)->bytes(tensor);
    if (tensor.end - tensor.begin != 4 * elements_of(piece.elements)) break;
    if (verified_.count({place.rank, place.piece, which}) > 0) return bytes;
    if (const std::string checksum = base::content_hash(bytes); checksum != piece.checksums[which])
      return damaged_checkpoint(cat((*file)->path(), ": ", name), "checksum " + checksum, piece.checksums[which]);
    verified_.insert({place.rank, place.piece, which});
    return bytes;
  }
  return damaged_checkpoint((*file)->path(), cat("no tensor ", name, " of ", elements_of(piece.elements), " elements"),
                            "the entry of its index");
}

Status Checkpoint::verify(std::size_t rank) {
  if (const auto file = file_of(rank); !file) return file.error();
  for (std::size_t piece = 0; piece < ranks_[rank].pieces.size(); ++piece)
    for (const StateArray array : kStateArrays)
      if (const auto bytes = array_of({rank, piece}, array); !bytes) return bytes.error();
  return {};
}

Result<std::vector<float>> Checkpoint::read(std::int32_t layer, const Intervals& wanted, StateArray array) {
  std::vector<float> out(static_cast<std::size_t>(elements_of(wanted)));
  std::int64_t found = 0;
  for (const Place& place : places_[layer]) {
    const Intervals& has = ranks_[place.rank].pieces[place.piece].elements;
    if (intersection(has, wanted).empty()) continue;
    const auto bytes = array_of(place, array);
    if (!bytes) return bytes.error();
    std::int64_t from = 0;
    for (const Interval& piece : has) {
      std::int64_t to = 0;
      for (const Interval& own : wanted) {
        const std::int64_t first = std::max(piece.first, own.first), last = std::min(piece.last, own.last);
        if (first < last) {
          std::memcpy(out.data() + to + first - own.first, bytes->data() + 4 * (from + first - piece.first),
                      static_cast<std::size_t>(4 * (last - first)));
          found += last - first;
        }
        to += own.size();
      }
      from += piece.size();
    }
  }
  if (found != elements_of(wanted))
    return damaged_checkpoint(cat(folder_, ": layer ", layer), cat(found, " of ", elements_of(wanted), " elements"),
                              "all of them, each once");
  return out;
}

}  // namespace espalier::storage
