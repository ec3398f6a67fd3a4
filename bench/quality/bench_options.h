// SPDX-License-Identifier: Apache-2.0
// Provides arguments of a bench ("--seed 7"), clocks, and output files.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::bench {

/// Parses named values; an unknown argument ends the program with exit code 2.
class Arguments {
 public:
  Arguments(int argc, char** argv, std::map<std::string, std::string> known) : values_(std::move(known)) {
    values_.emplace("--brief", "no");
    for (int i = 1; i < argc; ++i) {
      const std::string name = argv[i];
      if (name.rfind("--", 0) != 0) {
        names_problems_ = true;
        continue;
      }
      const auto at = values_.find(name);
      if (at == values_.end()) refuse(name);
      const bool flag = at->second == "no" || at->second == "yes";
      if (flag) at->second = "yes";
      if (!flag && i + 1 == argc) refuse(name);
      if (!flag) at->second = argv[++i];
    }
  }
  [[nodiscard]] const std::string& text(const std::string& name) const { return values_.at(name); }
  [[nodiscard]] std::int64_t whole(const std::string& name) const { return std::strtoll(text(name).c_str(), nullptr, 10); }
  [[nodiscard]] double real(const std::string& name) const { return std::strtod(text(name).c_str(), nullptr); }
  /// Returns a count, or a tenth of it with --brief.
  [[nodiscard]] std::int64_t count(const std::string& name) const {
    return flag("--brief") ? std::max<std::int64_t>(1, whole(name) / 10) : whole(name);
  }
  /// Returns true if words without dashes choose problems of other benches (./dev bench quality WORD); then this
  /// bench has nothing to run.
  [[nodiscard]] bool names_problems() const { return names_problems_; }
  [[nodiscard]] bool flag(const std::string& name) const { return text(name) == "yes"; }

 private:
  [[noreturn]] void refuse(const std::string& name) const {
    std::fprintf(stderr, "%s: unknown, or its value is missing; known with their defaults:", name.c_str());
    for (const auto& [known, value] : values_) std::fprintf(stderr, " %s %s", known.c_str(), value.c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  std::map<std::string, std::string> values_;
  bool names_problems_ = false;
};

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

/// Writes a file; does nothing if no folder was given.
inline void write_file(const std::string& folder, const std::string& name, const std::string& text) {
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  std::ofstream(std::filesystem::path(folder) / name) << text;
}

/// Prints the lines of jobs in the order of the jobs, although they end in any order.
class OrderedLines {
 public:
  explicit OrderedLines(std::size_t count) : lines_(count) {}
  void put(std::size_t index, std::string line) {
    const std::lock_guard lock(mutex_);
    lines_[index] = std::move(line);
    while (next_ < lines_.size() && !lines_[next_].empty()) {
      if (lines_[next_] != "\n") std::fputs(lines_[next_].c_str(), stdout);
      ++next_;
    }
    std::fflush(stdout);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::size_t next_ = 0;
};

}  // namespace espalier::bench
