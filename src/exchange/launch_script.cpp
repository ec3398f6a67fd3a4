// SPDX-License-Identifier: Apache-2.0
#include "exchange/launch_script.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"

namespace espalier::exchange {
namespace {

constexpr std::size_t kComment = 68;  // column where reasons begin

std::vector<std::string> arguments_of(const LaunchFlag& flag) {
  if (!flag.list) return flag.value.empty() ? std::vector<std::string>() : std::vector<std::string>{flag.value};
  std::istringstream words(flag.value);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string line_of(const LaunchFlag& flag) {
  std::string out = cat("  ", flag.name);
  for (const std::string& word : arguments_of(flag)) out += " " + quoted(word);
  if (flag.reason.empty()) return out + "\n";
  out.resize(std::max(out.size() + 2, kComment), ' ');
  return cat(out, "# ", flag.reason, "\n");
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::isalnum(c) != 0 ? static_cast<char>(std::toupper(c)) : '_'; });
  return text;
}

/// Counts the nodes, and the devices of each.
struct Nodes {
  std::int64_t count, devices;
};
Nodes nodes_of(const Job& job) {
  const std::int64_t each = devices_a_node(job);
  ESPALIER_CHECK(job.cluster.devices() % each == 0);
  return {job.cluster.devices() / each, each};
}

/// Holds the inputs of one text.
struct LaunchText {
  const LaunchScript& script;
  const ExportRequest& request;
  const Job& job;
  const Plan& plan;
  Nodes nodes;
};

std::string head_of(const ExportRequest& r, const std::string& engine, const std::string& how) {
  return head_lines(r, cat("flags of ", engine), how);
}
std::string head_of(const LaunchText& t, const std::string& how) { return head_of(t.request, t.script.engine, how); }

std::string exports_of(const LaunchScript& script) {
  std::string out;
  for (std::size_t k = 0; k < script.environment.size(); ++k) {
    const auto& [name, value] = script.environment[k];
    out += cat("export ", name, "=", quoted(value),
               script.environment_reasons[k].empty() ? "" : cat("  # ", script.environment_reasons[k]), "\n");
  }
  return out.empty() ? out : out + "\n";
}

std::string arrays_of(const LaunchScript& script) {
  std::string out;
  for (const auto& [heading, flags] : script.groups) {
    if (flags.empty()) continue;
    out += cat(upper(heading), "=(\n");
    for (const LaunchFlag& flag : flags) out += line_of(flag);
    out += ")\n";
  }
  return out;
}

/// Returns the program with its flags, as the last words of a command.
std::string program_of(const LaunchScript& script) {
  std::string out = script.program;
  for (const auto& [heading, flags] : script.groups)
    if (!flags.empty()) out += cat(" \"${", upper(heading), "[@]}\"");
  return cat(out, " \"$@\"", script.last.empty() ? "" : " ", script.last, "\n");
}

std::string torchrun_of(const Nodes& nodes, const std::string& rank, const std::string& address) {
  return cat("torchrun --nnodes ", nodes.count, " --nproc-per-node ", nodes.devices, " --node-rank ", rank, " --master-addr ",
             address, " --master-port \"${MASTER_PORT:-29500}\"");
}

std::string for_torchrun(const LaunchText& t) {
  return cat(
      "#!/usr/bin/env bash\n",
      head_of(t, "Start it on every node with NODE_RANK and MASTER_ADDR set; pass what the plan does not decide as arguments."),
      "set -euo pipefail\n\n", exports_of(t.script), arrays_of(t.script), "\nexec ",
      torchrun_of(t.nodes, "\"${NODE_RANK:-0}\"", "\"${MASTER_ADDR:-127.0.0.1}\""), " \\\n  ", program_of(t.script));
}

std::string job_name(const Plan& plan) {
  std::string out = plan.model_name;
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '-'; });
  return out.empty() ? "espalier" : out;
}

std::string sbatch_lines(const Plan& plan, const Nodes& nodes) {
  return cat("#!/usr/bin/env bash\n#SBATCH --job-name=", job_name(plan), "\n#SBATCH --nodes=", nodes.count,
             "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=", nodes.devices,
             "\n#SBATCH --exclusive\n#SBATCH --output=%x-%j.out\n"
             "##SBATCH --partition=NAME --account=NAME --time=HH:MM:SS --cpus-per-task=N  # yours\n");
}

constexpr const char* kSlurmAddress =
    "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\nexport MASTER_ADDR\n\n";
