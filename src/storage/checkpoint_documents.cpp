// SPDX-License-Identifier: Apache-2.0
// Reads and writes the documents of a checkpoint: a manifest, and a description of each rank's file.
#include <string>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "storage/checkpoint.h"

namespace espalier::storage {
namespace {

constexpr const char* kManifestSchema = "espalier.checkpoint/1";
constexpr const char* kRankSchema = "espalier.checkpoint_rank/1";
constexpr std::int64_t kMostNumber = std::int64_t{1} << 60;
constexpr const char* kOwn = "checksum";  // the manifest's own checksum, of its text with this left empty

Error wrong_checksum(const std::string& where, std::string found, std::string expected) {
  return {ErrorKind::bad_input, where, "checksum " + std::move(found), std::move(expected), "the file is damaged"};
}

std::string manifest_text(const Manifest& manifest, const std::string& checksum) {
  base::JsonWriter json;
  json.begin_object().key("schema").value(kManifestSchema).key("step").value(manifest.step);
  json.key("plan").value(manifest.plan).key("model").value(manifest.model);
  json.key("training").begin_object().key("global_batch").value(manifest.training.global_batch);
  json.key("sequence_length").value(manifest.training.sequence_length);
  json.key("seed")
      .value(static_cast<std::int64_t>(manifest.training.seed))
      .key("data")
      .value(manifest.training.data)
      .end_object();
  json.key("ranks").begin_array();
  for (const std::string& rank : manifest.ranks) json.value(rank);
  json.end_array().key(kOwn).value(checksum).end_object();
  return json.text();
}

std::vector<std::string> texts_of(base::Reader& reader, std::string_view key) {
  std::vector<std::string> out;
  const base::Node* list = reader.find(key);
  if (list == nullptr || list->kind != base::NodeKind::sequence) {
    reader.fail(key, "", "a list of checksums");
    return out;
  }
  for (const base::Node& item : list->items) {
    if (item.kind != base::NodeKind::string) reader.fail(key, "", "a list of checksums");
    out.push_back(item.text);
  }
  return out;
}

/// Reads [[first, last], …], ascending.
Intervals intervals_of(base::Reader& reader, std::string_view key) {
  Intervals out;
  const std::vector<std::int64_t> bounds = reader.optional_int_list(key, 0, kMostNumber);
  for (std::size_t k = 0; k + 1 < bounds.size(); k += 2) {
    const Interval piece{bounds[k], bounds[k + 1]};
    if (piece.size() <= 0 || (!out.empty() && out.back().last > piece.first)) {
      reader.fail(key, "", "ascending pairs of first and last element");
      break;
    }
    out.push_back(piece);
  }
  if (bounds.size() % 2 != 0) reader.fail(key, "", "ascending pairs of first and last element");
  return out;
}

void read_schema(base::Reader& reader, const char* expected) {
  if (const std::string schema = reader.required_string("schema"); schema != expected) reader.fail("schema", schema, expected);
}

}  // namespace

std::string to_json(const Manifest& manifest) { return manifest_text(manifest, base::content_hash(manifest_text(manifest, ""))); }

Result<Manifest> read_manifest(std::string_view text, const std::string& where) {
  const auto document = base::read_json(text, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  Manifest out;
  read_schema(root, kManifestSchema);
  out.step = root.required_int("step", 0, kMostNumber);
  out.plan = root.required_string("plan");
  out.model = root.required_string("model");
  base::Reader training = root.child("training", true);
  out.training.global_batch = training.required_int("global_batch", 1, kMostNumber);
  out.training.sequence_length = training.required_int("sequence_length", 1, kMostNumber);
  out.training.seed = static_cast<std::uint64_t>(training.required_int("seed", 0, kMostNumber));
  out.training.data = training.required_string("data");
  training.finish();
  out.ranks = texts_of(root, "ranks");
  const std::string checksum = root.required_string(kOwn);
  root.finish();
  if (!sink.ok()) return sink.first().error();
  if (const std::string expected = base::content_hash(manifest_text(out, "")); checksum != expected)
    return wrong_checksum(where, checksum, expected);
  return out;
}

std::string to_json(const RankIndex& index) {
  base::JsonWriter json;
  json.begin_object().key("schema").value(kRankSchema).key("header").value(index.header).key("pieces").begin_array();
  for (const RankIndex::Piece& piece : index.pieces) {
    json.compact_next().begin_object().key("layer").value(std::int64_t{piece.layer}).key("elements").begin_array();
    for (const Interval& interval : piece.elements) json.value(interval.first).value(interval.last);
    json.end_array().key("checksums").begin_array();
    for (const std::string& checksum : piece.checksums) json.value(checksum);
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.text();
}

Result<RankIndex> read_rank_index(std::string_view text, const std::string& where) {
  base::Limits limits;
  limits.max_bytes = 1u << 30;
  limits.max_nodes = 100'000'000;
  const auto document = base::read_json(text, where, limits);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  RankIndex out;
  read_schema(root, kRankSchema);
  out.header = root.required_string("header");
  root.each("pieces", true, [&](base::Reader& item) {
    RankIndex::Piece piece;
    piece.layer = static_cast<std::int32_t>(item.required_int("layer", 0, 1 << 30));
    piece.elements = intervals_of(item, "elements");
    const std::vector<std::string> checksums = texts_of(item, "checksums");
    item.finish();
    if (checksums.size() != piece.checksums.size()) return item.fail("checksums", "", "three checksums");
    std::copy(checksums.begin(), checksums.end(), piece.checksums.begin());
    out.pieces.push_back(std::move(piece));
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

}  // namespace espalier::storage
