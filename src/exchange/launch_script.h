// SPDX-License-Identifier: Apache-2.0
// A plan as the command that launches it: a shell script that a person can read and change. Every flag stands on a line of its own, with the
// reason where it is not plain; what the plan does not decide (data, tokenizer, learning rate, where checkpoints go) is left to "$@".
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"

namespace espalier::exchange {

struct LaunchFlag {
  std::string name, value;  ///< value empty: a switch
  std::string reason;       ///< a comment; empty: none
};

struct LaunchScript {
  std::string engine;                                            ///< with the version that the flags are of
  std::string program;                                           ///< what torchrun runs: "pretrain_gpt.py", "-m torchtitan.train"
  std::vector<std::pair<std::string, std::string>> environment;  ///< variable and value
  std::vector<std::string> environment_reasons;                  ///< of each
  std::vector<std::pair<std::string, std::vector<LaunchFlag>>> groups;  ///< under headings, in order
};

/// The script for the nodes of the job; `plan` for its first lines.
std::string to_text(const LaunchScript& script, const Job& job, const Plan& plan);

/// Bits of the shell that are quoted: everything but plain words.
std::string quoted(const std::string& word);

}  // namespace espalier::exchange
