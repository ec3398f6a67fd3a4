// SPDX-License-Identifier: Apache-2.0
// Reads NCCL's topology XML (NCCL_TOPO_DUMP_FILE), with pugixml. These elements and attributes matter, with NCCL's
// own figures (2.30.7, graph/topo.h, topo.cc):
//
//   system version="1"                          cpu vendor arch familyid modelid: between processors, see socket_of
//     pci busid class link_speed link_width     GB/s = width · per lane / 80, per lane 15 · 2^(generation − 1) in
//                                               100 Mb/s: gen4 x16 = 24
//       gpu dev sm                              sm: 70 V100, 80 A100, 86 and 89 without NVSwitch, 90 H100, 100 B200
//         nvlink target count tclass            tclass 0x068000: the other end is a switch; else `target` is the bus id
//                                               of a device
//     nic, net speed                            Mb/s / 8000
//
// RCCL, for AMD, writes version="2" (github.com/ROCm/rccl, NCCL_TOPO_XML_VERSION). Its <gpu dev sm gcn arch> names
// the processor by gcn. Its links are <xgmi target count tclass>.
#include <pugixml.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>

#include "base/format.h"
#include "exchange/cluster_readers.h"
#include "exchange/node_links.h"
#include "runlog/lines.h"

namespace espalier::exchange {
namespace {

constexpr std::size_t kMostTopologyBytes = 4u << 20;
constexpr std::size_t kMostNics = 256;
constexpr int kDeepestElement = 64;

struct FoundGpu {
  std::string bus, gcn;
  std::int64_t line = 0, sm = 0;
  std::vector<std::size_t> switches;  ///< elements above it, outermost first: places in the walk
  std::size_t cpu = 0;
  double slot = 0;
  std::vector<std::pair<std::string, std::int64_t>> peers;  ///< bus id, links
  std::int64_t switched = 0;                                ///< links to a switch
};

struct FoundNet {
  std::string name;
  double bandwidth = 0;
  std::vector<std::size_t> switches;
  std::size_t cpu = 0;
};

std::string lower_bus(const char* text) { return base::lower(text); }

/// Returns how near two devices are, from the PCIe elements above them.
PciePath between(const std::vector<std::size_t>& a, std::size_t cpu_a, const std::vector<std::size_t>& b, std::size_t cpu_b) {
  if (cpu_a != cpu_b) return PciePath::sys;
  std::size_t common = 0;
  while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
  if (common == 0) return PciePath::phb;
  return common + 1 >= std::min(a.size(), b.size()) ? PciePath::pix : PciePath::pxb;
}

class NcclTopology {
 public:
  explicit NcclTopology(const ClusterRequest& request) : request_(request) {}

  Result<NodeLinks> read() {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(request_.text.data(), request_.text.size());
    if (!parsed)
      return fault(parsed.offset, cat("XML that cannot be parsed (", parsed.description(), ")"), "XML", "is the file truncated?");
    const pugi::xml_node system = document.child("system");
    if (!system)
      return fault(0, "no <system>", "NCCL's topology: <system version=\"1\">", "NCCL_TOPO_DUMP_FILE=topo.xml writes it");
    const std::string version = system.attribute("version").as_string();
    if (version != "1" && version != "2")
      return fault(system.offset_debug(), cat("version \"", version.substr(0, 40), "\""), "version 1, or version 2 from RCCL",
                   "NCCL_TOPO_DUMP_FILE=topo.xml writes one");
    amd_ = version == "2";
    for (const pugi::xml_node child : system.children()) {
      if (std::strcmp(child.name(), "cpu") == 0)
        cpu(child);
      else if (child.type() == pugi::node_element && std::strcmp(child.name(), "nic") != 0)
        fail(child, cat("<", child.name(), "> directly below <system>"), "<cpu>");
    }
    if (!status_.ok()) return status_.error();
    if (gpus_.empty()) return fault(system.offset_debug(), "no <gpu>", "at least one, below <pci>", "");
    return links();
  }
  [[nodiscard]] std::int64_t sm() const { return gpus_.empty() ? 0 : gpus_.front().sm; }
  [[nodiscard]] bool amd() const { return amd_; }
  /// Returns the architecture of the first device, where RCCL names it: "gfx942"; empty otherwise.
  [[nodiscard]] const std::string& gcn() const { return gpus_.front().gcn; }

