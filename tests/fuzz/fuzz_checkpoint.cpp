// SPDX-License-Identifier: Apache-2.0
// Fuzzes the documents of a checkpoint with any bytes: an accepted document is written again unchanged.
#include "fuzz_expect.h"
#include "storage/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto manifest = storage::read_manifest(text, "manifest.json"); manifest.ok())
    fuzz::expect(*storage::read_manifest(storage::to_json(*manifest), "again") == *manifest, "equal manifests");
  else
    fuzz::expect_helpful(manifest.error());
  const auto index = storage::read_rank_index(text, "rank.json");
  if (!index.ok()) {
    fuzz::expect_helpful(index.error());
    return 0;
  }
  for (const storage::RankIndex::Piece& piece : index->pieces)
    for (std::size_t k = 0; k < piece.elements.size(); ++k)
      fuzz::expect(piece.elements[k].size() > 0 && (k == 0 || piece.elements[k - 1].last <= piece.elements[k].first),
                   "ascending");
  fuzz::expect(*storage::read_rank_index(storage::to_json(*index), "again") == *index, "equal indices");
  return 0;
}
