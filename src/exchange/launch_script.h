// SPDX-License-Identifier: Apache-2.0
// Writes a plan as the command that launches it: a shell script that a person can read and change. Every flag is on
// its own line, with a reason where it is not obvious. Settings outside the plan (data, tokenizer, learning rate, the
// checkpoint folder) are left to "$@".
//
//   torchrun   run on every node, with NODE_RANK and MASTER_ADDR
//   sbatch     one task per node, which starts the ranks of that node; nodes in the order of `scontrol show hostnames`
//   mpirun     Open MPI, one process per rank, filling the hosts of ./hostfile one after the other
//   kubeflow   YAML: a TrainJob of Kubeflow Trainer (trainer.kubeflow.org/v1alpha1), whose runtime sets PET_* for
//              torchrun
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "espalier/exchange.h"

namespace espalier::exchange {

struct LaunchFlag {
  std::string name, value;  ///< value empty: a switch
  std::string reason;       ///< a comment; empty: none
  bool list = false;        ///< each word of the value is a separate argument
};

struct LaunchScript {
  std::string engine;  ///< with the version that the flags belong to
  /// The program is "pretrain_gpt.py" or "-m torchtitan.train", as torchrun or python runs it and the shell reads it.
  std::string program;
  std::string in_image;                                                 ///< this program without a shell; empty: program
  std::string last;                                                     ///< a word after the arguments of the user; empty: none
  std::vector<std::pair<std::string, std::string>> environment;         ///< variable and value
  std::vector<std::string> environment_reasons;                         ///< one per variable
  std::vector<std::pair<std::string, std::vector<LaunchFlag>>> groups;  ///< under headings, in order
};

/// Describes a framework that reads a file: the command that starts it on a node, with the file made there. The
/// user's script and its arguments follow.
struct LaunchFile {
  std::string engine;
  std::string name;     ///< file name, "accelerate.yaml"
  std::string text;     ///< its bytes
  std::string starter;  ///< as the shell reads it, with placeholders RANK, ADDRESS and FILE
  std::string last;     ///< words after the arguments of the user, with FILE as above; empty: none
};

/// Counts the devices of a node of the job.
std::int64_t devices_a_node(const Job& job);

/// Writes the script or document for a framework that reads a file. Requires a launcher.
std::string to_text(const LaunchFile& file, const ExportRequest& request);
/// Returns a starter: "torchrun --nnodes 2 --nproc-per-node 8 --node-rank RANK --master-addr ADDRESS …".
std::string torchrun_starter(const Job& job);

/// Writes the script or document for the nodes of the job, which have one size. The default launcher is torchrun.
std::string to_text(const LaunchScript& script, const ExportRequest& request);
/// Returns every launcher, the usual one first.
std::vector<Launcher> all_launchers();

/// Returns a word quoted for the shell, unless it is plain.
std::string quoted(const std::string& word);

}  // namespace espalier::exchange
