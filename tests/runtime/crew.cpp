// SPDX-License-Identifier: Apache-2.0
#include "runtime/crew.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

namespace espalier::runtime::testing {
namespace {

namespace fs = std::filesystem;

template <class T>
void put(std::ostream& out, const T& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
bool get(std::istream& in, T& value) {
  return static_cast<bool>(in.read(reinterpret_cast<char*>(&value), sizeof value));
}

std::string file_of(const fs::path& folder, const std::string& name, int rank, const char* kind) {
  return (folder / (name + "." + std::to_string(rank) + "." + kind)).string();
}

void write_gradients(const std::string& path, const std::vector<GradientPart>& parts) {
  std::ofstream out(path, std::ios::binary);
  for (const GradientPart& part : parts) {
    std::size_t at = 0;
    for (const Interval& piece : part.elements)
      for (std::int64_t e = piece.first; e < piece.last; ++e) {
        put(out, part.layer);
        put(out, e);
        put(out, part.values[at++]);
      }
  }
}

void write_logits(std::ostream& out, const LogitsPart& part) {
  std::size_t at = 0;
  for (std::int64_t token = 0; token < part.tokens; ++token)
    for (std::int64_t sample = 0; sample < part.samples; ++sample)
      for (std::int64_t row = 0; row < part.rows; ++row) {
        put(out, std::array{part.first_sample + sample, part.first_token + token, part.first_row + row});
        put(out, part.values[at++]);
      }
}

/// Runs one plan as one rank and records errors.
bool run_one(const Assignment& work, Meeting& meeting, const fs::path& folder) {
  std::ofstream steps;
  if (meeting.rank() == 0) steps.open(file_of(folder, work.name, 0, "steps"), std::ios::binary);
  Watching watching;
  watching.step = [&](const StepReport& report) {
    if (steps.is_open()) put(steps, report);
  };
  watching.first_gradients = [&](const std::vector<GradientPart>& parts) {
    write_gradients(file_of(folder, work.name, meeting.rank(), "gradients"), parts);
  };
  std::ofstream logits;
  if (!work.options.weights.empty()) {  // models that others have run as well
    logits.open(file_of(folder, work.name, meeting.rank(), "logits"), std::ios::binary);
    watching.first_logits = [&](const LogitsPart& part) { write_logits(logits, part); };
  }
  watching.calls = [&](const std::map<std::string, Calls>& calls) {
    std::ofstream out(file_of(folder, work.name, meeting.rank(), "calls"));
    for (const auto& [purpose, of] : calls) out << purpose << " " << of.collectives << " " << of.messages << "\n";
  };
  const Status failed = train(work.plan, work.options, meeting, work.name, watching);
  if (!failed.ok())
    std::ofstream(file_of(folder, work.name, meeting.rank(), "error"))
        << "rank " << meeting.rank() << ": " << failed.error().message() << "\n";
  return failed.ok() || ranks_of(work.plan) <= 1;
}

[[noreturn]] void be_rank(int rank, int world, const std::vector<Assignment>& assignments, const fs::path& folder) {
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("MKL_NUM_THREADS", "1", 1);
  Rendezvous at;
  at.file = (folder / "store").string();
  at.rank = rank;
  at.world = world;
  at.timeout_seconds = 600;  // a rank that is in no plan for a while waits for the others at the next
  try {
    Meeting meeting(at);
    for (const Assignment& work : assignments)
      if (!run_one(work, meeting, folder)) break;
  } catch (const std::exception& error) {
    std::ofstream(file_of(folder, "crew", rank, "error")) << error.what() << "\n";
  }
  std::_Exit(0);
}

Outcome outcome_of(const Assignment& work, int world, const fs::path& folder) {
  Outcome out;
  std::ifstream steps(file_of(folder, work.name, 0, "steps"), std::ios::binary);
  StepReport report;
  while (get(steps, report)) out.steps.push_back(report);
  for (int rank = 0; rank < world; ++rank) {
    for (const std::string& name : {work.name, std::string("crew")}) {
      std::ifstream error(file_of(folder, name, rank, "error"));
      out.errors += std::string(std::istreambuf_iterator<char>(error), {});
    }
    std::ifstream calls(file_of(folder, work.name, rank, "calls"));
    std::string purpose;
    for (Calls of; calls >> purpose >> of.collectives >> of.messages;) {
      out.calls[purpose].collectives += of.collectives;
      out.calls[purpose].messages += of.messages;
    }
    std::ifstream in(file_of(folder, work.name, rank, "gradients"), std::ios::binary);
    std::int32_t layer = 0;
    std::int64_t element = 0;
    float value = 0;
    std::ifstream logits(file_of(folder, work.name, rank, "logits"), std::ios::binary);
    for (std::array<std::int64_t, 3> place{}; get(logits, place) && get(logits, value);) out.logits[place] = value;
    while (get(in, layer) && get(in, element) && get(in, value))
      if (!out.gradients[layer].emplace(element, value).second) ++out.twice;
  }
  return out;
}

/// Waits until all have ended and returns the fault. If a rank is killed by a signal, the others, which would wait
/// for it, are also killed.
std::string wait_for(const std::vector<pid_t>& crew, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::set<pid_t> running(crew.begin(), crew.end());
  std::string fault;
  while (!running.empty() && fault.empty()) {
    for (std::size_t rank = 0; rank < crew.size(); ++rank) {
      int status = 0;
      if (running.count(crew[rank]) == 0 || waitpid(crew[rank], &status, WNOHANG) != crew[rank]) continue;
      running.erase(crew[rank]);
      if (WIFSIGNALED(status))
        fault = "rank " + std::to_string(rank) + " was killed by signal " + std::to_string(WTERMSIG(status)) + "\n";
    }
    if (std::chrono::steady_clock::now() > end) fault = "ranks did not end in time\n";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const pid_t pid : running) kill(pid, SIGKILL);
  for (const pid_t pid : running) waitpid(pid, nullptr, 0);
  return fault;
}

}  // namespace

std::map<std::string, Outcome> run_all(const std::vector<Assignment>& assignments, double seconds) {
  std::string pattern = (fs::temp_directory_path() / "espalier-crew-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  std::vector<pid_t> crew;
  int world = 1;
  for (const Assignment& work : assignments) world = std::max(world, ranks_of(work.plan));
  for (int rank = 0; rank < world; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) be_rank(rank, world, assignments, folder);
    crew.push_back(pid);
  }
  const std::string fault = wait_for(crew, seconds);
  std::map<std::string, Outcome> out;
  for (const Assignment& work : assignments) {
    out[work.name] = outcome_of(work, world, folder);
    out[work.name].errors += fault;
  }
  fs::remove_all(folder);
  return out;
}

}  // namespace espalier::runtime::testing
