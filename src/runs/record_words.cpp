// SPDX-License-Identifier: Apache-2.0
#include "runs/record_words.h"
#include "base/format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace espalier::runs {
namespace {

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool alnum(char c) { return digit(c) || letter(c); }

bool contains(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

/// Replaces the multiplication sign by an x.
std::string plain(std::string_view words) {
  constexpr std::string_view kTimes = "\xC3\x97";
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool sign = words.substr(i, kTimes.size()) == kTimes;
    out += sign ? 'x' : words[i];
    if (sign) ++i;
  }
  return out;
}

// ---- networks -----------------------------------------------------------------------------------------------------

/// Holds a figure with its unit, as written in the text.
struct WrittenRate {
  double gbits = 0;
  std::optional<std::int64_t> count;  ///< "8x" before it
  bool per_device = false, per_node = false;
};

/// Returns the Gb/s of "Gb/s", "Gbps", "Gbit/s", "GB/s", "GiB/s", "GbE", "G". Returns 0 for other quantities (a size,
/// a power), and a negative number for a rate of unknown unit.
double gbits_of_unit(std::string_view unit) {
  const std::size_t slash = unit.find('/');
  const bool timed = slash != std::string_view::npos || contains(unit, "ps") || contains(unit, "PS");
  if (unit == "G" || unit == "g" || unit == "GbE" || unit == "gbe" || unit == "GE") return 1;
  const auto factor = [&]() -> double {
    switch (unit.empty() ? ' ' : unit.front()) {
      case 'G':
      case 'g': return 1;
      case 'T':
      case 't': return 1000;
      case 'M':
      case 'm': return 1e-3;
      default: return 0;
    }
  }();
  if (factor == 0) return 0;
  std::string_view rest = unit.substr(1);
  const bool binary = !rest.empty() && rest.front() == 'i';
  if (binary) rest.remove_prefix(1);
  const std::string small = base::lower(rest);
  const bool bytes = contains(small, "yte") || (!rest.empty() && rest.front() == 'B' && !contains(small, "bit"));
  const bool bits = !bytes && !small.empty() && small.front() == 'b';
  if (!bytes && !bits) return timed ? -1 : 0;
  if (!timed && !(bits && (small == "b" || small == "bit" || small == "bits"))) return bytes ? 0 : -1;
  const double decimal = binary ? 1.073741824 * factor : factor;
  return bytes ? 8 * decimal : decimal;
}

std::size_t skip_spaces(std::string_view s, std::size_t at) {
  while (at < s.size() && s[at] == ' ') ++at;
  return at;
}

/// Returns the count in "8x", "8 x" or "8*" that ends where the figure begins.
std::optional<std::int64_t> count_before(std::string_view s, std::size_t begin) {
  while (begin > 0 && s[begin - 1] == ' ') --begin;
  if (begin == 0 || (s[begin - 1] != 'x' && s[begin - 1] != 'X' && s[begin - 1] != '*')) return std::nullopt;
  std::size_t to = begin - 1;
  while (to > 0 && s[to - 1] == ' ') --to;
  std::size_t from = to;
  while (from > 0 && digit(s[from - 1])) --from;
  std::int64_t count = 0;
  if (from == to || std::from_chars(s.data() + from, s.data() + to, count).ec != std::errc{}) return std::nullopt;
  return count;
}

/// Returns the count in "x8" or "x 8" after the unit.
std::optional<std::int64_t> count_after(std::string_view s, std::size_t at) {
  at = skip_spaces(s, at);
  if (at >= s.size() || (s[at] != 'x' && s[at] != 'X' && s[at] != '*')) return std::nullopt;
  at = skip_spaces(s, at + 1);
  std::int64_t count = 0;
  const auto [end, code] = std::from_chars(s.data() + at, s.data() + s.size(), count);
  const bool whole = code == std::errc{} && (end == s.data() + s.size() || !alnum(*end));
  return whole ? std::optional(count) : std::nullopt;
}

/// Returns whether words such as "per GPU", "/GPU", "InfiniBand a device" or "per node" follow a figure. `rest`
/// begins after it, and they must come before the next figure.
bool follows(std::string_view rest, const std::vector<std::string_view>& things) {
  rest = rest.substr(0, rest.find_first_of("0123456789,;"));
  for (std::size_t at = 0; at < rest.size(); ++at) {
    if (at > 0 && rest[at] != '/' && rest[at - 1] != ' ' && rest[at - 1] != '(') continue;
    for (const std::string_view before : {"per ", "per-", "a ", "each ", "/", "/ "})
      for (const std::string_view thing : things)
        if (rest.substr(at, before.size()) == before && rest.substr(at + before.size(), thing.size()) == thing) return true;
  }
  return false;
}

/// Returns all figures with a unit of a rate. `unknown` is the first one with an unknown unit.
std::vector<WrittenRate> rates_of(std::string_view s, std::string& unknown) {
  std::vector<WrittenRate> out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (!digit(s[i]) || (i > 0 && (s[i - 1] == '.' || (alnum(s[i - 1]) && s[i - 1] != 'x' && s[i - 1] != 'X')))) continue;
    double value = 0;
    const auto [end, code] = std::from_chars(s.data() + i, s.data() + s.size(), value);
    if (code != std::errc{}) continue;
    const std::size_t after = static_cast<std::size_t>(end - s.data());
    const std::size_t unit_begin = skip_spaces(s, after);
    std::size_t unit_end = unit_begin;
    while (unit_end < s.size() && (letter(s[unit_end]) || s[unit_end] == '/')) ++unit_end;
    std::string_view unit = s.substr(unit_begin, unit_end - unit_begin);
    const std::size_t slash = unit.find('/');  // "Gb/s/GPU": the unit ends before the second slash
    if (slash != std::string_view::npos && unit.find('/', slash + 1) != std::string_view::npos)
      unit = unit.substr(0, unit.find('/', slash + 1));
    const double gbits = gbits_of_unit(unit);
    if (gbits < 0 && unknown.empty()) unknown = std::string(s.substr(i, unit_begin + unit.size() - i));
    if (gbits > 0 && value > 0) {
      const std::string rest = base::lower(s.substr(skip_spaces(s, unit_begin + unit.size()), 48));
      const auto before = count_before(s, i);
      out.push_back({value * gbits, before ? before : count_after(s, unit_begin + unit.size()),
                     follows(rest, {"gpu", "device", "accelerator", "card", "chip"}),
                     follows(rest, {"node", "server", "host", "machine"})});
    }
    i = std::max(i, after - 1);
  }
  return out;
}