 private:
  [[nodiscard]] std::int64_t line_of(std::ptrdiff_t offset) const {
    const auto end = std::min(request_.text.size(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset)));
    return 1 + std::count(request_.text.begin(), request_.text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  }
  [[nodiscard]] Error fault(std::ptrdiff_t offset, std::string found, std::string expected, std::string hint) const {
    return {ErrorKind::bad_input, cat(request_.name, ":", line_of(offset)), std::move(found), std::move(expected),
            std::move(hint)};
  }
  void fail(const pugi::xml_node& node, std::string found, std::string expected) {
    if (status_.ok())
      status_ = fault(node.offset_debug(), std::move(found), std::move(expected), "NCCL_TOPO_DUMP_FILE writes a valid one");
  }

  std::int64_t number(const pugi::xml_node& node, const char* name, std::int64_t low, std::int64_t high) {
    const std::string text = node.attribute(name).as_string();
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
    fail(node, text.empty() ? cat("<", node.name(), "> without ", name) : cat(name, "=\"", text.substr(0, 40), "\""),
         cat("a number from ", low, " to ", high));
    return low;
  }

  void cpu(const pugi::xml_node& node) {
    ++cpus_;
    const std::string arch = node.attribute("arch").as_string(), vendor = node.attribute("vendor").as_string();
    const double own = socket_of(arch, vendor, node.attribute("familyid").as_int(), node.attribute("modelid").as_int());
    socket_ = socket_ == 0 ? own : std::min(socket_, own);
    std::vector<std::size_t> above;
    walk(node, above, 0, 0);
  }

  /// Returns NCCL's GB/s between processors. LOC, within one processor, does not count.
  static double socket_of(const std::string& arch, const std::string& vendor, int family, int model) {
    if (arch == "ppc64") return 32 * kGB;
    if (arch != "x86_64") return 6 * kGB;
    if (vendor == "AuthenticAMD" || vendor == "AMD" || vendor.empty()) return 16 * kGB;
    if (family == 6 && model >= 173) return 40 * kGB;
    if (family == 6 && model >= 143) return 22 * kGB;
    return family == 6 && model >= 85 ? 10 * kGB : 6 * kGB;
  }

  void walk(const pugi::xml_node& parent, std::vector<std::size_t>& above, double slot, int depth) {
    if (depth > kDeepestElement) return fail(parent, cat("elements ", depth, " deep"), cat("at most ", kDeepestElement));
    for (const pugi::xml_node child : parent.children()) {
      if (!status_.ok() || child.type() != pugi::node_element) continue;
      const std::string name = child.name();
      if (name == "pci") {
        pci(child, above, slot, depth);
      } else if (name == "gpu") {
        if (std::strcmp(parent.name(), "pci") != 0)
          return fail(child, cat("<gpu> below <", parent.name(), ">"), "<gpu> below <pci>");
        gpu(child, parent, above, slot);
      } else if (name == "nic") {
        walk(child, above, slot, depth + 1);
      } else if (name == "net") {
        net(child, above);
      }
    }
  }

  void pci(const pugi::xml_node& node, std::vector<std::size_t>& above, double slot, int depth) {
    if (node.attribute("busid").empty()) return fail(node, "<pci> without busid", "the bus id of the device or switch");
    const double own = slot_of(node);
    above.push_back(++places_);
    walk(node, above, slot > 0 && own > 0 ? std::min(slot, own) : std::max(slot, own), depth + 1);
    above.pop_back();
  }

  /// Returns NCCL's GB/s; 0 where the file does not give them.
  double slot_of(const pugi::xml_node& node) {
    const std::string speed = node.attribute("link_speed").as_string();
    if (speed.empty()) return 0;
    constexpr std::array<std::pair<const char*, double>, 6> kLanes = {
        {{"2.5", 15}, {"5", 30}, {"8", 60}, {"16", 120}, {"32", 240}, {"64", 480}}};
    const auto at = std::find_if(kLanes.begin(), kLanes.end(), [&](const auto& row) {
      return speed == row.first || speed.starts_with(cat(row.first, " ")) || speed.starts_with(cat(row.first, ".0 ")) ||
             speed == cat(row.first, ".0");
    });
    if (at == kLanes.end()) {
      if (speed.find("nknown") == std::string::npos)
        fail(node, cat("link_speed=\"", speed.substr(0, 40), "\""), "2.5, 5, 8, 16, 32 or 64 GT/s");
      return 0;
    }
    return static_cast<double>(number(node, "link_width", 0, 64)) * at->second / 80 * kGB;
  }

