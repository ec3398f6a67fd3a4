// SPDX-License-Identifier: Apache-2.0
#include "galvatron/profile_files.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>

#include "base/document.h"

namespace espalier::galvatron {
namespace {

constexpr double kMostMs = 1e9, kMostMb = 1e9, kMostGbPerS = 1e6;
constexpr std::int64_t kMostNumber = std::int64_t{1} << 40;

/// Reads a key from the left, piece by piece. Each step returns whether it matched.
class Key {
 public:
  explicit Key(std::string_view text) : rest_(text) {}
  bool word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  template <class Integer>
  bool number(Integer& out) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0 || value > std::min<std::int64_t>(kMostNumber, std::numeric_limits<Integer>::max()))
      return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    out = static_cast<Integer>(value);
    return true;
  }
  [[nodiscard]] bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

/// Runs `read` on the root and returns its result, or the first error. `expected` describes the content that a wrong
/// file lacks.
template <class T>
Result<T> read_file_of(std::string_view json, const std::string& where, const std::function<bool(Reader&, T&)>& read,
                       std::string_view expected) {
  auto document = base::read_json(json, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  T out{};
  const bool any = read(root, out);
  if (sink.ok() && !any) root.fail("", "no entry of this kind", std::string(expected), "is this the right file?");
  if (!sink.ok()) return sink.first().error();
  return out;
}

std::optional<ForwardTime> forward_key(std::string_view text) {
  Key key(text);
  ForwardTime time;
  if (!key.word("layertype_")) return std::nullopt;
  time.other = key.word("other_");
  const bool without_type = time.other && key.word("bsz");
  if (!without_type && (!key.number(time.layer_type) || !key.word("_bsz"))) return std::nullopt;
  if (!key.number(time.batch) || !key.word("_seq") || !key.number(time.sequence)) return std::nullopt;
  if (key.word("_attention")) time.part = LayerPart::attention;
  if (key.word("_mlp")) time.part = LayerPart::mlp;
  if (!key.done() || time.batch < 1) return std::nullopt;
  return time;
}

/// Reads {"1": MB, "2": MB}. A key that is not a degree goes to `extra`.
std::map<std::int32_t, double> by_degree(Reader& r, double* checkpoint) {
  std::map<std::int32_t, double> out;
  for (const auto& [text, node] : r.node().members) {
    Key key(text);
    std::int32_t degree = 0;
    if (key.number(degree) && key.done() && degree >= 1) {
      out[degree] = r.required_real(text, 0, kMostMb);
    } else if (checkpoint && text == "checkpoint") {
      *checkpoint = r.required_real(text, 0, kMostMb);
    }
  }
  r.finish();
  return out;
}

/// Calls read for each sequence length of {"4096": {…}}. Swin and T5 write several, "[512,512]", which are skipped.
void each_sequence(Reader& r, const std::function<void(Reader&, std::int64_t)>& read) {
  for (const auto& [text, node] : r.node().members) {
    Key key(text);
    std::int64_t sequence = 0;
    if (!key.number(sequence) || !key.done()) continue;
    Reader one = r.child(text, true);
    read(one, sequence);
  }
}

LayerMemory layer_memory(Reader& r) {
  LayerMemory memory;
  memory.parameter_mb = r.required_real("parameter_size", 0, kMostMb);
  Reader activation = r.child("tp_activation_per_bsz_dict", true);
  memory.activation_mb = by_degree(activation, &memory.checkpoint_mb);
  return memory;
}

OtherMemory other_memory(Reader& r) {
  Reader states = r.child("model_states", true), activation = r.child("activation", true);
  return {by_degree(states, nullptr), by_degree(activation, nullptr)};
}

struct MemoryKey {
  std::int32_t layer_type = -1;  ///< < 0: other memory
  int stage = 0;                 ///< 0 one stage, 1 first, 2 last
  bool sequence_parallel = false;
};
std::optional<MemoryKey> memory_key(std::string_view text) {
  Key key(text);
  MemoryKey out;
  if (key.word("layertype_")) {
    if (!key.number(out.layer_type)) return std::nullopt;
  } else if (key.word("other_memory_pp_on_")) {
    if (key.word("first"))
      out.stage = 1;
    else if (key.word("last"))
      out.stage = 2;
    else
      return std::nullopt;
  } else if (!key.word("other_memory_pp_off")) {
    return std::nullopt;
  }
  out.sequence_parallel = key.word("_sp");
  if (!key.done()) return std::nullopt;
  return out;
}

bool read_memory(Reader& root, MemoryProfile& profile) {
  for (const auto& [text, node] : root.node().members) {
    const auto key = memory_key(text);
    if (!key) {
      ++profile.skipped;
      continue;
    }
    MemoryProfile::Set& set = key->sequence_parallel ? profile.sequence_parallel : profile.plain;
    Reader part = root.child(text, true);
    if (key->layer_type >= 0) {
      each_sequence(part, [&](Reader& one, std::int64_t s) { set.layers[{key->layer_type, s}] = layer_memory(one); });
    } else {
      auto& stages = key->stage == 0 ? set.one_stage : key->stage == 1 ? set.first_stage : set.last_stage;
      each_sequence(part, [&](Reader& one, std::int64_t s) { stages[s] = other_memory(one); });
    }
  }
  return !profile.plain.layers.empty() || !profile.sequence_parallel.layers.empty();
}

bool read_collectives(Reader& root, CollectiveTimes& times) {
  for (const auto& [text, node] : root.node().members) {
    Key key(text);
    const bool all_reduce = key.word("allreduce_size_");
    std::int32_t group = 0;
    std::int64_t mb = 0;
    if (!all_reduce && !key.word("all2all_size_")) continue;
    if (!key.number(group) || !key.word("_") || !key.number(mb) || !key.word("MB_time") || !key.done()) continue;
    (all_reduce ? times.all_reduce_ms : times.all_to_all_ms)[{group, mb}] = root.required_real(text, 0, kMostMs);
  }
  return !times.all_reduce_ms.empty() || !times.all_to_all_ms.empty();
}

}  // namespace

Result<ComputationProfile> read_computation_profile(std::string_view json, const std::string& where) {
  const auto read = [](Reader& root, ComputationProfile& profile) {
    for (const auto& [text, node] : root.node().members) {
      if (auto time = forward_key(text)) {
        time->ms_per_sample = root.required_real(text, 0, kMostMs);
        profile.times.push_back(*time);
      } else {
        ++profile.skipped;
      }
    }
    return !profile.times.empty();
  };
  return read_file_of<ComputationProfile>(json, where, read, "\"layertype_0_bsz8_seq4096\": milliseconds");
}

Result<MemoryProfile> read_memory_profile(std::string_view json, const std::string& where) {
  return read_file_of<MemoryProfile>(json, where, read_memory,
                                     "\"layertype_0\": {\"4096\": {parameter_size, tp_activation_per_bsz_dict}}");
}

Result<AllReduceBandwidth> read_all_reduce_bandwidth(std::string_view json, const std::string& where) {
  const auto read = [](Reader& root, AllReduceBandwidth& table) {
    for (const auto& [text, node] : root.node().members) {
      Key key(text);
      std::int32_t size = 0, consecutive = 0;
      if (!key.word("allreduce_size_") || !key.number(size) || !key.word("_consec_") || !key.number(consecutive) || !key.done())
        continue;
      if (size < 2 || consecutive > 1) continue;
      table.gb_per_s[{size, consecutive == 1}] = root.required_real(text, 1e-6, kMostGbPerS);
    }
    return !table.gb_per_s.empty();
  };
  return read_file_of<AllReduceBandwidth>(json, where, read, "\"allreduce_size_8_consec_1\": GB/s");
}

Result<P2pBandwidth> read_p2p_bandwidth(std::string_view json, const std::string& where) {
  const auto read = [](Reader& root, P2pBandwidth& table) {
    for (const auto& [text, node] : root.node().members) {
      Key key(text);
      std::int32_t stages = 0;
      if (!key.word("pp_size_") || !key.number(stages) || !key.done() || stages < 2) continue;
      table.gb_per_s[stages] = root.required_real(text, 1e-6, kMostGbPerS);
    }
    return !table.gb_per_s.empty();
  };
  return read_file_of<P2pBandwidth>(json, where, read, "\"pp_size_2\": GB/s");
}

Result<double> read_overlap_coefficient(std::string_view json, const std::string& where) {
  const auto read = [](Reader& root, double& coefficient) {
    coefficient = root.required_real("overlap_coe", 1, 100);
    return true;
  };
  return read_file_of<double>(json, where, read, "");
}

Result<CollectiveTimes> read_collective_times(std::string_view json, const std::string& where) {
  return read_file_of<CollectiveTimes>(json, where, read_collectives, "\"allreduce_size_8_4MB_time\": milliseconds");
}

}  // namespace espalier::galvatron
