// SPDX-License-Identifier: Apache-2.0
// Compares two binaries on one machine. Machines differ by a factor, so only times taken in turn on the same machine
// are comparable. Each binary plans each job on one thread, in turn. The result is the median of three runs and its
// ratio, in user seconds of the child process as counted by the kernel. The jobs cover uniform, layer-wise and full
// searches and the simulation of a plan that the earlier binary wrote.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace espalier::bench {

constexpr int kTurns = 3;

/// Returns the user seconds of `binary` with these arguments and discards its output; negative on failure.
inline double user_seconds(const std::string& binary, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>(binary.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr) _exit(127);
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (wait4(child, &status, 0, &used) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return -1;
  return static_cast<double>(used.ru_utime.tv_sec) + 1e-6 * static_cast<double>(used.ru_utime.tv_usec);
}

struct Comparison {
  std::string name;
  std::vector<std::string> arguments;  ///< command, file and overrides
};

inline std::vector<Comparison> comparisons(const std::string& plan_file) {
  const std::string large = "examples/llama3.1-405b-on-16384xh100.yaml", small = "examples/llama3-8b-on-8xh100.yaml",
                    experts = "examples/mixtral-8x7b-on-32xa100.yaml";
  const auto plan = [](std::vector<std::string> of) {
    of.insert(of.begin(), "plan");
    of.insert(of.end(), {"--threads", "1", "--quiet"});
    return of;
  };
  return {{"llama3.1-405b-on-16384xh100", plan({large})},
          {"llama3.1-405b-on-256xh100 (cluster.nodes=32)", plan({large, "--set", "cluster.nodes=32"})},
          {"llama3-70b-on-64xh100", plan({"examples/llama3-70b-on-64xh100.yaml"})},
          {"deepseek-v3-on-2048xh100", plan({"examples/deepseek-v3-on-2048xh100.yaml"})},
          {"llama3-8b-on-8xh100, layerwise", plan({small, "--set", "engine=generic", "--set", "search.space=layerwise"})},
          {"llama3-8b-on-8xh100, full", plan({small, "--set", "engine=generic", "--set", "search.space=full"})},
          {"mixtral-8x7b-on-32xa100, layerwise", plan({experts, "--set", "search.space=layerwise"})},
          {"llama3.1-405b-on-256xh100, simulate", {"simulate", plan_file, "--quiet"}}};
}

inline double median(std::array<double, kTurns> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[kTurns / 2];
}

/// Prints one JSON object per job; returns false when a run failed.
inline bool compare(const std::string& before, const std::string& now, const Comparison& c) {
  const std::vector<std::string>& arguments = c.arguments;
  std::array<double, kTurns> seconds_before{}, seconds_now{};
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    seconds_before[turn] = user_seconds(before, arguments);
    seconds_now[turn] = user_seconds(now, arguments);
    if (seconds_before[turn] >= 0 && seconds_now[turn] >= 0) continue;
    std::fprintf(stderr, "%s: %s failed (run it in the repository root)\n", c.name.c_str(),
                 (seconds_before[turn] < 0 ? before : now).c_str());
    return false;
  }
  const double a = median(seconds_before);
  const double b = median(seconds_now);
  std::printf(
      "{\"bench\": \"search_against\", \"job\": \"%s\", \"before_user_s\": %.3f, \"now_user_s\": %.3f, \"ratio\": %.3f}\n",
      c.name.c_str(), a, b, b / a);
  std::fflush(stdout);
  return true;
}

/// Returns the path of the binary that belongs to this program's build.
inline std::string own_binary() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "build/espalier" : (self.parent_path().parent_path() / "espalier").string();
}

/// Handles `--against BEFORE [--now BINARY]`. Returns an exit code, or −1 without the option.
inline int compared(int argc, char** argv) {
  std::string before, now = own_binary();
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--against") before = argv[i + 1];
    if (flag == "--now") now = argv[i + 1];
  }
  if (before.empty()) return -1;
  std::error_code failed;
  const auto folder = std::filesystem::temp_directory_path(failed) / ("espalier-against-" + std::to_string(getpid()));
  const std::vector<std::string> plan{
      "plan", "examples/llama3.1-405b-on-16384xh100.yaml", "--set", "cluster.nodes=32", "--quiet", "--out", folder.string()};
  bool good = user_seconds(before, plan) >= 0;
  for (const Comparison& c : comparisons((folder / "plan.json").string())) good = compare(before, now, c) && good;
  std::filesystem::remove_all(folder, failed);
  return good ? 0 : 1;
}

}  // namespace espalier::bench
