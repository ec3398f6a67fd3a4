// SPDX-License-Identifier: Apache-2.0
// Implements espalier-rank, one rank of a run. `espalier run` starts it; under a cluster's launcher, `espalier run`
// becomes it by exec. Its arguments are not a public interface. RENDEZVOUS is file:PATH or tcp:HOST:PORT. Keys are
// data, weights, save, checkpoint, every, keep, resume, pace, record, timeline, steering and direct. The rank writes
// a line per step to file descriptor 3 where that is open, otherwise to stdout (rank 0). Errors go to stderr.
//
//   espalier-rank PLAN.json RANK WORLD RENDEZVOUS STEPS SEED RATE CLIP TIMEOUT [KEY=VALUE …]
//   espalier-rank probe OUT.txt RANK WORLD RENDEZVOUS TIMEOUT RANKS_OF_A_NODE
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/format.h"
#include "runtime/network_probe.h"
#include "runtime/trainer.h"

namespace {

using espalier::Error;
using espalier::ErrorKind;
using espalier::Plan;
using espalier::Result;
using espalier::Status;
using espalier::base::cat;
using espalier::runtime::Rendezvous;
using espalier::runtime::StepReport;
using espalier::runtime::TrainOptions;

/// Returns descriptor 3 where a starter listens there, otherwise stdout.
int lines_to() { return fcntl(3, F_GETFD) >= 0 ? 3 : 1; }

void say(int descriptor, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t wrote = write(descriptor, text.data() + at, text.size() - at);
    if (wrote <= 0) return;
    at += static_cast<std::size_t>(wrote);
  }
}

int exit_code(ErrorKind kind) { return 1 + static_cast<int>(kind); }

Rendezvous rendezvous_of(const std::string& rank, const std::string& world, const std::string& where,
                         const std::string& timeout) {
  Rendezvous at;
  at.rank = std::stoi(rank);
  at.world = std::stoi(world);
  at.timeout_seconds = std::stod(timeout);
  if (where.rfind("file:", 0) == 0) {
    at.file = where.substr(5);
    return at;
  }
  const std::size_t colon = where.rfind(':');
  at.address = where.substr(4, colon - 4);
  at.port = std::stoi(where.substr(colon + 1));
  at.local = at.address == "127.0.0.1" || at.address == "localhost";
  return at;
}

/// Reads the optional KEY=VALUE arguments.
void read_more(const std::vector<std::string>& words, TrainOptions& options) {
  for (std::size_t k = 9; k < words.size(); ++k) {
    const std::size_t equals = words[k].find('=');
    const std::string key = words[k].substr(0, equals), value = equals == std::string::npos ? "" : words[k].substr(equals + 1);
    if (key == "data") options.data = value;
    if (key == "weights") options.weights = value;
    if (key == "save") options.save = value;
    if (key == "checkpoint") options.checkpoint.folder = value;
    if (key == "every") options.checkpoint.every = std::stoll(value);
    if (key == "keep") options.checkpoint.keep = std::stoll(value);
    if (key == "pace") options.pace = value;
    if (key == "record") options.record = value;
    if (key == "timeline") options.timeline = value;
    if (key == "steering") options.steering = value;
    if (key == "direct") options.direct_bytes = std::stoll(value);
    if (key == "resume") options.checkpoint.resume = value == "1";
  }
}

Status run(const std::vector<std::string>& words) {
  const auto text = espalier::base::read_file(words[0]);
  if (!text) return text.error();
  const auto plan = espalier::plan_from_json(*text, words[0]);
  if (!plan) return plan.error();
  TrainOptions options;
  options.steps = std::stoll(words[4]);
  options.seed = std::stoull(words[5]);
  options.rate = std::stod(words[6]);
  options.clip = std::stod(words[7]);
  read_more(words, options);
  if (!options.record.empty()) options.memory = &espalier::runtime::count_tensors();
  espalier::runtime::Watching watching;
  if (words[1] == "0") {
    watching.note = [to = lines_to()](const std::string& said) { say(to, cat(to == 3 ? "note " : "", said, "\n")); };
    watching.seen = [to = lines_to()](const std::string& said) { say(to, cat(said, "\n")); };
    watching.step = [to = lines_to()](const StepReport& r) {
      char line[160];
      const int length = std::snprintf(
          line, sizeof line, to == 3 ? "step %lld %.9g %.9g %.9f\n" : "step %lld   loss %.6f   gradient %.4f   %.6f s\n",
          static_cast<long long>(r.step), r.loss, r.gradient, r.seconds);
      say(to, std::string(line, static_cast<std::size_t>(length)));
    };
  }
  try {
    espalier::runtime::Meeting meeting(rendezvous_of(words[1], words[2], words[3], words[8]));
    if (options.direct_bytes > 0) meeting.set_direct_bytes(options.direct_bytes);
    return espalier::runtime::train(*plan, options, meeting, "run", watching);
  } catch (const std::exception& error) {
    return Error{ErrorKind::limit, cat("rank ", words[1]), espalier::runtime::cause_of(error), "all ranks to meet", ""};
  }
}

Status probe(const std::vector<std::string>& words) {
  try {
    espalier::runtime::Meeting meeting(rendezvous_of(words[2], words[3], words[4], words[5]));
    return espalier::runtime::probe_network({words[1], std::stoi(words[6])}, meeting);
  } catch (const std::exception& error) {
    return Error{ErrorKind::limit, cat("rank ", words[2]), error.what(), "all ranks to meet", ""};
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Freed tensor memory stays in the process for reuse. Returned to the kernel, every large block would be cleared
  // again page by page.
  constexpr int kLargest = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, kLargest);
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit becomes a write error
  // A lost peer becomes an error as well. The rank then reports which one, instead of being killed by the signal.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool probes = words.size() == 7 && words[0] == "probe";
  if (!probes && words.size() < 9) {
    say(2, "espalier-rank: started by `espalier run`\n");
    return 2;
  }
  int code = 0;
  if (Status status = probes ? probe(words) : run(words); !status.ok()) {
    say(2, cat("espalier: rank ", words[probes ? 2 : 1], ": ", status.error().message(), "\n"));
    code = exit_code(status.error().kind);
  }
  std::_Exit(code);  // does not wait for threads of lost peers
}