/// Reads "4 links", "8 NICs" or "2 ports".
std::optional<std::int64_t> count_of_links(std::string_view s) {
  const std::string small = base::lower(s);
  for (std::size_t i = 0; i < small.size(); ++i) {
    if (!digit(small[i]) || (i > 0 && (alnum(small[i - 1]) || small[i - 1] == '.'))) continue;
    std::int64_t count = 0;
    const auto [end, code] = std::from_chars(small.data() + i, small.data() + small.size(), count);
    if (code != std::errc{}) continue;
    const std::string_view rest =
        std::string_view(small).substr(skip_spaces(small, static_cast<std::size_t>(end - small.data())));
    for (const std::string_view word : {"link", "nic", "port", "hca", "rail", "adapter"})
      if (rest.substr(0, word.size()) == word) return count;
    i = static_cast<std::size_t>(end - small.data()) - 1;
  }
  return std::nullopt;
}

/// Returns the port rate of a generation's name (InfiniBand Trade Association roadmap, 4x ports; Intel OPA 100; HPE
/// Slingshot).
std::optional<WrittenRate> rate_of_generation(std::string_view words) {
  static constexpr std::array<std::pair<std::string_view, double>, 15> kGenerations{{{"omni-path", 100},
                                                                                     {"omnipath", 100},
                                                                                     {"opa100", 100},
                                                                                     {"slingshot-10", 100},
                                                                                     {"slingshot", 200},
                                                                                     {"hdr100", 100},
                                                                                     {"ndr200", 200},
                                                                                     {"xdr", 800},
                                                                                     {"ndr400", 400},
                                                                                     {"ndr", 400},
                                                                                     {"hdr200", 200},
                                                                                     {"hdr", 200},
                                                                                     {"edr", 100},
                                                                                     {"fdr", 56},
                                                                                     {"qdr", 32}}};
  const std::string small = base::lower(words);
  for (const auto& [name, gbits] : kGenerations) {
    const std::size_t at = small.find(name);
    if (at == std::string::npos || (at > 0 && letter(small[at - 1]) && small[at - 1] != 'x')) continue;
    const std::size_t end = at + name.size();
    if (end < small.size() && alnum(small[end])) continue;
    return WrittenRate{gbits, count_before(small, at), false, false};
  }
  return std::nullopt;
}

