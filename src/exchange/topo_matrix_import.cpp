// SPDX-License-Identifier: Apache-2.0
// Reads `nvidia-smi topo -m`, a matrix of link classes. It accepts pasted forms: colours, prefixes of launchers, tabs
// or blanks, lines of MIG, the prompt with the command. Cells may have run into each other (PIXNODE), interfaces may
// be called NIC0 or mlx5_0, and columns of affinity are optional. `topo -mp` prints only PCIe.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "base/format.h"
#include "exchange/cluster_readers.h"
#include "exchange/node_links.h"
#include "runlog/lines.h"

namespace espalier::exchange {
namespace {

constexpr std::size_t kMostColumns = 160;

bool is_nic(std::string_view word) {
  constexpr std::array<std::string_view, 7> kNames = {"NIC", "mlx", "bnxt", "irdma", "hfi", "efa", "ibp"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) {
    return word.size() > name.size() && word.starts_with(name) && runlog::is_digit(word.back());
  });
}

/// Splits words of a header that ran into each other: "GPU0GPU1" into GPU0 and GPU1.
std::vector<std::string> header_words(std::string_view line) {
  std::vector<std::string> out;
  for (std::string_view word : runlog::words_of(line)) {
    while (word.size() > 4 && word.starts_with("GPU") && word.find("GPU", 3) != std::string_view::npos &&
           runlog::is_digit(word[3])) {
      const std::size_t next = word.find("GPU", 3);
      out.emplace_back(word.substr(0, next));
      word.remove_prefix(next);
    }
    out.emplace_back(word);
  }
  return out;
}

struct TopologyCell {
  PciePath path = PciePath::sys;
  std::int64_t nvlinks = 0;
};

/// Adds the cells of one word, of which several may have run together. Returns false where it holds something else.
bool add_cells(std::string_view word, std::vector<TopologyCell>& out) {
  constexpr std::array<std::pair<std::string_view, PciePath>, 6> kClasses = {{{"X", PciePath::same},
                                                                              {"PIX", PciePath::pix},
                                                                              {"PXB", PciePath::pxb},
                                                                              {"PHB", PciePath::phb},
                                                                              {"NODE", PciePath::node},
                                                                              {"SYS", PciePath::sys}}};
  while (!word.empty()) {
    const auto at = std::find_if(kClasses.begin(), kClasses.end(), [&](const auto& row) { return word.starts_with(row.first); });
    if (at != kClasses.end()) {
      out.push_back({at->second, 0});
      word.remove_prefix(at->first.size());
      continue;
    }
    std::int64_t count = 0;
    if (!word.starts_with("NV")) return false;
    const auto [end, code] = std::from_chars(word.data() + 2, word.data() + word.size(), count);
    if (code != std::errc() || count < 1 || count > 64) return false;
    out.push_back({PciePath::sys, count});
    word.remove_prefix(static_cast<std::size_t>(end - word.data()));
  }
  return true;
}

/// Finds the command before the matrix, where it was pasted with it.
LinksShown links_shown(std::string_view text) {
  if (text.find("topo -mp") != std::string_view::npos) return LinksShown::no;
  return text.find("topo -m") != std::string_view::npos ? LinksShown::yes : LinksShown::unknown;
}

struct TopologyRow {
  std::int64_t line = 0;
  std::vector<TopologyCell> cells;
};

class Matrix {
 public:
  explicit Matrix(const ClusterRequest& request) : request_(request) {}

  Result<NodeLinks> read() {
    runlog::each_line(request_.text, [&](std::int64_t number, std::string_view line) {
      if (status_.ok() && !done_) take(number, line);
    });
    if (!status_.ok()) return status_.error();
    if (columns_.empty())
      return Error{ErrorKind::bad_input, request_.name, "no line with GPU0 and the other columns",
                   "the matrix that `nvidia-smi topo -m` prints", ""};
    return links();
  }

 private:
  void fail(std::int64_t line, std::string found, std::string expected) {
    if (status_.ok())
      status_ = Error{ErrorKind::bad_input, cat(request_.name, ":", line), std::move(found), std::move(expected),
                      "paste the complete output of `nvidia-smi topo -m`"};
  }

  void take(std::int64_t number, std::string_view line) {
    std::vector<std::string> words = header_words(line);
    while (!words.empty() && !gpu_of(words.front()) && !is_nic(words.front()))
      words.erase(words.begin());  // prefixes of launchers
    if (words.size() > kMostColumns)
      return fail(number, cat(static_cast<std::int64_t>(words.size()), " words"),
                  cat("at most ", static_cast<std::int64_t>(kMostColumns), " in a line"));
    const bool header = !words.empty() && gpu_of(words[0]) == std::size_t{0} &&
                        (words.size() == 1 || gpu_of(words[1]) || is_nic(words[1]) || words[1] == "CPU");
    if (header) {
      if (columns_.empty()) return take_header(words);
      done_ = true;  // another node's matrix
      return;
    }
    if (columns_.empty() || words.size() < 2) return;
    take_row(number, words);
  }

