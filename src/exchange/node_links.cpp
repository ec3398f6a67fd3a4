// SPDX-License-Identifier: Apache-2.0
#include "exchange/node_links.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/format.h"
#include "base/invariant.h"
#include "cluster/catalogue.h"
#include "runlog/lines.h"

namespace espalier::exchange {
namespace {

struct Generation {
  const char* prefix;  ///< prefix of catalogue names
  std::int64_t links;  ///< NVLinks of a device; 0: not known
  double link, pcie;   ///< GB/s per direction, of one NVLink and of the slot
};
constexpr std::array kGenerations = {
    Generation{"v100", 6, 25, 15.75}, Generation{"titan", 2, 25, 15.75}, Generation{"a100-sxm", 12, 25, 31.5},
    Generation{"a100", 12, 25, 31.5}, Generation{"a10", 0, 25, 31.5},    Generation{"a800", 8, 25, 31.5},
    Generation{"h100", 18, 25, 63},   Generation{"h800", 8, 25, 63},     Generation{"h200", 18, 25, 63},
    Generation{"h20", 18, 25, 63},    Generation{"gh200", 18, 25, 63},   Generation{"b200", 18, 50, 63},
    Generation{"b300", 18, 50, 63},   Generation{"gb200", 18, 50, 63},   Generation{"gb300", 18, 50, 63},
    Generation{"mi300x", 7, 64, 63},  Generation{"mi325x", 7, 64, 63},   Generation{"mi355x", 7, 76.8, 63}};

Generation generation_of(const std::string& device) {
  const auto at =
      std::find_if(kGenerations.begin(), kGenerations.end(), [&](const Generation& g) { return device.starts_with(g.prefix); });
  return at == kGenerations.end() ? Generation{"", 0, 25, 31.5} : *at;
}

std::string gbps(double bytes_per_s) { return cat(base::six_digits(bytes_per_s / kGB), " GB/s"); }

FabricLevel level(const char* name, FabricKind kind, std::int64_t span, double bandwidth, double latency, double efficiency) {
  FabricLevel out;
  out.name = name;
  out.kind = kind;
  out.span = span;
  out.bandwidth = out.bandwidth_alone = BytesPerSecond(bandwidth);
  out.latency = Seconds(latency);
  out.efficiency = efficiency;
  return out;
}

/// Returns the group of each device, where `joined` connects devices into groups; empty where the groups are not
/// equal runs of neighbours.
template <class Joined>
std::vector<std::size_t> equal_runs(std::size_t n, const Joined& joined) {
  std::vector<std::size_t> group(n);
  std::iota(group.begin(), group.end(), std::size_t{0});
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (i != j && joined(i, j) && group[i] != group[j]) {
        const std::size_t from = std::max(group[i], group[j]), to = std::min(group[i], group[j]);
        std::replace(group.begin(), group.end(), from, to);
      }
  const auto span = static_cast<std::size_t>(std::count(group.begin(), group.end(), group.front()));
  for (std::size_t i = 0; i < n; ++i)
    if (n % span != 0 || group[i] != i / span * span) return {};
  return group;
}

std::int64_t span_of(const std::vector<std::size_t>& group) { return std::count(group.begin(), group.end(), group.front()); }

class NodeLinksImport {
 public:
  NodeLinksImport(const NodeLinks& links, const ClusterRequest& request)
      : links_(links), request_(request), generation_(generation_of(request.device)) {}

  Result<ImportedCluster> run() {
    const auto n = static_cast<std::int64_t>(links_.devices());
    if (request_.devices_per_node && *request_.devices_per_node != n)
      return Error{ErrorKind::bad_input, request_.name, cat(n, " devices"),
                   cat(*request_.devices_per_node, ", as given by --devices-per-node"), ""};
    auto usual = usual_cluster(request_.device, request_.nodes.value_or(1), n);
    if (!usual) return usual.error();
    out_.cluster = std::move(*usual);
    if (Status status = of_another_device(group().device.name); !status.ok()) return status.error();
    if (!request_.nodes) note("one node, because the file describes one: --nodes N sets the number");
    if (n > 1) inside();
    if (out_.cluster.nodes() > 1) network();
    return std::move(out_);
  }

 private:
  /// Rejects more NVLinks than such a device has.
  [[nodiscard]] Status of_another_device(const std::string& device) const {
    const std::int64_t links = generation_.links;
    for (const auto& row : links_.nvlinks)
      for (const std::int64_t count : row)
        if (links > 0 && count > links)
          return Error{ErrorKind::bad_input, request_.name, cat(count, " ", links_.link_name, "s of a device"),
                       cat("at most ", links, ", as ", device, " has"), "is --device the right kind?"};
    return {};
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }
  NodeGroup& group() { return out_.cluster.groups.front(); }
  [[nodiscard]] std::size_t n() const { return links_.devices(); }

  // ---- inside the node --------------------------------------------------------------------------------------------

