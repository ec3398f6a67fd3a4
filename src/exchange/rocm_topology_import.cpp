// SPDX-License-Identifier: Apache-2.0
// Reads `rocm-smi --showtopo` (ROCm 4.5 to 7.2): tables between devices, one below the other, and the processor of
// each device.
//
//   =========================== Weight between two GPUs ===========================      15 for each hop over Infinity
//          GPU0         GPU1         …                                                   Fabric (xGMI)
//   GPU0   0            15           …
//   ========================= Link Type between two GPUs ==========================      XGMI or PCIE
//   ================================= Numa Nodes ==================================
//   GPU[0]          : (Topology) Numa Node: 0                                            before ROCm 5: "GPU 0 : …"
//
// The table of link types is required (`--showtopotype` prints only this table). A device has one link to each that
// it reaches in one hop. The meaning of the weights is from the docs of AMD SMI (github.com/ROCm/rocm-systems, pull
// request 7372).
#include <algorithm>
#include <map>
#include <optional>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/cluster_readers.h"
#include "exchange/node_links.h"
#include "runlog/lines.h"

namespace espalier::exchange {
namespace {

constexpr std::int64_t kOneHop = 15;

enum class Table { none, weights, types, numa };

struct RocmTableRow {
  std::int64_t line = 0;
  std::vector<std::string> cells;
};

class RocmTables {
 public:
  explicit RocmTables(const ClusterRequest& request) : request_(request) {}

  Result<NodeLinks> read() {
    runlog::each_line(request_.text, [&](std::int64_t number, std::string_view line) {
      if (status_.ok()) take(number, line);
    });
    if (!status_.ok()) return status_.error();
    if (types_.empty())
      return Error{ErrorKind::bad_input, request_.name, "no table \"Link Type between two GPUs\"",
                   "the complete output of `rocm-smi --showtopo`",
                   "the output of `amd-smi topology` has another format, which is not supported"};
    return links();
  }

 private:
  void fail(std::int64_t line, std::string found, std::string expected, std::string hint = "is the pasted text truncated?") {
    status_ = Error{ErrorKind::bad_input, cat(request_.name, ":", line), std::move(found), std::move(expected), std::move(hint)};
  }

  void take(std::int64_t number, std::string_view line) {
    if (line.find("==") != std::string_view::npos) {
      const auto is = [&](std::string_view title) { return line.find(title) != std::string_view::npos; };
      table_ = is("Weight between two GPUs")      ? Table::weights
               : is("Link Type between two GPUs") ? Table::types
               : is("Numa Nodes")                 ? Table::numa
                                                  : Table::none;
      return;
    }
    if (table_ == Table::numa) return take_processor(line);
    if (table_ == Table::none) return;
    const auto words = runlog::words_of(line);
    if (words.empty() || !gpu_of(words[0]) || (words.size() > 1 && gpu_of(words[1]))) return;  // a header, a warning
    if (words.size() == 1) return;
    auto& rows = table_ == Table::weights ? weights_ : types_;
    RocmTableRow row{number, {words.begin() + 1, words.end()}};
    if (row.cells.size() > kMostNodeDevices)
      return fail(number, cat(row.cells.size(), " cells"), cat("at most ", kMostNodeDevices, " devices"));
    if (!rows.emplace(*gpu_of(words[0]), std::move(row)).second)
      fail(number, cat("a second row of ", words[0]), "one", "one node per file");
  }

  /// Reads a line such as "GPU[0] : (Topology) Numa Node: 0".
  void take_processor(std::string_view line) {
    const auto rest = runlog::after(line, "GPU");
    const auto node = runlog::after(line, "Numa Node:");
    if (!rest || !node) return;
    const auto device = runlog::leading_number(rest->starts_with("[") ? rest->substr(1) : *rest);
    const auto processor = runlog::leading_number(*node);
    if (device && processor && *device >= 0 && *device < static_cast<double>(kMostNodeDevices))
      processors_[static_cast<std::size_t>(*device)] = *processor;
  }

  /// Returns whether two devices have a direct link; nothing where the cells hold something else.
  std::optional<bool> linked(std::size_t i, std::size_t j) {
    const RocmTableRow& row = types_.at(i);
    ESPALIER_CHECK(j < row.cells.size());
    const std::string& cell = row.cells[j];
    if (cell != "XGMI" && cell != "PCIE") {
      fail(row.line, cat("\"", cell.substr(0, 20), "\" in the row of GPU", i), "XGMI or PCIE", "");
      return std::nullopt;
    }
    if (cell == "PCIE") return false;
    const auto at = weights_.find(i);
    const auto weight =
        at != weights_.end() && j < at->second.cells.size() ? runlog::whole_integer(at->second.cells[j]) : std::nullopt;
    return !weight || *weight <= kOneHop;
  }

  [[nodiscard]] PciePath path(std::size_t i, std::size_t j) const {
    const auto a = processors_.find(i), b = processors_.find(j);
    return a != processors_.end() && b != processors_.end() && a->second == b->second ? PciePath::node : PciePath::sys;
  }

  Result<NodeLinks> links() {
    const std::size_t n = types_.rbegin()->first + 1;
    ESPALIER_CHECK(n <= kMostNodeDevices);
    NodeLinks out;
    out.link_name = "Infinity Fabric link";
    out.nvlinks.assign(n, std::vector<std::int64_t>(n, 0));
    out.path.assign(n, std::vector<PciePath>(n, PciePath::same));
    for (std::size_t i = 0; i < n; ++i) {
      const auto row = types_.find(i);
      if (row == types_.end() || row->second.cells.size() != n) {
        fail(row == types_.end() ? types_.rbegin()->second.line : row->second.line,
             row == types_.end()
                 ? cat("no row of GPU", i)
                 : cat(row->second.cells.size(), row->second.cells.size() == 1 ? " cell" : " cells", " in the row of GPU", i),
             cat("a row of ", n, n == 1 ? " cell" : " cells", " for each of GPU0 to GPU", n - 1));
        return status_.error();
      }
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const auto direct = linked(i, j);
        if (!direct) return status_.error();
        out.nvlinks[i][j] = *direct ? 1 : 0;
        out.path[i][j] = path(i, j);
        if (j < i && out.nvlinks[i][j] != out.nvlinks[j][i]) {
          fail(types_.at(i).line, cat("GPU", i, " to GPU", j, " differs from the opposite direction"),
               "the same in both directions", "is a cell missing?");
          return status_.error();
        }
      }
    return out;
  }

  const ClusterRequest& request_;
  Table table_ = Table::none;
  std::map<std::size_t, RocmTableRow> weights_, types_;
  std::map<std::size_t, double> processors_;
  Status status_;
};

Result<ImportedCluster> read_rocm_topology(const ClusterRequest& request) {
  if (Status status = runlog::check_size(request.text, request.name); !status.ok()) return status.error();
  if (request.device.empty())
    return Error{ErrorKind::usage, "--device", "no device", "the kind of its GPUs, which the tables do not state",
                 "--device mi300x"};
  if (!request.device.starts_with("mi") && base::lower(request.device).find("instinct") == std::string::npos)
    return Error{ErrorKind::usage, "--device", request.device, "a device of AMD, as rocm-smi lists them", "--device mi300x"};
  const auto links = RocmTables(request).read();
  if (!links) return links.error();
  return cluster_of(*links, request);
}

}  // namespace

ClusterFormat rocm_smi_topo() {
  return {"rocm-smi-topo", "output of `rocm-smi --showtopo` on a node of AMD GPUs; needs --device", read_rocm_topology};
}

}  // namespace espalier::exchange
