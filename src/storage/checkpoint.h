// SPDX-License-Identifier: Apache-2.0
// Stores checkpoints of a run: parameters and optimizer states by layer and element number (plan/ownership.h). Ranks
// of any plan thus find the elements that they hold, whichever plan wrote them.
//
//   FOLDER/step-000000020/rank-00003.safetensors   the elements that a rank counts as its own: for piece k the tensors
//                                                  k.values, k.first, k.second
//                         rank-00003.json          per piece the layer, its elements, and a checksum of each tensor
//                         manifest.json            plan, model, step, training, a checksum of every rank's .json, and
//                                                  one of itself.
//
// A checkpoint is written as step-000000020.partial. Every file of it and the folder are on the disk before it gets
// its name, and only then are older ones removed. The last complete checkpoint is thus never touched. Reading
// verifies the manifest, then the ranks' files that hold wanted elements, then the checksum (xxh64) of every tensor
// that is used. Readers that divide the files among them and verify() them detect any damage.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/ownership.h"
#include "storage/safetensors.h"

namespace espalier::storage {

/// Holds the settings, apart from the model, that a run must share with the writer of a checkpoint.
struct TrainingFacts {
  std::int64_t global_batch = 0, sequence_length = 0;
  std::uint64_t seed = 0;
  std::string data;  ///< as the command names it; empty: synthetic
  bool operator==(const TrainingFacts&) const = default;
};

struct Manifest {
  std::int64_t step = 0;    ///< updates that it contains
  std::string plan, model;  ///< hashes
  TrainingFacts training;
  std::vector<std::string> ranks;  ///< checksum of each rank's .json
  bool operator==(const Manifest&) const = default;
};
std::string to_json(const Manifest& manifest);
/// Reads a manifest. It rejects everything but the output of to_json, byte by byte except for white space.
Result<Manifest> read_manifest(std::string_view text, const std::string& where);

enum class StateArray : std::uint8_t { values, first, second };
inline constexpr std::array<StateArray, 3> kStateArrays{StateArray::values, StateArray::first, StateArray::second};

/// Holds elements of a layer and, in their order, parameters and both moments of Adam.
struct CheckpointPiece {
  std::int32_t layer = 0;
  Intervals elements;
  std::array<std::vector<float>, 3> arrays;
};

/// Describes a rank's file.
struct RankIndex {
  struct Piece {
    std::int32_t layer = 0;
    Intervals elements;
    std::array<std::string, 3> checksums;
    bool operator==(const Piece&) const = default;
  };
  std::string header;  ///< checksum of the file's header
  std::vector<Piece> pieces;
  bool operator==(const RankIndex&) const = default;
};
std::string to_json(const RankIndex& index);
Result<RankIndex> read_rank_index(std::string_view text, const std::string& where);

/// Return names inside the folder of checkpoints.
std::string step_folder(const std::string& folder, std::int64_t step);
std::string partial_folder(const std::string& folder, std::int64_t step);
/// Returns the numbers of the folders that hold a complete checkpoint, the one with the most updates first. The
/// manifest counts the updates, whatever the folder is called. Where it cannot be read, the number of the folder
/// counts.
std::vector<std::int64_t> steps_in(const std::string& folder);

/// Writes a rank's elements into the partial folder. Returns the checksum of its .json.
Result<std::string> write_rank(const std::string& partial, int rank, const std::vector<CheckpointPiece>& pieces);
/// Gives a partial checkpoint its manifest and its name, and removes all but the last `keep`.
Status complete(const std::string& folder, const Manifest& manifest, std::int64_t keep);

/// Opens one checkpoint for reading.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& step_folder);
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  /// Returns elements of a layer, one after the other.
  Result<std::vector<float>> read(std::int32_t layer, const Intervals& wanted, StateArray array);
  /// Return how many ranks wrote it, and whether everything of one of them is unchanged.
  [[nodiscard]] std::size_t ranks() const { return ranks_.size(); }
  Status verify(std::size_t rank);

 private:
  struct Place {
    std::size_t rank = 0, piece = 0;
  };
  Result<const TensorFile*> file_of(std::size_t rank);
  Result<std::string_view> array_of(const Place& place, StateArray array);

  std::string folder_;
  Manifest manifest_;
  std::vector<RankIndex> ranks_;
  std::map<std::int32_t, std::vector<Place>> places_;  ///< by layer
  std::map<std::size_t, TensorFile> files_;            ///< files that are open, with their descriptions
  std::set<std::array<std::size_t, 3>> verified_;      ///< rank, piece, array
};

}  // namespace espalier::storage
