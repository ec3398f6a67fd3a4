// SPDX-License-Identifier: Apache-2.0
#include "exchange/launcher.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"
#include "base/document.h"
#include "base/format.h"
#include "espalier/planner.h"
#include "exchange/cannot_say.h"
#include "exchange/rank_map.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr std::size_t kComment = 68;  // column where reasons begin
constexpr const char* kPort = "29500";

std::string with_reason(std::string line, const std::string& reason) {
  if (reason.empty()) return line + "\n";
  line.resize(std::max(line.size() + 2, kComment), ' ');
  return cat(line, "# ", reason, "\n");
}

std::string line_of(const LaunchFlag& flag) {
  return with_reason(cat("  ", flag.name, flag.value.empty() ? "" : " ", flag.value.empty() ? "" : quoted(flag.value)), flag.reason);
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::isalnum(c) != 0 ? static_cast<char>(std::toupper(c)) : '_'; });
  return text;
}

/// Nodes and devices of each, which launch_faults has found to be alike.
struct Nodes {
  std::int64_t count, devices;
};
Nodes nodes_of(const Job& job) {
  const std::int64_t each = job.cluster.groups.front().devices_per_node;
  ESPALIER_CHECK(job.cluster.devices() % each == 0);
  return {job.cluster.devices() / each, each};
}

// ---- parts of shell scripts ----------------------------------------------------------------------------------------------------

std::string exports_of(const Start& start) {
  std::string out;
  for (const EnvironmentVariable& v : start.environment) out += with_reason(cat("export ", v.name, "=", quoted(v.value)), v.reason);
  return out.empty() ? "" : out + "\n";
}

/// The arrays of flags, and how they are passed on.
std::pair<std::string, std::string> arrays_of(const Start& start) {
  std::string arrays, passed;
  for (const auto& [heading, flags] : start.groups) {
    if (flags.empty()) continue;
    const std::string name = upper(heading);
    arrays += cat(name, "=(\n");
    for (const LaunchFlag& flag : flags) arrays += line_of(flag);
    arrays += ")\n";
    passed += cat(" \"${", name, "[@]}\"");
  }
  return {arrays.empty() ? "" : arrays + "\n", passed};
}

std::string head_of(const Start& start, const ExportRequest& request, const std::string& how) {
  std::vector<std::string> lines = head_lines(request, start.engine);
  lines.push_back(how);
  lines.insert(lines.end(), start.notes.begin(), start.notes.end());
  lines.emplace_back("What the plan does not decide follows as arguments. ranks.tsv: which rank runs where.");
  return commented(lines);
}

/// One command for a node, with the number of the node, the address of the first and the port as the shell finds them.
std::string node_command(const Start& start, const Nodes& nodes, const std::string& rank, const std::string& address) {
  const std::string port = cat("\"${MASTER_PORT:-", kPort, "}\"");
  switch (start.starter) {
    case Starter::accelerate:
      return cat("accelerate launch --config_file accelerate.yaml --machine_rank ", rank, " --main_process_ip ", address,
                 " --main_process_port ", port);
    case Starter::torchrun:
    case Starter::self: break;
  }
  return cat("torchrun ", start.starter == Starter::self ? "--no-python " : "", "--nnodes ", nodes.count, " --nproc-per-node ",
             nodes.devices, " --node-rank ", rank, " --master-addr ", address, " --master-port ", port);
}

std::string torchrun_script(const Start& start, const ExportRequest& request) {
  const Nodes nodes = nodes_of(request.job);
  const auto [arrays, passed] = arrays_of(start);
  return cat("#!/usr/bin/env bash\n",
             head_of(start, request, "Start it on every node with NODE_RANK and MASTER_ADDR set: bash launch.sh ARGUMENTS"),
             "set -euo pipefail\n\n", exports_of(start), arrays, "exec ",
             node_command(start, nodes, "\"${NODE_RANK:-0}\"", "\"${MASTER_ADDR:-127.0.0.1}\""), " \\\n  ", start.program, passed,
             " \"$@\"\n");
}

std::string job_name(const ExportRequest& request) {
  std::string out = request.plan.model_name;
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' ? static_cast<char>(std::tolower(c)) : '-';
  });
  return out.empty() ? "espalier" : out;
}

