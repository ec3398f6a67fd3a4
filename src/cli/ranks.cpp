// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "espalier/documents.h"
#include "espalier/job.h"
#include "plan/listed_devices.h"

namespace espalier::cli {

Result<std::string> rank_program() {
  std::error_code none;
  const char* named = std::getenv("ESPALIER_RANK");
  const std::filesystem::path path = named != nullptr
                                         ? std::filesystem::path(named)
                                         : std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "espalier-rank";
  if (std::filesystem::exists(path, none)) return path.string();
  return Error{ErrorKind::usage, "run", "no espalier-rank next to this program", "a build with the runtime",
               "./dev runtime installs libtorch and builds it"};
}

Result<launch::RankPlace> place_by_launcher(const std::string& command) {
  const auto place = launch::rank_of([](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  if (!place) return place.error();
  if (*place) return **place;
  return Error{ErrorKind::usage, command, "no launcher (RANK and WORLD_SIZE are not set)",
               "--local, or torchrun, srun or mpirun around this command", ""};
}

std::int64_t direct_bytes_of(const Plan& plan) {
  const auto job = job_of_plan(plan);
  double most = 0;
  if (!job) return 0;
  const auto take = [&most](const std::vector<FabricLevel>& levels) {
    for (const FabricLevel& level : levels) most = std::max(most, level.direct_bytes);
  };
  take(job->cluster.inter);
  for (const NodeGroup& group : job->cluster.groups) {
    take(group.intra);
    take(group.inter);
  }
  return static_cast<std::int64_t>(most);
}

std::vector<std::string> words_of(const RankOptions& options, const std::string& plan, int rank, std::int64_t world,
                                  const std::string& rendezvous) {
  std::vector<std::string> words{plan,
                                 std::to_string(rank),
                                 std::to_string(world),
                                 rendezvous,
                                 std::to_string(options.steps),
                                 std::to_string(options.seed),
                                 base::shortest(options.rate),
                                 base::shortest(options.clip),
                                 base::shortest(options.timeout)};
  const std::pair<const char*, const std::string&> named[] = {
      {"data", options.data}, {"weights", options.weights}, {"save", options.save},         {"checkpoint", options.checkpoint},
      {"pace", options.pace}, {"record", options.record},   {"timeline", options.timeline}, {"steering", options.steering}};
  for (const auto& [key, value] : named)
    if (!value.empty()) words.push_back(cat(key, "=", value));
  if (options.direct_bytes > 0) words.push_back(cat("direct=", options.direct_bytes));
  if (options.checkpoint.empty()) return words;
  words.push_back(cat("every=", options.every));
  words.push_back(cat("keep=", options.keep));
  words.push_back(cat("resume=", options.resume ? 1 : 0));
  return words;
}

std::optional<TrainedStep> step_line(const std::string& line) {
  std::istringstream in(line);
  std::string word;
  TrainedStep out;
  if (!(in >> word >> out.step >> out.loss >> out.gradient >> out.seconds) || word != "step") return std::nullopt;
  return out;
}

std::string step_text(const TrainedStep& step, std::int64_t steps, double tokens) {
  return cat("step ", step.step + 1, " of ", steps, "   loss ", base::fixed(step.loss, 6), "   gradient ",
             base::fixed(step.gradient, 4), "   ", base::fixed(step.seconds * 1e3, 1), " ms   ",
             base::count(std::round(tokens / step.seconds)), " tokens/s");
}

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "espalier-run-XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code none;
  if (!path_.empty()) std::filesystem::remove_all(path_, none);
}

Status run_plan_here(const Plan& plan, const RankOptions& options, const std::string& program,
                     const std::function<void(const std::string&)>& line, const std::function<bool()>& interrupted) {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "plan.json").string();
  if (Status status = report::write_file(path, to_json(plan)); !status.ok()) return status;
  setenv("OMP_NUM_THREADS", "1", 0);  // ranks share the cores of this machine
  setenv("MKL_NUM_THREADS", "1", 0);
  launch::LocalRun run;
  run.program = program;
  const std::int64_t world = device_count(plan);
  for (std::int64_t rank = 0; rank < world; ++rank)
    run.arguments.push_back(
        words_of(options, path, static_cast<int>(rank), world, cat("file:", (scratch.path() / "port").string())));
  run.line = line;
  run.interrupted = interrupted;
  return launch::run_local(run);
}

}  // namespace espalier::cli
