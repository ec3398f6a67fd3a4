// SPDX-License-Identifier: Apache-2.0
#include "galvatron/strategy_document.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "base/document.h"

namespace espalier::galvatron {
namespace {

constexpr std::int64_t kMostDegree = 1 << 20, kMostLayers = 1 << 16, kMostBatch = std::int64_t{1} << 40;
constexpr std::string_view kTypes[] = {"ddp", "zero2", "zero3"};
constexpr std::string_view kPipelines[] = {"gpipe", "pipedream_flush"};

std::string count_of(std::size_t n, std::string_view what) { return std::to_string(n) + " " + std::string(what); }

/// Reads a number. Spaces around it are allowed, as in Python's int().
std::optional<std::int64_t> number_in(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(' ') - first + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Reads "1,1,2" as numbers from low to high. Empty after an error.
std::vector<std::int32_t> read_numbers(Reader& r, std::string_view key, std::int64_t low, std::int64_t high) {
  const std::string text = r.required_string(key);
  std::vector<std::int32_t> numbers;
  if (!r.sink().ok()) return numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const auto number = number_in(part);
    if (!number || *number < low || *number > high || numbers.size() == static_cast<std::size_t>(kMostLayers)) {
      const bool full = numbers.size() == static_cast<std::size_t>(kMostLayers);
      r.fail(key,
             full ? "more than " + count_of(numbers.size(), "numbers")
                  : "entry " + std::to_string(numbers.size()) + ", \"" + part.substr(0, 40) + "\"",
             "integers from " + std::to_string(low) + " to " + std::to_string(high) + ", separated by commas",
             "one number for each " + std::string(key == "pp_division" ? "stage" : "layer") + ", \"1,1,2\"");
      return {};
    }
    numbers.push_back(static_cast<std::int32_t>(*number));
    at = comma + 1;
  }
  return numbers;
}

/// Reads a list with one number per layer; `fallback` applies to all where the key is absent.
std::vector<std::int32_t> read_layers(Reader& r, std::string_view key, std::size_t layers, std::int64_t low, std::int64_t high,
                                      std::optional<std::int32_t> fallback) {
  if (fallback && !r.has(key)) return std::vector<std::int32_t>(layers, *fallback);
  std::vector<std::int32_t> numbers = read_numbers(r, key, low, high);
  if (r.sink().ok() && numbers.size() != layers) {
    r.fail(key, count_of(numbers.size(), "numbers"), count_of(layers, "numbers, one per layer as in tp_sizes_enc"),
           "every list of the file has one entry per layer");
  }
  numbers.resize(layers, static_cast<std::int32_t>(low));
  return numbers;
}

void read_layer_lists(Reader& r, StrategyDocument& d) {
  const std::vector<std::int32_t> tp = read_numbers(r, "tp_sizes_enc", 1, kMostDegree);
  const std::size_t n = tp.size();
  const auto consecutive = read_layers(r, "tp_consecutive_flags", n, 0, 1, std::nullopt);
  const auto types = read_layers(r, "dp_types_enc", n, 0, 1, std::nullopt);
  const auto cp = read_layers(r, "cp_sizes_enc", n, 1, kMostDegree, 1);
  const auto ulysses = read_layers(r, "use_sp", n, 0, 1, 0);
  const auto checkpoint = read_layers(r, "checkpoint", n, 0, 2, 0);
  for (std::size_t i = 0; i < n; ++i)
    d.layers.push_back({tp[i], cp[i], consecutive[i] == 1, ulysses[i] == 1, types[i] == 1, checkpoint[i]});
}

void read_division(Reader& r, StrategyDocument& d) {
  const auto layers = static_cast<std::int64_t>(d.layers.size());
  if (d.pp > layers) {
    r.fail("pp_deg", count_of(static_cast<std::size_t>(d.pp), "stages"),
           "at most one stage per layer; the number of layers is " + std::to_string(layers), "lower pp_deg");
    return;
  }
  if (!r.has("pp_division")) {
    const auto each = static_cast<std::int32_t>(layers / d.pp);
    d.division.assign(static_cast<std::size_t>(d.pp), each);
    d.division.back() += static_cast<std::int32_t>(layers % d.pp);
    return;
  }
  d.division = read_numbers(r, "pp_division", 1, kMostLayers);
  if (!r.sink().ok()) return;
  if (d.division.size() != static_cast<std::size_t>(d.pp))
    r.fail("pp_division", count_of(d.division.size(), "stages"), count_of(static_cast<std::size_t>(d.pp), "stages, pp_deg"),
           "one number per stage");
  const std::int64_t sum = std::accumulate(d.division.begin(), d.division.end(), std::int64_t{0});
  if (sum != layers)
    r.fail("pp_division", std::to_string(sum) + " layers in all",
           std::to_string(layers) + ", the number of entries in tp_sizes_enc", "the stages together hold every layer once");
}

/// Reads either name of ZeRO-3 for embedding and head; both only if they agree.
bool read_vocab_zero3(Reader& r) {
  const bool has_embed = r.has("embed_sdp"), has_vocab = r.has("vocab_sdp");
  const std::int64_t embed = r.optional_int("embed_sdp", 0, 1, 0), vocab = r.optional_int("vocab_sdp", 0, 1, 0);
  if (has_embed && has_vocab && embed != vocab)
    r.fail("vocab_sdp", std::to_string(vocab), "the value of embed_sdp, " + std::to_string(embed), "both name the same setting");
  return (has_vocab ? vocab : embed) == 1;
}

void write_numbers(base::JsonWriter& w, std::string_view key, const std::vector<std::int32_t>& numbers) {
  std::string text;
  for (const std::int32_t n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  w.key(key).value(text);
}

template <class Get>
void write_layers(base::JsonWriter& w, std::string_view key, const StrategyDocument& d, const Get& get) {
  std::vector<std::int32_t> numbers;
  for (const DocumentLayer& layer : d.layers) numbers.push_back(static_cast<std::int32_t>(get(layer)));
  write_numbers(w, key, numbers);
}

}  // namespace

std::string_view to_string(DataParallelType type) { return kTypes[static_cast<std::size_t>(type)]; }

Result<StrategyDocument> read_strategy_document(std::string_view json, const std::string& where,
                                                std::vector<std::string>* unread) {
  auto document = base::read_json(json, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader r = Reader::root(*document, sink);
  StrategyDocument d;
  d.pp = static_cast<std::int32_t>(r.required_int("pp_deg", 1, kMostDegree));
  read_layer_lists(r, d);
  d.global_batch = r.required_int("global_bsz", 1, kMostBatch);
  d.chunks = r.required_int("chunks", 1, kMostBatch);
  d.one_f_one_b = r.optional_choice("pipeline_type", {std::begin(kPipelines), std::end(kPipelines)}, 0) == 1;
  d.default_type = static_cast<DataParallelType>(r.optional_choice("default_dp_type", {std::begin(kTypes), std::end(kTypes)}, 0));
  d.vocab_tp = static_cast<std::int32_t>(r.optional_int("vtp", 1, kMostDegree, 1));
  d.vocab_ulysses = r.optional_int("vsp", 0, 1, 0) == 1;
  d.vocab_cp = static_cast<std::int32_t>(r.optional_int("vcp", 1, kMostDegree, 1));
  d.vocab_zero3 = read_vocab_zero3(r);
  if (sink.ok()) read_division(r, d);
  if (sink.ok() && d.chunks > d.global_batch)
    r.fail("chunks", std::to_string(d.chunks), "at most global_bsz, " + std::to_string(d.global_batch),
           "a micro-batch has at least one sample");
  if (!sink.ok()) return sink.first().error();
  if (unread) *unread = r.unread();
  return d;
}

std::string to_json(const StrategyDocument& d) {
  base::JsonWriter w(4);
  w.begin_object();
  w.key("pp_deg").value(d.pp);
  write_layers(w, "tp_sizes_enc", d, [](const DocumentLayer& l) { return l.tp; });
  write_layers(w, "tp_consecutive_flags", d, [](const DocumentLayer& l) { return l.tp_consecutive; });
  write_layers(w, "cp_sizes_enc", d, [](const DocumentLayer& l) { return l.cp; });
  write_layers(w, "dp_types_enc", d, [](const DocumentLayer& l) { return l.zero3; });
  write_layers(w, "use_sp", d, [](const DocumentLayer& l) { return l.ulysses; });
  write_layers(w, "checkpoint", d, [](const DocumentLayer& l) { return l.checkpoint; });
  w.key("global_bsz").value(d.global_batch);
  w.key("chunks").value(d.chunks);
  write_numbers(w, "pp_division", d.division);
  w.key("pipeline_type").value(kPipelines[d.one_f_one_b ? 1 : 0]);
  w.key("default_dp_type").value(to_string(d.default_type));
  w.key("vtp").value(d.vocab_tp);
  w.key("vsp").value(d.vocab_ulysses ? 1 : 0);
  w.key("vcp").value(d.vocab_cp);
  w.key("embed_sdp").value(d.vocab_zero3 ? 1 : 0);
  w.key("vocab_sdp").value(d.vocab_zero3 ? 1 : 0);
  w.end_object();
  return w.text() + "\n";
}

}  // namespace espalier::galvatron