  void take_header(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      if (!gpu_of(word) && !is_nic(word)) break;
      columns_.push_back(word);
      if (gpu_of(word)) ++gpus_;
    }
  }

  void take_row(std::int64_t number, const std::vector<std::string>& words) {
    const std::string& name = words.front();
    if (std::find(columns_.begin(), columns_.end(), name) == columns_.end()) {
      // A legend ("NIC0: mlx5_0") ends in other words. A row of a device without a column is damaged.
      if (gpu_of(name)) fail(number, cat("a row of ", name), cat("one of the columns ", base::joined(columns_)));
      return;
    }
    TopologyRow row{number, {}};
    for (std::size_t i = 1; i < words.size() && row.cells.size() < columns_.size(); ++i) {
      if (add_cells(words[i], row.cells)) continue;
      return fail(number, cat("\"", words[i].substr(0, 20), "\" in the row of ", name), "X, NV#, PIX, PXB, PHB, NODE or SYS");
    }
    if (row.cells.size() < columns_.size())
      return fail(number, cat(static_cast<std::int64_t>(row.cells.size()), " cells in the row of ", name),
                  cat(static_cast<std::int64_t>(columns_.size()), ", one for each of ", base::joined(columns_)));
    if (!rows_.emplace(name, std::move(row)).second) fail(number, cat("a second row of ", name), "one");
  }

  Result<NodeLinks> links() {
    NodeLinks out;
    std::int64_t last = 1;
    for (const auto& [name, row] : rows_) last = std::max(last, row.line);
    std::vector<std::size_t> places;  // columns of the devices
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (gpu_of(columns_[i])) places.push_back(i);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (columns_[places[i]] != cat("GPU", static_cast<std::int64_t>(i)))
        return missing(last, cat("GPU", static_cast<std::int64_t>(i)));
      const auto at = rows_.find(columns_[places[i]]);
      if (at == rows_.end()) return missing(last, columns_[places[i]]);
      std::vector<std::int64_t> nvlinks;
      std::vector<PciePath> path;
      for (const std::size_t j : places) {
        nvlinks.push_back(at->second.cells[j].nvlinks);
        path.push_back(at->second.cells[j].path);
      }
      if (path[i] != PciePath::same) return not_itself(at->second.line, columns_[places[i]]);
      out.nvlinks.push_back(std::move(nvlinks));
      out.path.push_back(std::move(path));
    }
    if (Status status = asymmetric(out); !status.ok()) return status.error();
    out.shown = links_shown(request_.text);
    add_nics(places, out);
    return out;
  }

  void add_nics(const std::vector<std::size_t>& places, NodeLinks& out) const {
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if (gpu_of(columns_[k])) continue;
      FoundNic nic{columns_[k], 0, {}};
      for (const std::size_t i : places) nic.path.push_back(rows_.at(columns_[i]).cells[k].path);
      out.nics.push_back(std::move(nic));
    }
  }

  [[nodiscard]] Error missing(std::int64_t line, const std::string& name) const {
    return {ErrorKind::bad_input, cat(request_.name, ":", line), cat("no row of ", name),
            cat("a row for each of ", base::joined(columns_)), "is the pasted text truncated?"};
  }
  [[nodiscard]] Error not_itself(std::int64_t line, const std::string& name) const {
    return {ErrorKind::bad_input, cat(request_.name, ":", line), cat("no X where the row of ", name, " meets its column"), "X",
            "a cell is missing or superfluous before it"};
  }
  [[nodiscard]] Status asymmetric(const NodeLinks& links) const {
    for (std::size_t i = 0; i < links.devices(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (links.nvlinks[i][j] != links.nvlinks[j][i] || links.path[i][j] != links.path[j][i])
          return Error{ErrorKind::bad_input, cat(request_.name, ":", rows_.at(cat("GPU", static_cast<std::int64_t>(i))).line),
                       cat("GPU", static_cast<std::int64_t>(i), " to GPU", static_cast<std::int64_t>(j),
                           " differs from the opposite direction"),
                       "the same in both directions", "is a cell missing?"};
    return {};
  }

  const ClusterRequest& request_;
  std::vector<std::string> columns_;
  std::map<std::string, TopologyRow> rows_;
  std::size_t gpus_ = 0;
  bool done_ = false;
  Status status_;
};

Result<ImportedCluster> read_topo_matrix(const ClusterRequest& request) {
  if (Status status = runlog::check_size(request.text, request.name); !status.ok()) return status.error();
  if (request.device.empty())
    return Error{ErrorKind::usage, "--device", "no device", "the kind of its GPUs, which the matrix does not state",
                 "--device h100-sxm-80gb"};
  const auto links = Matrix(request).read();
  if (!links) return links.error();
  return cluster_of(*links, request);
}

}  // namespace

ClusterFormat nvidia_smi_topo() {
  return {"nvidia-smi-topo", "output of `nvidia-smi topo -m` on a node; needs --device", read_topo_matrix};
}

}  // namespace espalier::exchange