/// Returns the NICs of a node that a figure describes. `generation` is the kind of port that the words name.
NetworkWords network_of(const WrittenRate& r, std::optional<std::int64_t> links, std::int64_t devices_per_node,
                        const std::optional<WrittenRate>& generation) {
  if (r.per_device) return {r.count.value_or(1) * devices_per_node, r.gbits};
  if (r.count) return {r.count, r.gbits};
  if (links && *links > 0) return {links, r.per_node ? r.gbits / static_cast<double>(*links) : r.gbits};
  // The figure is the rate of one port. The number of ports comes before its name, or nowhere.
  if (!r.per_node && generation && r.gbits == generation->gbits) return {generation->count, r.gbits};
  return {1, r.gbits};
}

double total_gbits(const NetworkWords& n) { return static_cast<double>(n.nics.value_or(1)) * n.gbits; }

/// Returns whether two figures of one text agree: the same total, the rate of one NIC twice, or one NIC's rate and
/// the node's total.
bool same_network(const NetworkWords& a, const NetworkWords& b) {
  return total_gbits(a) == total_gbits(b) || a.gbits == b.gbits || a.gbits == total_gbits(b) || b.gbits == total_gbits(a);
}

bool plausible(const NetworkWords& n) {
  return n.gbits > 0 && n.gbits <= 1e6 && n.nics.value_or(1) >= 1 && n.nics.value_or(1) <= 1024;
}

}  // namespace

NetworkReading read_network_words(std::string_view words, std::int64_t devices_per_node) {
  NetworkReading out;
  const std::string s = plain(words);
  std::vector<WrittenRate> rates = rates_of(s, out.unknown);
  if (!out.unknown.empty()) return out;
  const std::optional<WrittenRate> generation = rate_of_generation(s);
  if (rates.empty() && generation) rates.push_back(*generation);
  if (rates.empty()) {
    // A commodity network without its rate is not the usual network of a training node.
    const std::string small = base::lower(s);
    const bool fast =
        contains(small, "roce") || contains(small, "rdma") || contains(small, "infiniband") || contains(small, "efa");
    if (!fast && (contains(small, "ethernet") || contains(small, "tcp"))) out.unknown = std::string(words);
    return out;
  }
  const std::optional<std::int64_t> links = count_of_links(s);
  for (const WrittenRate& r : rates) {
    const NetworkWords n = network_of(r, links, devices_per_node, generation);
    const bool agrees = !out.network || same_network(n, *out.network);
    // There are two networks, and the text does not name the one that joins the nodes.
    if (!plausible(n) || !agrees) return {std::nullopt, std::string(words)};
    if (!out.network || n.nics.value_or(1) > out.network->nics.value_or(1)) out.network = n;
  }
  return out;
}

// ---- schedules ----------------------------------------------------------------------------------------------------

std::optional<ScheduleKind> read_schedule_words(std::string_view words) {
  // These are the schedules' own names, and those of other sources. Narayanan et al. 2021 has 1F1B and interleaved;
  // Qi et al. 2024 and its code have 1F1B-I, ZB-1p = ZB-H1 and ZB-V; Huang et al. 2019 has GPipe. Others are class
  // names of torch.distributed.pipelining, and Paddle's F-then-B.
  static constexpr std::array<std::pair<std::string_view, ScheduleKind>, 21> kNames{{
      {"1f1bdeepspeedpipeline", ScheduleKind::one_f_one_b},
      {"plain1f1b", ScheduleKind::one_f_one_b},
      {"1f1bflush", ScheduleKind::one_f_one_b},
      {"pipedreamflush", ScheduleKind::one_f_one_b},
      {"noninterleaved1f1b", ScheduleKind::one_f_one_b},
      {"1f1bnoninterleaved", ScheduleKind::one_f_one_b},
      {"schedule1f1b", ScheduleKind::one_f_one_b},
      {"interleaved1f1b", ScheduleKind::interleaved},
      {"1f1binterleaved", ScheduleKind::interleaved},
      {"scheduleinterleaved1f1b", ScheduleKind::interleaved},
      {"1f1bi", ScheduleKind::interleaved},
      {"zb1p", ScheduleKind::zb_h1},
      {"zerobubbleh1", ScheduleKind::zb_h1},
      {"zerobubblev", ScheduleKind::zb_v},
      {"zbvzerobubble", ScheduleKind::zb_v},
      {"schedulezbvzerobubble", ScheduleKind::zb_v},
      {"schedulegpipe", ScheduleKind::gpipe},
      {"afab", ScheduleKind::gpipe},
      {"allforwardallbackward", ScheduleKind::gpipe},
      {"fthenb", ScheduleKind::gpipe},
      {"fillanddrain", ScheduleKind::gpipe},
  }};
  const auto bare = [](std::string_view text) {
    std::string out;
    for (const char c : base::lower(text))
      if (c != ' ' && c != '-' && c != '_' && c != '(' && c != ')') out += c;
    return out;
  };
  const std::string name = bare(words);
  for (const ScheduleKind kind : kScheduleKinds)
    if (bare(to_string(kind)) == name) return kind;
  for (const auto& [known, kind] : kNames)
    if (known == name) return kind;
  return std::nullopt;
}

