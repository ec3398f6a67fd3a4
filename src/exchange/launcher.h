// SPDX-License-Identifier: Apache-2.0
// A plan as what launches it: a script or document that a person can read and change. Every flag stands on a line of its own, with the reason where
// it is not plain; what the plan does not decide (data, tokenizer, learning rate, where checkpoints go) is left to "$@".
//
//   torchrun   launch.sh      run on every node, with NODE_RANK and MASTER_ADDR
//   sbatch     launch.sbatch  one task a node, which starts the ranks of that node; rank order is that of `scontrol show hostnames`
//   mpirun     launch.sh      one process a rank (Open MPI), filling the hosts of `hostfile` one after the other
//   kubeflow   trainjob.yaml  a TrainJob of Kubeflow Trainer (trainer.kubeflow.org/v1alpha1), whose runtime sets PET_*
// Beside each: ranks.tsv, which rank runs on which device of which node, and what it is there.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "espalier/exchange.h"

namespace espalier::exchange {

struct LaunchFlag {
  std::string name, value;  ///< value empty: a switch
  std::string reason;       ///< a comment; empty: none
};

struct EnvironmentVariable {
  std::string name, value, reason;
};

/// Who makes the processes of a node out of one command.
enum class Starter : std::uint8_t {
  torchrun,    ///< a Python program of PyTorch's
  accelerate,  ///< `accelerate launch`, one a node
  self,        ///< a program of its own that reads RANK, or what srun and mpirun set, and is started once a rank
};

/// What every process runs, whoever starts it.
struct Start {
  std::string engine;    ///< with the version that the flags are of
  Starter starter = Starter::torchrun;
  std::string program;   ///< as the shell reads it: "pretrain_gpt.py", "-m torchtitan.train", "\"${TRAIN:?…}\""
  std::string in_image;  ///< the same where no shell reads it: "train.py"
  std::vector<EnvironmentVariable> environment;
  std::vector<std::pair<std::string, std::vector<LaunchFlag>>> groups;  ///< under headings, in order
  std::vector<std::string> notes;                                       ///< comments of the head: files that have to be there, and such
};

/// The script or document first, then ranks.tsv and what else the launcher reads. `usual` is torchrun.
std::vector<ExportedFile> launch_files(const Start& start, const ExportRequest& request);

/// What the launcher cannot say: nodes of several sizes, devices of the cluster that the plan leaves out.
std::vector<ExportFault> launch_faults(const Job& job, const Plan& plan);

/// The first lines of every file, without the comment sign: label, model, engine, tool version, plan hash, command line.
std::vector<std::string> head_lines(const ExportRequest& request, const std::string& engine);
/// The same with "# " before each.
std::string commented(const std::vector<std::string>& lines);

/// Bits of the shell that are quoted: everything but plain words.
std::string quoted(const std::string& word);

}  // namespace espalier::exchange
