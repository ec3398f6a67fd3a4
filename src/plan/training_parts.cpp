// SPDX-License-Identifier: Apache-2.0
#include "plan/training_parts.h"

#include <algorithm>

#include "base/format.h"

namespace espalier {
namespace {

constexpr std::int64_t kMostRank = 1 << 16;
constexpr std::size_t kMostWords = 256, kMostBins = 1 << 16;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

std::vector<std::string> read_words(Reader& r, std::string_view key, const char* expected) {
  std::vector<std::string> out;
  const Node* list = r.find(key);
  if (list == nullptr || list->kind == NodeKind::null) return out;
  if (list->kind != NodeKind::sequence || list->items.size() > kMostWords) {
    r.fail(key, list->kind == NodeKind::sequence ? cat(list->items.size(), " words") : std::string(to_string(list->kind)),
           expected);
    return out;
  }
  for (const Node& item : list->items) {
    if (item.kind != NodeKind::string || item.text.empty()) {
      r.fail(key, std::string(to_string(item.kind)), expected);
      return {};
    }
    if (std::find(out.begin(), out.end(), item.text) != out.end()) {
      r.fail(key, cat("\"", item.text, "\" a second time"), "each word only once");
      return {};
    }
    out.push_back(item.text);
  }
  return out;
}

std::optional<double> number_of(const Node& node) {
  if (node.kind == NodeKind::integer) return static_cast<double>(node.integer);
  if (node.kind == NodeKind::real) return node.real;
  return std::nullopt;
}

/// Returns a pair of the histogram; nullopt if it is none.
std::optional<LengthShare> share_of(const Node& item) {
  if (item.kind != NodeKind::sequence || item.items.size() != 2 || item.items[0].kind != NodeKind::integer) return std::nullopt;
  const auto weight = number_of(item.items[1]);
  const std::int64_t tokens = item.items[0].integer;
  if (!weight || !(*weight > 0) || *weight > 1e15 || tokens < 1 || tokens > kMostTokens) return std::nullopt;
  return LengthShare{tokens, *weight};
}

void read_lengths(Reader& training, Lengths& out) {
  if (!training.has("lengths")) return;
  Reader lengths = training.child("lengths", true);
  const Node* list = lengths.find("histogram");
  if (list == nullptr)
    lengths.fail("histogram", "nothing", "pairs of tokens and weight");
  else
    out.histogram = read_histogram(lengths, "histogram", *list);
  out.packing = read_packing(lengths);
  lengths.finish();
}

}  // namespace

Adapter read_adapter(Reader& training) {
  Adapter adapter;
  if (!training.has("adapter")) return adapter;
  Reader r = training.child("adapter", true);
  (void)r.optional_choice("kind", {"lora"}, 0);
  adapter.rank = static_cast<std::int32_t>(r.required_int("rank", 1, kMostRank));
  adapter.alpha = r.optional_real("alpha", 0, 1e6, 0);
  const Node* targets = r.find("targets");
  // PEFT accepts this notation.
  if (targets != nullptr && targets->kind == NodeKind::string && targets->text == "all-linear")
    adapter.targets = {r.optional_string("targets", "")};
  else
    adapter.targets = read_words(r, "targets", "all-linear, or a list of operators or projections such as [q_proj, v_proj]");
  adapter.base = static_cast<FrozenType>(r.optional_choice(
      "quantize_base", {to_string(FrozenType::compute), to_string(FrozenType::nf4), to_string(FrozenType::int8)}, 0));
  r.finish();
  return adapter;
}

std::vector<std::string> read_freeze(Reader& training) {
  return read_words(training, "freeze", "a list of parts such as [embedding, layers 0-15]");
}

std::vector<LengthShare> read_histogram(Reader& r, std::string_view key, const Node& node) {
  constexpr const char* kExpected = "pairs of tokens (1 to 2^31) and weight (above 0), such as [[512, 3], [2048, 1]]";
  std::vector<LengthShare> out;
  if (node.kind != NodeKind::sequence || node.items.empty() || node.items.size() > kMostBins) {
    r.fail(key, node.kind == NodeKind::sequence ? cat(node.items.size(), " pairs") : std::string(to_string(node.kind)),
           kExpected);
    return out;
  }
  for (const Node& item : node.items) {
    const auto share = share_of(item);
    if (!share) {
      r.fail(key, base::to_json(item).substr(0, 40), kExpected);
      return {};
    }
    out.push_back(*share);
  }
  std::sort(out.begin(), out.end(), [](const LengthShare& a, const LengthShare& b) { return a.tokens < b.tokens; });
  for (std::size_t i = 1; i < out.size(); ++i)
    if (out[i].tokens == out[i - 1].tokens) {
      r.fail(key, cat(out[i].tokens, " tokens a second time"), "each length once");
      return {};
    }
  return out;
}

Packing read_packing(Reader& lengths) {
  return static_cast<Packing>(lengths.optional_choice(
      "packing", {to_string(Packing::none), to_string(Packing::packed), to_string(Packing::balanced)}, 0));
}

void read_trained_parts(Reader& training, Training& out) {
  out.adapter = read_adapter(training);
  out.freeze = read_freeze(training);
  read_lengths(training, out.lengths);
}

void write_trained_parts(base::JsonWriter& w, const Training& t) {
  const auto words = [&w](std::string_view key, const std::vector<std::string>& list) {
    w.key(key).compact_next().begin_array();
    for (const std::string& word : list) w.value(word);
    w.end_array();
  };
  if (t.adapter.any()) {
    w.key("adapter").begin_object().key("kind").value("lora").key("rank").value(t.adapter.rank);
    if (t.adapter.alpha > 0) w.key("alpha").value(t.adapter.alpha);
    words("targets", t.adapter.targets);
    if (t.adapter.base != FrozenType::compute) w.key("quantize_base").value(to_string(t.adapter.base));
    w.end_object();
  }
  if (!t.freeze.empty()) words("freeze", t.freeze);
  if (!t.lengths.any()) return;
  w.key("lengths").begin_object().key("histogram").compact_next().begin_array();
  for (const LengthShare& share : t.lengths.histogram) w.begin_array().value(share.tokens).value(share.weight).end_array();
  w.end_array().key("packing").value(to_string(t.lengths.packing)).end_object();
}

}  // namespace espalier