std::string sbatch_script(const Start& start, const ExportRequest& request) {
  const Nodes nodes = nodes_of(request.job);
  const auto [arrays, passed] = arrays_of(start);
  const std::string block =
      cat("#SBATCH --job-name=", job_name(request), "\n#SBATCH --nodes=", nodes.count, "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=",
          nodes.devices, "\n#SBATCH --exclusive\n#SBATCH --output=%x-%j.out\n",
          "##SBATCH --partition=NAME --account=NAME --time=HH:MM:SS --cpus-per-task=N   # yours\n");
  return cat("#!/usr/bin/env bash\n", block, head_of(start, request, "sbatch launch.sbatch ARGUMENTS"), "set -euo pipefail\n\n",
             exports_of(start), arrays,
             "# Node k of scontrol's list holds ranks k · ", nodes.devices, " … k · ", nodes.devices, " + ", nodes.devices - 1,
             "; SLURM_NODEID counts in that order.\n",
             "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\nexport MASTER_ADDR\nexport MASTER_PORT=${MASTER_PORT:-",
             kPort, "}\n\n",
             "# The inner shell runs on every node: what it expands stands in single quotes, what was planned comes as its arguments.\n",
             "srun --wait=60 --kill-on-bad-exit=1 bash -c 'exec ", node_command(start, nodes, "\"$SLURM_NODEID\"", "\"$MASTER_ADDR\""),
             " \"$@\"' bash \\\n  ", start.program, passed, " \"$@\"\n");
}

/// What a rank of Open MPI is, in the words of PyTorch.
constexpr const char* kRankOfMpi =
    "export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK "
    "LOCAL_WORLD_SIZE=$OMPI_COMM_WORLD_LOCAL_SIZE; ";

std::string inner_of_mpi(const Start& start, const Nodes& nodes) {
  switch (start.starter) {
    case Starter::torchrun: return cat("'", kRankOfMpi, "exec python \"$@\"'");
    case Starter::self: return cat("'", kRankOfMpi, "exec \"$@\"'");
    case Starter::accelerate: break;
  }
  return cat("'exec ", node_command(start, nodes, "\"$OMPI_COMM_WORLD_RANK\"", "\"$MASTER_ADDR\""), " \"$@\"'");
}

std::string mpirun_script(const Start& start, const ExportRequest& request) {
  const Nodes nodes = nodes_of(request.job);
  const auto [arrays, passed] = arrays_of(start);
  const std::int64_t each = start.starter == Starter::accelerate ? 1 : nodes.devices;  // accelerate starts the ranks of its node
  std::string carried = "-x MASTER_ADDR -x MASTER_PORT";
  for (const EnvironmentVariable& v : start.environment) carried += cat(" -x ", v.name);
  return cat("#!/usr/bin/env bash\n",
             head_of(start, request, "bash launch.sh ARGUMENTS, where mpirun reaches the hosts of ./hostfile (Open MPI)"),
             "set -euo pipefail\n\n", exports_of(start), arrays,
             "MASTER_ADDR=${MASTER_ADDR:-$(awk 'NF && $1 !~ /^#/ {print $1; exit}' hostfile)}\nexport MASTER_ADDR\nexport "
             "MASTER_PORT=${MASTER_PORT:-",
             kPort, "}\n\n", "# Ranks fill the hosts one after the other; torch binds threads itself.\nexec mpirun -np ",
             nodes.count * each, " -N ", each, " --hostfile hostfile --bind-to none ", carried, " \\\n  bash -c ",
             inner_of_mpi(start, nodes), " bash \\\n  ", start.program, passed, " \"$@\"\n");
}

std::string hostfile_of(const ExportRequest& request) {
  const Nodes nodes = nodes_of(request.job);
  std::string out = "# One line a node, in the order of ranks.tsv: put the names of your hosts in the place of node-0 …\n";
  for (std::int64_t k = 0; k < nodes.count; ++k) out += cat("node-", k, " slots=", nodes.devices, "\n");
  return out;
}

// ---- Kubeflow ------------------------------------------------------------------------------------------------------------------

std::string yaml_text(const std::string& word) {
  base::JsonWriter w;  // a JSON text is a YAML text
  w.value(word);
  return w.text();
}