constexpr const char* kMpiAddress =
    "\nexport MASTER_ADDR=\"${MASTER_ADDR:-$(awk 'NF && $1 !~ /^#/ {print $1; exit}' hostfile)}\"\n"
    "export MASTER_PORT=\"${MASTER_PORT:-29500}\"\n\n";

std::string for_sbatch(const LaunchText& t) {
  return cat(sbatch_lines(t.plan, t.nodes), head_of(t, "sbatch FILE ARGUMENTS; pass what the plan does not decide as arguments."),
             "set -euo pipefail\n\n", exports_of(t.script), arrays_of(t.script),
             "\n# SLURM_NODEID counts in the order of scontrol's list: node k holds ranks ", t.nodes.devices, "k to ",
             t.nodes.devices, "k + ", t.nodes.devices - 1, ".\n", kSlurmAddress,
             "# Every node expands the text in single quotes; its arguments hold the plan.\n"
             "srun --wait=60 --kill-on-bad-exit=1 bash -c 'exec ",
             torchrun_of(t.nodes, "\"$SLURM_NODEID\"", "\"$MASTER_ADDR\""), " \"$@\"' bash \\\n  ", program_of(t.script));
}

/// Sets the variables of PyTorch from those of an Open MPI rank.
constexpr const char* kRankOfMpi =
    "export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK "
    "LOCAL_WORLD_SIZE=$OMPI_COMM_WORLD_LOCAL_SIZE; exec python \"$@\"";

std::string for_mpirun(const LaunchText& t) {
  std::string carried = "-x MASTER_ADDR -x MASTER_PORT";
  for (const auto& [name, value] : t.script.environment) carried += cat(" -x ", name);
  return cat("#!/usr/bin/env bash\n",
             head_of(t, cat("Start it once, next to a file hostfile with a line \"NAME slots=", t.nodes.devices,
                            "\" for each node; pass what the plan does not decide as arguments.")),
             "set -euo pipefail\n\n", exports_of(t.script), arrays_of(t.script), kMpiAddress,
             "# Ranks fill one host after another; torch binds threads itself.\nexec mpirun -np ",
             t.nodes.count * t.nodes.devices, " -N ", t.nodes.devices, " --hostfile hostfile --bind-to none ", carried,
             " \\\n  bash -c '", kRankOfMpi, "' bash \\\n  ", program_of(t.script));
}

// ---- Kubeflow -----------------------------------------------------------------------------------------------------

std::string yaml_text(const std::string& word) {
  base::JsonWriter json;  // JSON is valid YAML
  json.value(word);
  return json.text();
}

std::string yaml_item(const std::string& word, const std::string& reason = "") {
  return cat("      - ", yaml_text(word), reason.empty() ? "" : cat("  # ", reason), "\n");
}

std::string yaml_words(const std::string& words) {
  std::istringstream in(words);
  std::string out;
  for (std::string word; in >> word;) out += yaml_item(word);
  return out;
}

std::string yaml_environment(const LaunchScript& script) {
  std::string out;
  for (std::size_t k = 0; k < script.environment.size(); ++k) {
    const auto& [name, value] = script.environment[k];
    out += cat("      - {name: ", name, ", value: ", yaml_text(value), "}",
               script.environment_reasons[k].empty() ? "" : cat("  # ", script.environment_reasons[k]), "\n");
  }
  return out.empty() ? out : cat("    env:\n", out);
}

std::string train_job(const Plan& plan, const Nodes& nodes) {
  return cat("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: ", job_name(plan),
             "\nspec:\n  runtimeRef:\n    apiGroup: trainer.kubeflow.org\n    kind: ClusterTrainingRuntime\n"
             "    name: torch-distributed\n  trainer:\n    image: IMAGE  # yours\n    numNodes: ",
             nodes.count, "\n    numProcPerNode: ", nodes.devices,
             "\n    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: ", nodes.devices, "\n");
}

std::string for_kubeflow(const LaunchText& t) {
  std::string out = head_of(t, "kubectl apply -f FILE; first add your image and what the plan does not decide.");
  out += cat(train_job(t.plan, t.nodes), yaml_environment(t.script), "    command:\n", yaml_item("torchrun"), "    args:\n",
             yaml_words(t.script.in_image.empty() ? t.script.program : t.script.in_image));
  for (const auto& [heading, flags] : t.script.groups)
    for (const LaunchFlag& flag : flags) {
      out += yaml_item(flag.name, flag.reason);
      for (const std::string& word : arguments_of(flag)) out += yaml_item(word);
    }
  return t.script.last.empty() ? out : out + yaml_item(t.script.last);
}

// ---- a file and its reader ----------------------------------------------------------------------------------------

