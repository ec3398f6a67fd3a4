// SPDX-License-Identifier: Apache-2.0
#include "cli/local_memory.h"

#include <algorithm>
#include <charconv>

#include "base/document.h"
#include "base/format.h"
#include "espalier/job.h"
#include "plan/listed_devices.h"

namespace espalier::cli {
namespace {

std::optional<std::int64_t> leading_integer(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<LocalNeed> local_need(const Plan& plan) {
  auto job = job_of_plan(plan);
  if (!job) return job.error();
  const auto simulated = simulate(*job, plan);
  if (!simulated) return simulated.error();
  const Prediction& p = simulated->prediction;
  LocalNeed out;
  std::size_t number = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) {
      const std::int64_t ranks = device_count(stage);
      const std::int64_t peak =
          number < p.peak_memory_bytes_per_stage.size() ? p.peak_memory_bytes_per_stage[number] : p.peak_memory_bytes;
      out.processes += ranks;
      out.bytes += ranks * std::max<std::int64_t>(0, peak - p.memory.framework);
      ++number;
    }
  return out;
}

std::optional<std::int64_t> available_of(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemAvailable:";
  const std::size_t at = meminfo.find(kKey);
  const auto kib = at == std::string_view::npos ? std::nullopt : leading_integer(meminfo.substr(at + kKey.size()));
  return kib && *kib < (std::int64_t{1} << 50) ? std::optional(*kib * 1024) : std::nullopt;
}

std::optional<std::int64_t> available_memory() {
  const auto meminfo = base::read_file("/proc/meminfo");
  std::optional<std::int64_t> out = meminfo ? available_of(*meminfo) : std::nullopt;
  const auto most = base::read_file("/sys/fs/cgroup/memory.max"), used = base::read_file("/sys/fs/cgroup/memory.current");
  const auto limit = most ? leading_integer(*most) : std::nullopt, held = used ? leading_integer(*used) : std::nullopt;
  if (limit && held) out = std::min(out.value_or(*limit), std::max<std::int64_t>(0, *limit - *held));
  return out;
}

Status fits_here(const LocalNeed& need, std::optional<std::int64_t> available) {
  if (!available || need.bytes <= *available) return {};
  return Error{ErrorKind::limit, "run --local",
               cat(need.processes, need.processes == 1 ? " process" : " processes", " that need about ", base::gib(need.bytes),
                   " together"),
               cat("at most ", base::gib(*available), ", the free memory of this machine"),
               "a smaller model or batch, or the plan's devices under torchrun or srun"};
}

}  // namespace espalier::cli