  void inside() {
    std::vector<FabricLevel> found;
    const std::vector<std::size_t> joined =
        equal_runs(n(), [&](std::size_t i, std::size_t j) { return links_.nvlinks[i][j] > 0; });
    const bool any = std::any_of(links_.nvlinks.begin(), links_.nvlinks.end(), [](const auto& row) {
      return std::any_of(row.begin(), row.end(), [](auto c) { return c > 0; });
    });
    if (!any && hidden_links()) return;
    if (any && joined.empty())
      note(cat(links_.link_name, "s join groups of unequal size or devices that are not adjacent: counted as PCIe only"));
    if (any && !joined.empty()) found.push_back(nvlink_level(span_of(joined)));
    pcie_levels(found);
    keep_usual(found);
    group().intra = std::move(found);
  }

  /// Returns whether the file may hide links. It shows none beyond PCIe, though the usual node has them; then the
  /// usual ones stay.
  bool hidden_links() {
    const std::vector<FabricLevel>& usual = group().intra;
    const auto fast = [](const FabricLevel& l) { return l.kind == FabricKind::nvswitch || l.kind == FabricKind::nvlink_mesh; };
    if (usual.empty() || !fast(usual.front())) return false;
    if (links_.shown == LinksShown::yes) {
      note(cat("no ", links_.link_name, " in the file, though a usual node of ", request_.device,
               " has them: only PCIe is counted"));
      return false;
    }
    const bool named = links_.shown == LinksShown::no;
    note(cat(named ? "`nvidia-smi topo -mp` hides NVLink" : "no NVLink in the table, as `nvidia-smi topo -mp` prints it",
             ": the links of a usual node of ", request_.device, " are used; `nvidia-smi topo -m` shows the actual ones"));
    return true;
  }

  FabricLevel nvlink_level(std::int64_t span) {
    ESPALIER_CHECK(span > 1 && static_cast<std::int64_t>(n()) % span == 0);
    std::int64_t least = INT64_MAX, most = 0, sum_least = INT64_MAX;
    bool complete = true;
    for (std::size_t i = 0; i < n(); ++i) {
      std::int64_t sum = 0;
      for (std::size_t j = 0; j < n(); ++j) {
        const std::int64_t count = links_.nvlinks[i][j];
        const bool together = i != j && static_cast<std::int64_t>(i) / span == static_cast<std::int64_t>(j) / span;
        if (!together) continue;
        complete = complete && count > 0;
        sum += count;
        most = std::max(most, count);
        if (count > 0) least = std::min(least, count);
      }
      sum_least = std::min(sum_least, sum);
    }
    ESPALIER_CHECK(least <= most && least > 0);  // groups are joined by links
    const double rate = generation_.link * kGB;
    const std::int64_t links = generation_.links > 0 ? generation_.links : sum_least;
    const bool switched =
        links_.switched || (complete && least == most && span > 2 && (least == links || least * (span - 1) > links));
    note(cat(links_.link_name, "s: ", least == most ? cat(least) : cat(least, " to ", most), " between devices, ", gbps(rate),
             " each per direction; ", switched ? "counted as a switch" : "counted as direct links"));
    if (!complete)
      note(cat("not all devices of a group have a direct ", links_.link_name, ": traffic between the others uses two"));
    if (switched) return level("NVSwitch", FabricKind::nvswitch, span, static_cast<double>(least) * rate, 2e-6, 0.75);
    FabricLevel out = level(links_.link_name == "NVLink" ? "NVLink" : "Infinity Fabric mesh", FabricKind::nvlink_mesh, span,
                            static_cast<double>(std::min(links, sum_least)) * rate, 3e-6, 0.8);
    out.per_peer = BytesPerSecond(static_cast<double>(least) * rate);
    return out;
  }

  void pcie_levels(std::vector<FabricLevel>& found) {
    const double slot = links_.pcie > 0 ? links_.pcie : generation_.pcie * kGB;
    const auto below = [&](PciePath most) {
      return equal_runs(n(), [&, most](std::size_t i, std::size_t j) { return links_.path[i][j] <= most; });
    };
    const auto add = [&](const char* name, const std::vector<std::size_t>& runs, double shared, double latency,
                         double efficiency) {
      const std::int64_t inner = found.empty() ? 1 : found.back().span;
      if (runs.empty())
        return note(
            cat("devices below one ", name, " form groups of unequal size or are not adjacent: counted with the level above"));
      if (span_of(runs) <= inner) return;
      FabricLevel out =
          level(name, FabricKind::pcie_tree, span_of(runs), shared / static_cast<double>(inner), latency, efficiency);
      out.bandwidth_alone = BytesPerSecond(shared);
      found.push_back(out);
    };
    const std::size_t before = found.size();
    add("PCIe switch", below(PciePath::pxb), slot, 5e-6, 0.76);
    add("processor", below(PciePath::node), slot, 6e-6, 0.7);
    const bool whole = !found.empty() && found.back().span == static_cast<std::int64_t>(n());
    if (!whole) {
      const double socket = links_.socket > 0 ? links_.socket : 16 * kGB;
      if (links_.socket == 0)
        note("16 GB/s between processors: NCCL's figure for AMD (10 Skylake, 22 Sapphire Rapids); not stated in the file");
      FabricLevel out = level("socket link", FabricKind::pcie_tree, static_cast<std::int64_t>(n()), 0, 7e-6, 0.9);
      const std::int64_t inner = found.empty() ? 1 : found.back().span;
      out.bandwidth = BytesPerSecond(std::min(socket, slot) / static_cast<double>(inner));
      out.bandwidth_alone = BytesPerSecond(std::min(socket, slot));
      found.push_back(out);
    }
    // The levels must reach all devices of the node.
    ESPALIER_CHECK(!found.empty() && found.back().span == static_cast<std::int64_t>(n()));
    if (found.size() > before)
      note(cat("PCIe: ", gbps(slot), " per slot", links_.pcie > 0 ? "" : cat(", x16 of the generation of ", request_.device),
               "; latencies and efficiencies are estimates"));
  }

