// SPDX-License-Identifier: Apache-2.0
// espalier-rank: one rank of a run. `espalier run` starts it, or a launcher of a cluster starts `espalier run`, which becomes it. Its arguments
// are no interface for people. It writes a line a step to file descriptor 3, where that is open, otherwise to stdout (rank 0), and says why it ended on stderr.
//
//   espalier-rank PLAN.json RANK WORLD RENDEZVOUS STEPS SEED RATE CLIP TIMEOUT [DATA]      RENDEZVOUS: file:PATH or tcp:HOST:PORT
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/format.h"
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

/// Descriptor 3 where a starter listens there, otherwise stdout.
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

Rendezvous rendezvous_of(const std::vector<std::string>& words) {
  Rendezvous at;
  at.rank = std::stoi(words[1]);
  at.world = std::stoi(words[2]);
  at.timeout_seconds = std::stod(words[8]);
  const std::string& where = words[3];
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
  if (words.size() > 9) options.data = words[9];
  espalier::runtime::Watching watching;
  if (words[1] == "0")
    watching.step = [to = lines_to()](const StepReport& r) {
      char line[160];
      const int length = std::snprintf(
          line, sizeof line, to == 3 ? "step %lld %.9g %.9g %.9f\n" : "step %lld   loss %.6f   gradient %.4f   %.3f s\n",
          static_cast<long long>(r.step), r.loss, r.gradient, r.seconds);
      say(to, std::string(line, static_cast<std::size_t>(length)));
    };
  try {
    espalier::runtime::Meeting meeting(rendezvous_of(words));
    return espalier::runtime::train(*plan, options, meeting, "run", watching);
  } catch (const std::exception& error) {
    return Error{ErrorKind::limit, cat("rank ", words[1]), error.what(), "all ranks to meet", ""};
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 9) {
    say(2, "espalier-rank: started by `espalier run`\n");
    return 2;
  }
  int code = 0;
  if (const Status error = run(words)) {
    say(2, cat("espalier: rank ", words[1], ": ", error->message(), "\n"));
    code = exit_code(error->kind);
  }
  std::_Exit(code);  // threads of lost peers are not waited for
}
