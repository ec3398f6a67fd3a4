// SPDX-License-Identifier: Apache-2.0
// Reads the shipped table of published runs, and finds those similar to a job.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/invariant.h"
#include "cluster/operand_format.h"
#include "data/published_runs_tsv.h"
#include "espalier/log_comparison.h"

namespace espalier {
namespace {

constexpr std::size_t kColumns = 10;
constexpr double kLeast = 0.4, kMost = 2.5;  // bounds as factors of the job's active parameters

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t tab = std::min(line.find('\t', at), line.size());
    out.emplace_back(line.substr(at, tab - at));
    at = tab + 1;
  }
  return out;
}

std::vector<PublishedRun> read_table(std::string_view text) {
  std::vector<PublishedRun> out;
  bool head = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::vector<std::string> c = cells_of(text.substr(at, end - at));
    at = end + 1;
    if (std::exchange(head, false)) continue;
    ESPALIER_CHECK(c.size() == kColumns);
    out.push_back(
        {c[0], c[3], c[6], c[8], c[9], std::stod(c[1]), std::stoll(c[2]), std::stoll(c[4]), std::stoll(c[5]), std::stod(c[7])});
  }
  return out;
}

/// Returns the family, which is the same for "a100-sxm-80gb", "A100-40GB" and "A100".
std::string family_of(std::string_view device) {
  std::string out(device.substr(0, std::min(device.find('-'), device.size())));
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

double distance(const PublishedRun& run, const Job& job, double parameters) {
  const auto apart = [](double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 1.0; };
  const bool eight = run.precision.find("fp8") != std::string::npos || run.precision.find("fp4") != std::string::npos,
             asked = cluster::operand_format(job.training.precision).cast;
  return (eight == asked ? 0 : 1) + apart(run.active_parameters, parameters) +
         apart(static_cast<double>(run.sequence), static_cast<double>(job.training.sequence.main)) +
         apart(static_cast<double>(run.devices), static_cast<double>(job.cluster.devices())) / 4;
}

bool has_routed_experts(const Model& model) { return active_parameter_count(model) < parameter_count(model); }

}  // namespace

const std::vector<PublishedRun>& published_runs() {
  static const std::vector<PublishedRun> runs = read_table(embedded::published_runs_tsv);
  return runs;
}

std::vector<PublishedRun> published_like(const Job& job, std::size_t most) {
  const auto parameters = static_cast<double>(active_parameter_count(job.model));
  const std::string family = family_of(job.cluster.groups.front().device.name);
  std::vector<std::pair<double, const PublishedRun*>> near;
  for (const PublishedRun& run : published_runs()) {
    const double size = run.active_parameters / parameters;
    if (family_of(run.device) != family || (run.experts > 0) != has_routed_experts(job.model) || size < kLeast || size > kMost)
      continue;
    near.emplace_back(distance(run, job, parameters), &run);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PublishedRun> out;
  for (std::size_t k = 0; k < std::min(most, near.size()); ++k) out.push_back(*near[k].second);
  return out;
}

}  // namespace espalier