  /// Keeps a level of the usual node that has the same figures, because it is better known than the found level.
  void keep_usual(std::vector<FabricLevel>& found) {
    const std::vector<FabricLevel>& usual = group().intra;
    if (found.size() != usual.size()) return;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double a = found[i].bandwidth.count(), b = usual[i].bandwidth.count();
      // A pair of devices has the same rate over a switch and over direct links.
      const bool alike = found[i].span == 2 || (found[i].per_peer.count() > 0) == (usual[i].per_peer.count() > 0);
      if (found[i].span != usual[i].span || !alike || std::abs(a / b - 1) > 0.02) return;
    }
    ESPALIER_CHECK(!usual.empty());
    found = usual;
    note(cat("these links are those of a usual node of ", request_.device, ": its fitted figures are used"));
  }

  // ---- the network ------------------------------------------------------------------------------------------------

  /// Returns the interfaces near a device, where there are any; the others are for management and storage. Virtual
  /// machines show no switches; there, interfaces on a device's host bridge count as near.
  [[nodiscard]] std::vector<const FoundNic*> useful() const {
    for (const PciePath most : {PciePath::pxb, PciePath::phb, PciePath::sys}) {
      std::vector<const FoundNic*> near;
      for (const FoundNic& nic : links_.nics) {
        ESPALIER_CHECK(nic.path.size() == n());
        if (std::any_of(nic.path.begin(), nic.path.end(), [most](PciePath p) { return p <= most; })) near.push_back(&nic);
      }
      if (!near.empty()) return near;
    }
    return {};
  }

  void network() {
    const std::vector<const FoundNic*> nics = useful();
    FabricLevel& top = out_.cluster.inter.front();
    if (nics.empty()) {
      note(cat("no network interface in the file: the usual network of ", request_.device, " is used"));
      return;
    }
    const auto count = static_cast<double>(nics.size());
    double rate = request_.nic_bandwidth ? request_.nic_bandwidth->count() : 0;
    if (rate == 0 && nics.front()->bandwidth > 0) {
      rate = nics.front()->bandwidth;
      for (const FoundNic* nic : nics) rate = std::min(rate, nic->bandwidth > 0 ? nic->bandwidth : rate);
    }
    if (rate == 0) {
      rate = top.bandwidth_alone.count();
      note(cat(gbps(rate), " per network interface, the usual rate of ", request_.device, ": --nic-bandwidth sets another"));
    }
    note(cat(static_cast<std::int64_t>(nics.size()), " of ", static_cast<std::int64_t>(links_.nics.size()),
             " network interfaces count", nics.size() < links_.nics.size() ? ": the others are not close to any device" : "",
             "; ", gbps(rate), " each"));
    ESPALIER_CHECK(rate > 0 && count > 0);
    const auto devices = static_cast<double>(n());
    if (top.kind == FabricKind::rail_optimized && nics.size() != n()) top.kind = FabricKind::fat_tree;
    if (top.kind == FabricKind::fat_tree && nics.size() == n()) top.kind = FabricKind::rail_optimized;
    top.bandwidth_alone = BytesPerSecond(rate * std::max(1.0, std::floor(count / devices)));
    top.bandwidth = BytesPerSecond(std::min(top.bandwidth_alone.count(), rate * count / devices));
  }

  const NodeLinks& links_;
  const ClusterRequest& request_;
  Generation generation_;
  ImportedCluster out_;
};

}  // namespace

std::optional<std::size_t> gpu_of(std::string_view word) {
  if (!word.starts_with("GPU")) return std::nullopt;
  const auto number = runlog::whole_integer(word.substr(3));
  if (!number || *number < 0 || *number >= static_cast<std::int64_t>(kMostNodeDevices)) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

Result<ImportedCluster> cluster_of(const NodeLinks& links, const ClusterRequest& request) {
  ESPALIER_CHECK(links.devices() > 0 && links.nvlinks.size() == links.devices());
  for (std::size_t i = 0; i < links.devices(); ++i)
    ESPALIER_CHECK(links.path[i].size() == links.devices() && links.nvlinks[i].size() == links.devices());
  return NodeLinksImport(links, request).run();
}

}  // namespace espalier::exchange