std::string replaced(std::string text, std::string_view word, std::string_view by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

/// Returns the command of a node, in single quotes. The file is its first argument; the user's words follow.
std::string on_a_node(const LaunchFile& file, const std::string& rank, const std::string& address) {
  std::string command = cat(file.starter, " \"$@\"", file.last.empty() ? "" : " ", file.last);
  command = replaced(replaced(replaced(command, "RANK", rank), "ADDRESS", address), "FILE", "\"$FILE\"");
  ESPALIER_CHECK(command.find('\'') == std::string::npos);  // the command is inside single quotes
  return cat("FILE=$(mktemp -d)/", file.name, "; printf %s \"$1\" >\"$FILE\"; shift; exec ", command);
}

std::string file_in_shell(const LaunchFile& file) {
  ESPALIER_CHECK(file.text.find("\nESPALIER\n") == std::string::npos);
  return cat("CONFIG=$(cat <<'ESPALIER'\n", file.text, "ESPALIER\n)\n");
}

constexpr const char* kScriptFollows = "Pass your script and its arguments as arguments.";

std::string file_kubeflow(const LaunchFile& file, const ExportRequest& r, const Nodes& nodes) {
  return cat(head_of(r, file.engine, "kubectl apply -f FILE; first add your image and your script."), train_job(*r.plan, nodes),
             "    command:\n", yaml_item("bash"), yaml_item("-c"), "    args:\n",
             yaml_item(on_a_node(file, "\"$PET_NODE_RANK\"", "\"$PET_MASTER_ADDR\"")), yaml_item("bash"), yaml_item(file.text),
             yaml_item("train.py", "yours"));
}

}  // namespace

std::int64_t devices_a_node(const Job& job) { return job.cluster.groups.front().devices_per_node; }

std::string torchrun_starter(const Job& job) { return torchrun_of(nodes_of(job), "RANK", "ADDRESS"); }

std::string to_text(const LaunchFile& file, const ExportRequest& r) {
  ESPALIER_CHECK(r.launcher.has_value());
  const Nodes nodes = nodes_of(*r.job);
  const std::string strict = "set -euo pipefail\n\n", tail = " bash \"$CONFIG\" \"$@\"\n";
  switch (*r.launcher) {
    case Launcher::torchrun: break;
    case Launcher::sbatch:
      return cat(sbatch_lines(*r.plan, nodes), head_of(r, file.engine, cat("sbatch FILE SCRIPT …. ", kScriptFollows)), strict,
                 file_in_shell(file), kSlurmAddress, "srun --wait=60 --kill-on-bad-exit=1 bash -c '",
                 on_a_node(file, "\"$SLURM_NODEID\"", "\"$MASTER_ADDR\""), "'", tail);
    case Launcher::mpirun:
      return cat(
          "#!/usr/bin/env bash\n",
          head_of(r, file.engine, cat("Start it once, next to a file hostfile with a line for each node. ", kScriptFollows)),
          strict, file_in_shell(file), kMpiAddress, "# One process per node starts the ranks there.\nexec mpirun -np ",
          nodes.count, " -N 1 --hostfile hostfile --bind-to none -x MASTER_ADDR -x MASTER_PORT \\\n  bash -c '",
          on_a_node(file, "\"$OMPI_COMM_WORLD_RANK\"", "\"$MASTER_ADDR\""), "'", tail);
    case Launcher::kubeflow: return file_kubeflow(file, r, nodes);
  }
  return cat("#!/usr/bin/env bash\n",
             head_of(r, file.engine, cat("Start it on every node with NODE_RANK and MASTER_ADDR set. ", kScriptFollows)), strict,
             file_in_shell(file), "exec bash -c '", on_a_node(file, "\"${NODE_RANK:-0}\"", "\"${MASTER_ADDR:-127.0.0.1}\""), "'",
             tail);
}

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

std::vector<Launcher> all_launchers() { return {Launcher::torchrun, Launcher::sbatch, Launcher::mpirun, Launcher::kubeflow}; }

std::string to_text(const LaunchScript& script, const ExportRequest& request) {
  ESPALIER_CHECK(script.environment.size() == script.environment_reasons.size());
  const LaunchText text{script, request, *request.job, *request.plan, nodes_of(*request.job)};
  switch (request.launcher.value_or(Launcher::torchrun)) {
    case Launcher::torchrun: break;
    case Launcher::sbatch: return for_sbatch(text);
    case Launcher::mpirun: return for_mpirun(text);
    case Launcher::kubeflow: return for_kubeflow(text);
  }
  return for_torchrun(text);
}

}  // namespace espalier::exchange
