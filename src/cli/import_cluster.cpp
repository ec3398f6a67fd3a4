// SPDX-License-Identifier: Apache-2.0
// Implements espalier import cluster --format NAME FILE -o cluster.yaml: it converts another tool's description of a
// cluster to a cluster file.
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "cli/import_command.h"
#include "espalier/imported_cluster.h"
#include "espalier/measured_fabric.h"

namespace espalier::cli {
namespace {

constexpr const char* kTests = "nccl-tests";
constexpr double kMostOfNic = 1e14;  ///< bytes/s

struct ClusterImportFlags {
  std::string path, format, device, nic_bandwidth, hosts, out;
  std::vector<std::string> tests;
  std::optional<std::int64_t> nodes, devices_per_node;
  double oversubscription = 1;
};

Result<exchange::ClusterRequest> request_of(Context& context, const ClusterImportFlags& flags) {
  auto text = read_input(context, flags.path);
  if (!text) return text.error();
  exchange::ClusterRequest out{input_name(flags.path), std::move(*text), flags.device,           flags.nodes,
                               flags.devices_per_node, std::nullopt,     flags.oversubscription, flags.hosts};
  if (flags.nic_bandwidth.empty()) return out;
  const auto rate = base::parse_bandwidth(flags.nic_bandwidth);
  if (!rate || !(*rate > 0 && *rate <= kMostOfNic))
    return Error{ErrorKind::usage, "--nic-bandwidth", base::cat("\"", flags.nic_bandwidth, "\""),
                 "a bandwidth with its unit, 400Gb/s, of at most 100 TB/s", ""};
  out.nic_bandwidth = BytesPerSecond(*rate);
  return out;
}

/// Returns nodes like those that nccl-tests ran on, with the usual links of the device.
Result<exchange::ImportedCluster> of_tests(const exchange::ClusterRequest& request, const std::vector<NamedText>& outputs) {
  const auto tested = tested_nodes(outputs);
  if (!tested) return tested.error();
  const std::string device = request.device.empty() ? tested->device : request.device;
  if (device.empty())
    return Error{ErrorKind::usage, "--device", "no device", "the kind of its GPUs, which the output does not state",
                 "--device h100-sxm-80gb"};
  const std::int64_t nodes = request.nodes.value_or(tested->nodes);
  const std::int64_t each = request.devices_per_node.value_or(tested->devices_per_node);
  auto cluster = exchange::usual_cluster(device, nodes, each);
  if (!cluster) return cluster.error();
  return exchange::ImportedCluster{
      std::move(*cluster), {base::cat(nodes, nodes == 1 ? " node of " : " nodes of ", each, " devices, on which the tests ran")}};
}

/// Rejects measurements on devices of another kind, which have no information about these links. A name outside the
/// catalogue is accepted.
Status other_devices(const Cluster& cluster, const std::vector<NamedText>& outputs) {
  for (const NamedText& output : outputs) {
    const auto tested = tested_nodes({output});
    if (!tested) return tested.error();
    const auto usual = exchange::usual_cluster(tested->device, 1, 1);
    const std::string& own = cluster.groups.front().device.name;
    if (tested->device.empty() || !usual || usual->groups.front().device.name == own) continue;
    return Error{ErrorKind::bad_input, output.name, base::cat("a test of ", usual->groups.front().device.name),
                 base::cat("one of ", own, ", the devices of the cluster"), "--device names the kind that was tested"};
  }
  return {};
}

Result<exchange::ImportedCluster> read_cluster(Context& context, const ClusterImportFlags& flags) {
  auto request = request_of(context, flags);
  if (!request) return request.error();
  std::vector<NamedText> outputs;
  if (flags.format == kTests) outputs.push_back({request->name, request->text});
  for (const std::string& path : flags.tests) {
    auto text = base::read_file(path);
    if (!text) return text.error();
    outputs.push_back({path, std::move(*text)});
  }
  auto found = flags.format == kTests ? of_tests(*request, outputs) : exchange::find_cluster_format(flags.format)->read(*request);
  if (!found || outputs.empty()) return found;
  if (Status status = other_devices(found->cluster, outputs); !status.ok()) return status.error();
  auto measured = measured_fabric(found->cluster, outputs);
  if (!measured) return measured.error();
  found->cluster = std::move(measured->cluster);
  found->notes.insert(found->notes.end(), measured->notes.begin(), measured->notes.end());
  return found;
}

std::string summary_json(const exchange::ImportedCluster& found, const ClusterImportFlags& flags, const std::string& yaml) {
  const NodeGroup& group = found.cluster.groups.front();
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.imported-cluster/1");
  w.key("format").value(flags.format);
  w.key("nodes").value(group.nodes).key("devices_per_node").value(group.devices_per_node).key("device").value(group.device.name);
  w.key("cluster_file").value(yaml);
  w.key("notes").begin_array();
  for (const std::string& text : found.notes) w.value(text);
  w.end_array();
  w.end_object();
  return w.text();
}

int run(Context& context, const ClusterImportFlags& flags) {
  const auto found = read_cluster(context, flags);
  if (!found) return fail(context, found.error());
  std::vector<std::string> notes = found->notes;
  notes.insert(notes.begin(),
               base::cat("from ", std::filesystem::path(flags.path).filename().string(), ", read as ", flags.format));
  const auto yaml = exchange::cluster_file(found->cluster, notes);
  if (!yaml) return fail(context, yaml.error());
  for (const std::string& text : found->notes) note(context, text);
  const std::string out = flags.out.empty() ? "" : report::file_or_in_folder(flags.out, "cluster.yaml");
  if (!out.empty())
    if (Status status = report::write_file(out, *yaml); !status.ok()) return fail(context, status.error());
  if (context.json)
    print_json(context, summary_json(*found, flags, *yaml));
  else if (flags.out.empty())
    context.out << *yaml;
  if (!flags.out.empty()) note(context, base::cat("wrote ", out));
  return kOk;
}

}  // namespace

void add_import_cluster(Command& command, Context& context) {
  Command* part = command.add_subcommand("cluster", "convert another tool's description of a cluster into a cluster file");
  auto flags = std::make_shared<ClusterImportFlags>();
  std::vector<std::string> names;
  std::string help = "format of FILE:";
  for (const exchange::ClusterFormat& format : exchange::cluster_formats()) {
    help += base::cat(names.empty() ? " " : "; ", format.name, ": ", format.reads);
    names.push_back(format.name);
  }
  names.emplace_back(kTests);
  help += "; nccl-tests: output of all_reduce_perf and similar tests, text or JSON";
  part->add_option("file", flags->path, "the description; - for stdin")->required()->type_name("FILE");
  part->add_option("--format", flags->format, help)->required()->one_of(names);
  part->add_option("--device", flags->device,
                   "kind of the devices, if FILE does not state it (espalier inspect cluster names them)")
      ->type_name("NAME");
  part->add_option("--nodes", flags->nodes, "number of such nodes")->positive();
  part->add_option("--devices-per-node", flags->devices_per_node,
                   "devices per node, if FILE does not state them (default: the device's usual node)")
      ->positive();
  part->add_option("--nic-bandwidth", flags->nic_bandwidth, "bandwidth of one network interface, if FILE does not state it")
      ->type_name("RATE");
  part->add_option("--oversubscription", flags->oversubscription,
                   "slurm-topology: ratio for the links above a leaf switch; 2 means 2:1 (default: 1)")
      ->positive();
  part->add_option("--hosts", flags->hosts, "slurm-topology: only the job's hosts, such as node[01-16]")->type_name("LIST");
  part->add_option("--nccl-tests", flags->tests,
                   "nccl-tests output from these nodes; its figures become those of the links (repeatable)")
      ->type_name("FILE")
      ->one_value_each();
  part->add_option("-o,--out", flags->out, "write the cluster file here instead of to stdout")->type_name("FILE");
  add_common_flags(*part, context);
  part->callback([&context, flags] { context.exit_code = run(context, *flags); });
}

}  // namespace espalier::cli