std::vector<std::string> words_in_image(const Start& start) {
  std::vector<std::string> out;
  if (start.starter == Starter::accelerate)
    out = {"accelerate", "launch", "--config_file", "accelerate.yaml"};
  else if (start.starter == Starter::self)
    out = {"torchrun", "--no-python"};
  else
    out = {"torchrun"};
  std::string word;
  for (const char c : start.in_image + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(word);
      word.clear();
    }
  }
  return out;
}

std::string trainjob(const Start& start, const ExportRequest& request) {
  const Nodes nodes = nodes_of(request.job);
  std::string out = head_of(start, request, "kubectl apply -f trainjob.yaml; the runtime sets PET_NNODES, PET_NODE_RANK and the rest, which torchrun reads");
  out += cat("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: ", job_name(request),
             "\nspec:\n  runtimeRef:\n    apiGroup: trainer.kubeflow.org\n    kind: ClusterTrainingRuntime\n    name: torch-distributed\n"
             "  trainer:\n    image: IMAGE  # yours: with the framework, and with the files that are written beside this one\n    numNodes: ",
             nodes.count, "\n    numProcPerNode: ", nodes.devices, "\n    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: ", nodes.devices,
             "\n");
  if (!start.environment.empty()) out += "    env:\n";
  for (const EnvironmentVariable& v : start.environment)
    out += with_reason(cat("      - {name: ", v.name, ", value: ", yaml_text(v.value), "}"), v.reason);
  out += "    command:\n";
  for (const std::string& word : words_in_image(start)) out += cat("      - ", yaml_text(word), "\n");
  out += "    args:\n";
  for (const auto& [heading, flags] : start.groups)
    for (const LaunchFlag& flag : flags) {
      out += with_reason(cat("      - ", yaml_text(flag.name)), flag.value.empty() ? flag.reason : "");
      if (!flag.value.empty()) out += with_reason(cat("      - ", yaml_text(flag.value)), flag.reason);
    }
  if (out.ends_with("    args:\n")) out.resize(out.size() - std::string("    args:\n").size());
  return out;
}

}  // namespace

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/' || c == ',' || c == ':' || c == '=' || c == '+' ||
           c == '@';
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> head_lines(const ExportRequest& request, const std::string& engine) {
  const Job& job = request.job;
  std::vector<std::string> devices;
  for (const NodeGroup& group : job.cluster.groups) devices.push_back(cat(group.nodes * group.devices_per_node, " ", group.device.name));
  std::vector<std::string> out{request.plan.label(), cat(request.plan.model_name, " on ", base::joined(devices, " and "), "; for ", engine),
                               cat("Written by espalier ", this_build().version, "; plan ", content_hash(request.plan))};
  if (!request.command.empty()) out.push_back(request.command);
  return out;
}

std::string commented(const std::vector<std::string>& lines) {
  std::string out;
  for (std::string line : lines) {
    std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');  // a name cannot end its comment
    out += cat("# ", line, "\n");
  }
  return out;
}

std::vector<ExportFault> launch_faults(const Job& job, const Plan& plan) {
  std::vector<ExportFault> out;
  const std::int64_t each = job.cluster.groups.front().devices_per_node;
  for (const NodeGroup& group : job.cluster.groups)
    if (group.devices_per_node != each) {
      out.push_back(cannot_say("LAUNCH-NODES", cat("nodes of ", each, " and of ", group.devices_per_node, " devices"), "nodes of one size"));
      break;
    }
  std::int64_t used = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices) used += range.count;
  if (used != job.cluster.devices())
    out.push_back(cannot_say("LAUNCH-DEVICES", cat("a plan on ", used, " of ", job.cluster.devices(), " devices"),
                             "one on all devices of the cluster: describe the nodes that are used alone"));
  return out;
}

std::vector<ExportedFile> launch_files(const Start& start, const ExportRequest& request) {
  const ExportedFile ranks{"ranks.tsv", rank_map(request)};
  switch (request.launcher) {
    case Launcher::sbatch: return {{"launch.sbatch", sbatch_script(start, request)}, ranks};
    case Launcher::mpirun: return {{"launch.sh", mpirun_script(start, request)}, ranks, {"hostfile", hostfile_of(request)}};
    case Launcher::kubeflow: return {{"trainjob.yaml", trainjob(start, request)}, ranks};
    case Launcher::usual:
    case Launcher::torchrun: break;
  }
  return {{"launch.sh", torchrun_script(start, request)}, ranks};
}

}  // namespace espalier::exchange
