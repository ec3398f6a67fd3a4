// SPDX-License-Identifier: Apache-2.0
#include "report/operator_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/format.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

std::string part_after_bits(int bits) { return bits == 0 ? "" : cat("1/", std::to_string(1 << bits)); }

}  // namespace

std::string partition_meaning(const OperatorReport& report) {
  int cut[26] = {};
  std::string primitive;
  for (std::size_t at = 0; at < report.sequence.size();) {
    const std::size_t end = std::min(report.sequence.find(',', at), report.sequence.size());
    const std::string part = report.sequence.substr(at, end - at);
    if (part.size() > 1)
      primitive += cat(primitive.empty() ? "" : ", ", "tiles on rings of ", part.substr(1));
    else if (part[0] >= 'A' && part[0] <= 'Z')
      ++cut[part[0] - 'A'];
    at = end + 1;
  }
  const std::pair<char, const char*> names[] = {{'B', "samples"},      {'M', "tokens"}, {'N', "features in"},
                                                {'K', "features out"}, {'H', "heads"},  {'L', "keys"}};
  std::string out;
  for (const auto& [letter, name] : names)
    if (const int bits = cut[letter - 'A']; bits > 0)
      out += cat(out.empty() ? "" : ", ", part_after_bits(bits), " of the ", name);
  if (!primitive.empty()) out += cat(out.empty() ? "" : ", ", primitive);
  if (const int bits = cut['R' - 'A']; bits > 0)
    out += cat(out.empty() ? "" : ", ", std::to_string(1 << bits), " identical copies");
  return out;
}

std::string operator_section(const PlannerResult& result) {
  std::string out;
  for (std::size_t begin = 0; begin < result.operators.size();) {
    std::size_t end = begin;
    std::vector<std::vector<std::string>> rows{
        {"operator", "partition", "compute", "all-reduce", "ring hidden", "exposed", "moved in", "held by a device"}};
    const auto time = [](std::int64_t t) { return t > 0 ? base::seconds(t) : std::string("–"); };
    for (; end < result.operators.size() && result.operators[end].first_layer == result.operators[begin].first_layer; ++end) {
      const OperatorReport& r = result.operators[end];
      rows.push_back({r.name, r.sequence, time(r.compute_ns), time(r.collective_ns), time(r.ring_hidden_ns),
                      time(r.ring_exposed_ns), time(r.redistribution_ns), partition_meaning(r)});
    }
    out += cat("\nOperators of a block over ", std::to_string(result.operators[begin].devices), " devices, from layer ",
               std::to_string(result.operators[begin].first_layer), " on (one micro-batch, forward and backward)\n",
               table(rows, {0, 1, 7}));
    begin = end;
  }
  return out;
}

}  // namespace espalier::report
