// SPDX-License-Identifier: Apache-2.0
// A plan as the command that launches it: a shell script that a person can read and change. Every flag stands on a line
// of its own, with the reason where it is not plain; what the plan does not decide (data, tokenizer, learning rate,
// where checkpoints go) is left to "$@".
//
//   torchrun   run on every node, with NODE_RANK and MASTER_ADDR
//   sbatch     one task a node, which starts the ranks of that node; nodes in the order of `scontrol show hostnames`
//   mpirun     Open MPI, one process a rank, filling the hosts of ./hostfile one after the other
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
  bool list = false;        ///< each word of the value is an argument of its own
};

struct LaunchScript {
  std::string engine;    ///< with the version that the flags are of
  std::string program;   ///< what torchrun or python runs, as the shell reads it: "pretrain_gpt.py", "-m
                         ///< torchtitan.train"
  std::string in_image;  ///< the same where no shell reads it; empty: program
  std::string last;      ///< a word behind the arguments of the user; empty: none
  std::vector<std::pair<std::string, std::string>> environment;         ///< variable and value
  std::vector<std::string> environment_reasons;                         ///< of each
  std::vector<std::pair<std::string, std::vector<LaunchFlag>>> groups;  ///< under headings, in order
};

/// A framework that reads a file: what starts it on a node, with the file made there. The user's script and its
/// arguments follow.
struct LaunchFile {
  std::string engine;
  std::string name;     ///< of the file, "accelerate.yaml"
  std::string text;     ///< its bytes
  std::string starter;  ///< as the shell reads it, with RANK, ADDRESS and FILE in their places
  std::string last;     ///< words behind the arguments of the user, FILE as above; empty: none
};

/// Counts the devices of a node of the job.
std::int64_t devices_a_node(const Job& job);

/// The same script or document of a file. Requires a launcher.
std::string to_text(const LaunchFile& file, const ExportRequest& request);
/// "torchrun --nnodes 2 --nproc-per-node 8 --node-rank RANK --master-addr ADDRESS …": a starter.
std::string torchrun_starter(const Job& job);

/// The script or document for the nodes of the job, which are of one size; torchrun where no launcher is asked for.
std::string to_text(const LaunchScript& script, const ExportRequest& request);
/// Every launcher, the usual one first.
std::vector<Launcher> all_launchers();

/// Bits of the shell that are quoted: everything but plain words.
std::string quoted(const std::string& word);

}  // namespace espalier::exchange