  void gpu(const pugi::xml_node& node, const pugi::xml_node& pci, const std::vector<std::size_t>& above, double slot) {
    if (gpus_.size() == kMostNodeDevices)
      return fail(node, "more GPUs than a node has", cat("at most ", static_cast<std::int64_t>(kMostNodeDevices)));
    FoundGpu out;
    out.bus = lower_bus(pci.attribute("busid").as_string());
    out.line = line_of(node.offset_debug());
    out.sm = number(node, "sm", 30, 300);
    out.gcn = node.attribute("gcn").as_string();  // "942" before ROCm 5
    if (!out.gcn.empty() && !out.gcn.starts_with("gfx")) out.gcn = cat("gfx", out.gcn);
    out.switches.assign(above.begin(), above.end() - 1);  // the last is the device itself
    out.cpu = cpus_;
    out.slot = slot;
    for (const pugi::xml_node link : node.children(amd_ ? "xgmi" : "nvlink")) {
      const std::int64_t count = number(link, "count", 1, 64);
      if (!amd_ && std::strcmp(link.attribute("tclass").as_string(), "0x068000") == 0)
        out.switched += count;
      else
        out.peers.emplace_back(lower_bus(link.attribute("target").as_string()), count);
    }
    gpus_.push_back(std::move(out));
  }

  void net(const pugi::xml_node& node, const std::vector<std::size_t>& above) {
    if (nets_.size() == kMostNics)
      return fail(node, "more network interfaces than a node has", cat("at most ", static_cast<std::int64_t>(kMostNics)));
    FoundNet out;
    out.name = node.attribute("name").as_string();
    out.bandwidth = static_cast<double>(number(node, "speed", 1, 100'000'000)) / 8000 * kGB;
    if (!above.empty()) out.switches.assign(above.begin(), above.end() - 1);
    out.cpu = cpus_;
    nets_.push_back(std::move(out));
  }

  Result<NodeLinks> links() {
    NodeLinks out;
    if (amd_) out.link_name = "Infinity Fabric link";
    const std::size_t n = gpus_.size();
    std::map<std::string, std::size_t> by_bus;
    for (std::size_t i = 0; i < n; ++i) {
      if (gpus_[i].sm != gpus_.front().sm)
        return at_line(gpus_[i].line, cat("sm=\"", gpus_[i].sm, "\""), cat(gpus_.front().sm, ", like the first GPU"));
      if (!by_bus.emplace(gpus_[i].bus, i).second)
        return at_line(gpus_[i].line, cat("a second GPU at ", gpus_[i].bus.substr(0, 40)), "one");
    }
    out.nvlinks.assign(n, std::vector<std::int64_t>(n, 0));
    out.path.assign(n, std::vector<PciePath>(n, PciePath::same));
    for (std::size_t i = 0; i < n; ++i) {
      const FoundGpu& g = gpus_[i];
      out.switched = out.switched || g.switched > 0;
      if (g.slot > 0) out.pcie = out.pcie > 0 ? std::min(out.pcie, g.slot) : g.slot;
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        out.path[i][j] = between(g.switches, g.cpu, gpus_[j].switches, gpus_[j].cpu);
        out.nvlinks[i][j] = std::min(g.switched, gpus_[j].switched);
      }
      for (const auto& [bus, count] : g.peers) {
        const auto at = by_bus.find(bus);
        if (at == by_bus.end())
          return at_line(g.line, cat(amd_ ? "an xGMI link to " : "an NVLink to ", bus.substr(0, 40)),
                         "the bus id of one of its GPUs");
        if (at->second != i) out.nvlinks[i][at->second] += count;
      }
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (out.nvlinks[i][j] != out.nvlinks[j][i])
          return at_line(gpus_[i].line,
                         cat(out.nvlinks[i][j], " ", out.link_name, "s to the GPU at ", gpus_[j].bus.substr(0, 40)),
                         cat(out.nvlinks[j][i], ", as it states itself"));
    out.socket = socket_;
    for (const FoundNet& net : nets_) {
      FoundNic nic{net.name, net.bandwidth, {}};
      for (const FoundGpu& g : gpus_) nic.path.push_back(between(g.switches, g.cpu, net.switches, net.cpu));
      out.nics.push_back(std::move(nic));
    }
    return out;
  }

  [[nodiscard]] Error at_line(std::int64_t line, std::string found, std::string expected) const {
    return {ErrorKind::bad_input, cat(request_.name, ":", line), std::move(found), std::move(expected), ""};
  }