// ---- number formats -----------------------------------------------------------------------------------------------

PrecisionReading read_precision_words(std::string_view words) {
  static constexpr std::array<std::pair<std::string_view, Precision>, 15> kFormats{{{"nvfp4", Precision::nvfp4},
                                                                                    {"mxfp8", Precision::mxfp8},
                                                                                    {"mx", Precision::mxfp8},
                                                                                    {"fp8", Precision::fp8},
                                                                                    {"float8", Precision::fp8},
                                                                                    {"e4m3", Precision::fp8},
                                                                                    {"e5m2", Precision::fp8},
                                                                                    {"bf16", Precision::bf16},
                                                                                    {"bfloat16", Precision::bf16},
                                                                                    {"fp16", Precision::fp16},
                                                                                    {"float16", Precision::fp16},
                                                                                    {"half", Precision::fp16},
                                                                                    {"tf32", Precision::tf32},
                                                                                    {"fp32", Precision::fp32},
                                                                                    {"float32", Precision::fp32}}};
  // The table is in the order of the rates: "bf16+fp8(hybrid)" multiplies in fp8, "bf16 (fp32 grad accumulation)" in
  // bf16.
  PrecisionReading out;
  const std::string small = base::lower(words);
  std::size_t best = kFormats.size();
  for (std::size_t i = 0; i < small.size();) {
    std::size_t end = i;
    while (end < small.size() && alnum(small[end])) ++end;
    const std::string_view token = std::string_view(small).substr(i, end - i);
    const auto known = std::find_if(kFormats.begin(), kFormats.end(), [&](const auto& f) { return f.first == token; });
    if (known != kFormats.end()) best = std::min(best, static_cast<std::size_t>(known - kFormats.begin()));
    // "int8", "mxfp6" and "fp4" name formats that are not in the table.
    const bool numbered = !token.empty() && digit(token.back());
    const bool format =
        contains(token, "fp") || contains(token, "float") || token.substr(0, 3) == "int" || token.substr(0, 2) == "nf";
    if (known == kFormats.end() && numbered && format && out.unknown.empty()) out.unknown = std::string(token);
    i = end + 1;
  }
  if (best < kFormats.size()) out.precision = kFormats[best].second;
  if (!out.precision && out.unknown.empty()) out.unknown = std::string(words);
  return out;
}

// ---- recomputation ------------------------------------------------------------------------------------------------

bool recomputes_attention_alone(std::string_view words) {
  static constexpr std::string_view kSelective = "selective";
  static constexpr std::array<std::string_view, 13> kHarmless{
      "per", "op", "ops", "sac", "core", "attn", "attention", "core_attn", "operator", "operators", "matmul", "every", "other"};
  const std::string small = base::lower(words);
  if (small.substr(0, kSelective.size()) != kSelective) return false;
  std::string word;
  for (const char c : small.substr(kSelective.size()) + " ") {
    if (alnum(c) || c == '_') {
      word += c;
      continue;
    }
    const bool number = !word.empty() && std::all_of(word.begin(), word.end(), digit);
    if (!word.empty() && !number && std::find(kHarmless.begin(), kHarmless.end(), word) == kHarmless.end()) return false;
    word.clear();
  }
  return true;
}

// ---- devices -------------------------------------------------------------------------------------------------------

bool names_device(std::string_view text, std::string_view word) {
  const std::string small = base::lower(text);
  for (std::size_t at = small.find(word); at != std::string::npos; at = small.find(word, at + 1)) {
    const bool counted = at > 1 && small[at - 1] == 'x' && digit(small[at - 2]);
    const bool begins = at == 0 || !alnum(small[at - 1]) || counted;
    const std::string_view rest = std::string_view(small).substr(at + word.size());
    const bool ends = rest.empty() || !alnum(rest.front()) || rest.substr(0, 3) == "sxm" || rest.substr(0, 4) == "pcie";
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace espalier::runs
