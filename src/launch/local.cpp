// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/format.h"
#include "launch/launch.h"

namespace espalier::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(2);
constexpr auto kLookRound = std::chrono::milliseconds(200);
constexpr std::size_t kKeptBytes = 8192;  ///< bytes kept of a rank's stderr

/// Holds a rank's process. Its pipes carry its stderr, and for rank 0 its lines.
struct Process {
  pid_t pid = -1;
  int said = -1, lines = -1;
  std::string text, partial;
  bool ended = false;
  int status = 0;
  [[nodiscard]] bool failed() const { return ended && status != 0; }
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// Runs in the child, with only the calls that are allowed between fork and exec.
[[noreturn]] void exec_rank(char* const* words, int said, int lines) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a run whose starter is killed leaves no rank behind
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(said, STDERR_FILENO);
  if (lines >= 0 && lines != 3) dup2(lines, 3);
  if (lines == 3) fcntl(3, F_SETFD, 0);
  execv(words[0], words);
  _exit(127);
}

Result<Process> started(const LocalRun& run, std::size_t rank) {
  Process process;
  int said[2] = {-1, -1}, lines[2] = {-1, -1};
  if (pipe2(said, O_CLOEXEC) != 0 || (rank == 0 && pipe2(lines, O_CLOEXEC) != 0))
    return Error{ErrorKind::internal, "run", std::strerror(errno), "a pipe", ""};
  std::vector<std::string> words = run.arguments[rank];
  words.insert(words.begin(), run.program);
  const std::vector<char*> argv = pointers(words);
  process.pid = fork();
  if (process.pid == 0) exec_rank(argv.data(), said[1], lines[1]);
  close(said[1]);
  if (lines[1] >= 0) close(lines[1]);
  process.said = said[0];
  process.lines = lines[0];
  if (process.pid < 0) return Error{ErrorKind::limit, "run", std::strerror(errno), "a process for every rank", ""};
  return process;
}

class Crew {
 public:
  explicit Crew(const LocalRun& run) : run_(run) {}
  ~Crew() {
    for (Process& p : processes_) {
      if (!p.ended) {
        kill(p.pid, SIGKILL);
        waitpid(p.pid, nullptr, 0);
      }
      close(p.said);
      if (p.lines >= 0) close(p.lines);
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  Status run();

 private:
  void listen();
  void look();
  void signal_all(int number) {
    for (const Process& p : processes_)
      if (!p.ended) kill(p.pid, number);
  }
  [[nodiscard]] bool all_ended() const {
    return std::all_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.ended; });
  }
  [[nodiscard]] bool any_failed() const {
    return std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.failed(); });
  }
  void stop();
  [[nodiscard]] Error first_error() const;

  const LocalRun& run_;
  std::vector<Process> processes_;
};

/// Reads available output, and waits for a moment where there is none.
void Crew::listen() {
  std::vector<pollfd> polled;
  for (const Process& p : processes_) {
    polled.push_back({p.said, POLLIN, 0});
    polled.push_back({p.lines, POLLIN, 0});  // −1 is skipped
  }
  if (poll(polled.data(), polled.size(), 20) <= 0) return;
  char buffer[4096];
  for (std::size_t k = 0; k < polled.size(); ++k) {
    if ((polled[k].revents & POLLIN) == 0) continue;
    const ssize_t got = read(polled[k].fd, buffer, sizeof buffer);
    if (got <= 0) continue;
    Process& p = processes_[k / 2];
    (k % 2 == 0 ? p.text : p.partial).append(buffer, static_cast<std::size_t>(got));
    if (p.text.size() > kKeptBytes) p.text.erase(0, p.text.size() - kKeptBytes);
    for (std::size_t end = p.partial.find('\n'); end != std::string::npos; end = p.partial.find('\n')) {
      if (run_.line) run_.line(p.partial.substr(0, end));
      p.partial.erase(0, end + 1);
    }
  }
}

void Crew::look() {
  for (Process& p : processes_)
    if (!p.ended && waitpid(p.pid, &p.status, WNOHANG) == p.pid) p.ended = true;
}

void Crew::stop() {
  signal_all(SIGTERM);
  const auto end = Clock::now() + kGrace;
  while (!all_ended() && Clock::now() < end) {
    listen();
    look();
  }
  signal_all(SIGKILL);
}

/// Returns the error of a rank killed from outside first, then of one with its own cause, then of those that lost a
/// peer (exit code 6).
Error Crew::first_error() const {
  const auto weight = [](const Process& p) {
    return !p.failed() ? 3 : WIFSIGNALED(p.status) ? 0 : WEXITSTATUS(p.status) == 6 ? 2 : 1;
  };
  const auto first = std::min_element(processes_.begin(), processes_.end(),
                                      [&](const Process& a, const Process& b) { return weight(a) < weight(b); });
  const std::string who = cat("rank ", first - processes_.begin());
  if (WIFSIGNALED(first->status))
    return {ErrorKind::limit, who, cat("ended by signal ", WTERMSIG(first->status)), "all ranks to run to the end", ""};
  const int code = WEXITSTATUS(first->status);
  constexpr ErrorKind kKinds[] = {ErrorKind::internal,   ErrorKind::usage,        ErrorKind::bad_input,
                                  ErrorKind::infeasible, ErrorKind::check_failed, ErrorKind::limit};
  std::string said = first->text;
  const std::size_t own = said.rfind("espalier: ");  // libraries print before it
  if (own != std::string::npos) said = said.substr(own + 10);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (said.empty()) said = cat("ended with code ", code);
  return {code >= 1 && code <= 6 ? kKinds[code - 1] : ErrorKind::internal, own == std::string::npos ? who : "run", said, "", ""};
}

Status Crew::run() {
  for (std::size_t rank = 0; rank < run_.arguments.size(); ++rank) {
    auto process = started(run_, rank);
    if (!process) return process.error();
    processes_.push_back(std::move(*process));
  }
  while (!all_ended()) {
    listen();
    look();
    if (run_.interrupted && run_.interrupted()) {
      stop();
      return Error{ErrorKind::limit, "run", "an interrupt", "all steps", ""};
    }
    if (!any_failed()) continue;
    for (const auto end = Clock::now() + kLookRound; Clock::now() < end && !all_ended(); look()) listen();
    const std::vector<Process> before = processes_;  // ranks ended from here on were ended by us
    stop();
    for (std::size_t k = 0; k < processes_.size(); ++k)
      if (!before[k].ended) processes_[k].status = 0;
    return first_error();
  }
  listen();
  return any_failed() ? Status(first_error()) : Status();
}

}  // namespace

Status run_local(const LocalRun& run) { return Crew(run).run(); }

Error become(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), program);
  execv(program.c_str(), pointers(words).data());
  return {ErrorKind::usage, program, std::strerror(errno), "the program of the ranks", "./dev runtime builds it"};
}

}  // namespace espalier::launch