  const ClusterRequest& request_;
  std::vector<FoundGpu> gpus_;
  std::vector<FoundNet> nets_;
  bool amd_ = false;
  std::size_t cpus_ = 0, places_ = 0;
  double socket_ = 0;
  Status status_;
};

struct GpuArchitecture {
  std::int64_t sm;
  const char* prefixes;  ///< prefixes of catalogue names, separated by blanks
};
constexpr std::array kArchitectures = {GpuArchitecture{70, " v100 "},
                                       GpuArchitecture{75, " titan-rtx "},
                                       GpuArchitecture{80, " a100 a800 "},
                                       GpuArchitecture{86, " a10g a40 "},
                                       GpuArchitecture{89, " l4 l40s rtx-4090 "},
                                       GpuArchitecture{90, " h100 h200 h20 h800 gh200 "},
                                       GpuArchitecture{100, " b200 gb200 "}};

/// Maps RCCL's names to devices of the catalogue (LLVM's names of AMD's processors).
constexpr std::array<std::pair<const char*, const char*>, 2> kGcn = {{{"gfx942", " mi300x mi325x "}, {"gfx950", " mi355x "}}};

/// Rejects RCCL's file given with a device of another maker or generation.
Status other_amd_device(const ClusterRequest& request, const std::string& gcn) {
  const auto row = std::find_if(kGcn.begin(), kGcn.end(), [&](const auto& r) { return gcn.starts_with(r.first); });
  const std::string kinds = row == kGcn.end() ? "" : cat(": ", gcn.substr(0, 20), " is one of", row->second);
  if (request.device.empty())
    return Error{ErrorKind::usage, "--device", "no device", cat("the kind of its GPUs", kinds), "--device mi300x"};
  const bool same = row == kGcn.end()
                        ? request.device.starts_with("mi") || base::lower(request.device).find("instinct") != std::string::npos
                        : std::string_view(row->second).find(cat(" ", request.device, " ")) != std::string_view::npos ||
                              base::lower(request.device).find("instinct") != std::string::npos;
  if (same) return {};
  return Error{ErrorKind::bad_input, request.name,
               row == kGcn.end() ? "a topology of RCCL, of AMD's devices" : cat("GPUs of ", gcn.substr(0, 20)),
               cat("GPUs of ", request.device), row == kGcn.end() ? "--device mi300x" : cat("--device: one of", row->second)};
}

/// Rejects a device that does not match the file's architecture, which several kinds of devices share.
Status other_device(const ClusterRequest& request, std::int64_t sm) {
  const auto row =
      std::find_if(kArchitectures.begin(), kArchitectures.end(), [sm](const GpuArchitecture& a) { return a.sm == sm; });
  if (request.device.empty())
    return Error{ErrorKind::usage, "--device", "no device",
                 cat("the kind of its GPUs: sm ", sm, row == kArchitectures.end() ? "" : cat(" is one of", row->prefixes)), ""};
  if (row == kArchitectures.end()) return {};
  std::string_view rest = row->prefixes;
  for (const std::string_view prefix : runlog::words_of(rest))
    if (request.device.starts_with(prefix)) return {};
  // Names of other tools ("NVIDIA H100 80GB HBM3") are not in the catalogue. For them, the catalogue decides.
  const bool of_catalogue = std::any_of(kArchitectures.begin(), kArchitectures.end(), [&](const GpuArchitecture& a) {
    const auto words = runlog::words_of(a.prefixes);
    return std::any_of(words.begin(), words.end(), [&](std::string_view w) { return request.device.starts_with(w); });
  });
  if (!of_catalogue) return {};
  return Error{ErrorKind::bad_input, request.name, cat("sm ", sm), cat("the architecture of ", request.device),
               cat("sm ", sm, " is one of", row->prefixes)};
}

Result<ImportedCluster> read_nccl_topology(const ClusterRequest& request) {
  if (request.text.size() > kMostTopologyBytes)
    return Error{ErrorKind::bad_input, request.name, cat(static_cast<std::int64_t>(request.text.size()), " bytes"),
                 cat("at most ", static_cast<std::int64_t>(kMostTopologyBytes)), ""};
  NcclTopology topology(request);
  const auto links = topology.read();
  if (!links) return links.error();
  if (Status status = topology.amd() ? other_amd_device(request, topology.gcn()) : other_device(request, topology.sm());
      !status.ok())
    return status.error();
  return cluster_of(*links, request);
}

}  // namespace

ClusterFormat nccl_topology() {
  return {"nccl-xml", "topology of NCCL or RCCL (NCCL_TOPO_DUMP_FILE); needs --device", read_nccl_topology};
}

}  // namespace espalier::exchange
