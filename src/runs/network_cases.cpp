// SPDX-License-Identifier: Apache-2.0
#include "runs/network_cases.h"

#include <charconv>
#include <cmath>
#include <sstream>

#include "base/document.h"
#include "base/format.h"

namespace espalier::runs {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kMostDevices = 65'536;
constexpr base::Limits kLimits{kMostBytes, 16, 1'000'000, std::size_t{1} << 16};

double number(const Node* node) {
  const bool is = node != nullptr && (node->kind == NodeKind::integer || node->kind == NodeKind::real);
  return is && std::isfinite(node->real) && node->real >= 0 && node->real < 1e9 ? node->real : 0;
}

LinkRate rate_of(const Node* node) {
  if (node == nullptr || node->kind != NodeKind::mapping) return {};
  return {number(node->find("gbps")), number(node->find("delay_ms"))};
}

/// Reads "A-B": [delay_ms, gbps].
void read_pairs(const Node& across, NetworkCase& out) {
  for (const auto& [name, value] : across.members) {
    const std::size_t dash = name.find('-');
    if (dash == std::string::npos || value.kind != NodeKind::sequence || value.items.size() != 2) continue;
    out.pairs[{name.substr(0, dash), name.substr(dash + 1)}] = {number(&value.items[1]), number(&value.items[0])};
  }
}

/// Returns the sizes in "order of instances 1 1 1 1 4 repeated 8 times": those sizes, eight times.
std::vector<std::int64_t> sizes_in(const std::string& note) {
  constexpr std::string_view kBegin = "order of instances ";
  const std::size_t at = note.find(kBegin);
  if (at == std::string::npos) return {};
  std::istringstream words(note.substr(at + kBegin.size()));
  std::vector<std::int64_t> once, out;
  std::string word;
  std::int64_t times = 1;
  while (words >> word) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc{} || end != word.data() + word.size() || value < 1 || value > 1024) break;
    once.push_back(value);
  }
  if (word == "repeated" && words >> word) {
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), times);
    if (code != std::errc{} || times < 1 || times > 4096) times = 1;
  }
  for (std::int64_t n = 0; n < times && out.size() < kMostDevices; ++n) out.insert(out.end(), once.begin(), once.end());
  return out;
}

void read_random(const Node* maps, NetworkCase& out) {
  if (maps == nullptr || maps->kind != NodeKind::mapping) return;
  for (const auto& [name, list] : maps->members) {
    std::int64_t seed = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), seed);
    if (code != std::errc{} || list.kind != NodeKind::sequence || list.items.size() > kMostDevices) continue;
    std::vector<std::int64_t>& ranks = out.random_ranks[seed];
    for (const Node& item : list.items) ranks.push_back(item.kind == NodeKind::integer ? item.integer : -1);
  }
}

}  // namespace

LinkRate NetworkCase::between(const std::string& a, const std::string& b) const {
  for (const auto& key : {std::pair(a, b), std::pair(b, a)})
    if (const auto at = pairs.find(key); at != pairs.end()) return at->second;
  return across;
}

Result<NetworkCase> read_network_case(std::string_view text, const std::string& where, std::int64_t number_of_case) {
  const auto document = base::read_json(text, where, kLimits);
  if (!document) return document.error();
  const Node& root = document->root;
  const Node* cases = root.find("cases");
  const std::string key = std::to_string(number_of_case);
  const Node* here = cases != nullptr && cases->kind == NodeKind::mapping ? cases->find(key) : nullptr;
  if (here == nullptr || here->kind != NodeKind::mapping)
    return Error{ErrorKind::bad_input, where, cat("no case ", key), "cases: {KEY: …} with the record's case + 1", ""};
  NetworkCase out;
  out.within = rate_of(here->find("within"));
  if (const Node* across = here->find("across"); across != nullptr && across->kind == NodeKind::mapping) {
    out.across = rate_of(across);
    read_pairs(*across, out);
  }
  if (const Node* regions = here->find("regions"); regions != nullptr && regions->kind == NodeKind::sequence)
    for (const Node& item : regions->items) {
      if (item.kind != NodeKind::string || out.regions.size() >= kMostDevices)
        return Error{ErrorKind::bad_input, where, cat("regions of case ", key), "a list of names", ""};
      out.regions.push_back(item.text);
    }
  if (const Node* note = here->find("note"); note != nullptr && note->kind == NodeKind::string)
    out.node_sizes = sizes_in(note->text);
  read_random(root.find("random_rank_map"), out);
  return out;
}

Result<NetworkCase> read_network_case_file(const std::string& path, std::int64_t number_of_case) {
  const auto text = base::read_file(path, kMostBytes);
  if (!text) return text.error();
  return read_network_case(*text, path, number_of_case);
}

}  // namespace espalier::runs
