// SPDX-License-Identifier: Apache-2.0
#include "lab/fabric_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/invariant.h"
#include "base/statistics.h"
#include "calibrate/least_squares.h"
#include "cost/collective.h"

namespace espalier::lab {
namespace {

constexpr double kFabricHuber = 0.10, kHuberOverlap = 0.03;
constexpr double kTcpHop = 30;       ///< µs, prior of a hop through the kernels of two hosts
constexpr double kManagedHop = 100;  ///< µs, prior of a hop in a shared network that is known to be slow

Residuals judge(const std::vector<double>& logs, const std::vector<char>& held) {
  Residuals r;
  std::vector<double> fitted, out;
  for (std::size_t i = 0; i < logs.size(); ++i) (held[i] ? out : fitted).push_back(std::abs(std::exp(logs[i]) - 1));
  r.rows = static_cast<std::int64_t>(fitted.size());
  r.held_rows = static_cast<std::int64_t>(out.size());
  r.median = base::quantile(fitted, 0.5);
  r.p90 = base::quantile(fitted, 0.9);
  r.held_median = base::quantile(out, 0.5);
  r.held_p90 = base::quantile(out, 0.9);
  return r;
}

/// Fits `parameters` to residual(i, x) over the rows not held out; returns the values and all residuals.
template <class Residual>
std::pair<std::vector<double>, std::vector<double>> fit(const std::vector<calibrate::FitParameter>& parameters,
                                                        const std::vector<char>& held, double huber, const Residual& residual) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < held.size(); ++i)
    if (!held[i]) rows.push_back(i);
  calibrate::FitOptions options;
  options.huber = huber;
  // Priors have the weight of a few rows: residuals are logarithms, with a usual error of 10 %.
  auto scaled = parameters;
  for (calibrate::FitParameter& p : scaled) p.sigma /= huber;
  const auto result = calibrate::least_squares(
      scaled, rows.size(),
      [&](std::span<const double> x, std::span<double> out) {
        for (std::size_t i = 0; i < rows.size(); ++i) out[i] = residual(rows[i], x);
      },
      options);
  std::vector<double> all(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) all[i] = residual(i, result.values);
  return {result.values, all};
}

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string written(const Residuals& r) {
  const auto percent = [](double x) { return format("%.3g", x); };
  return "{rows: " + std::to_string(r.rows) + ", median: " + percent(r.median) + ", p90: " + percent(r.p90) +
         ", held_rows: " + std::to_string(r.held_rows) + ", held_median: " + percent(r.held_median) +
         ", held_p90: " + percent(r.held_p90) + "}";
}

void write(std::string& out, const std::string& head, const cluster::FabricCalibration& c, const Residuals* residuals) {
  out += "  - " + head + "\n    basis: \"" + c.basis + "\"\n    coefficients: {";
  for (std::size_t i = 0; i < c.values.size(); ++i)
    out += (i ? ", " : "") + std::string(c.values[i].first->name) + ": " + format("%.4g", c.values[i].second);
  out += "}\n";
  if (residuals) out += "    residuals: " + written(*residuals) + "\n";
}

// ---- tables -------------------------------------------------------------------------------------------------------

bool held_out(const OperatorTable& t, std::size_t row) { return row_hash(t.lines[row] + "held") % 3 == 0; }

Collective operation_of(const std::string& name) {
  if (name == "all_gather") return Collective::all_gather;
  if (name == "reduce_scatter") return Collective::reduce_scatter;
  if (name == "all_reduce") return Collective::all_reduce;
  return Collective::all_to_all;
}

/// Adds samples of nccl-tests from aiconfigurator. All-reduces over 8 ranks on Hopper and Blackwell ran through NVLS
/// and are left out.
void add_nccl(const OperatorTable& t, bool nvls, std::vector<CollectiveSample>& out) {
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    const auto ranks = static_cast<std::int64_t>(t.number(i, "num_gpus"));
    const Collective op = operation_of(t.text(i, "op"));
    if (nvls && op == Collective::all_reduce && ranks == 8) continue;
    out.push_back({op, ranks, 1, t.number(i, "message_bytes"), t.number(i, "latency_ms") * 1e-3, held_out(t, i)});
  }
}

/// `partial`: also adds groups other than 2, 4 or 8 ranks. Training does not use them, and a hybrid cube mesh has no
/// even rings for them.
void add_all_reduce(const OperatorTable& t, bool partial, std::vector<CollectiveSample>& out) {
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    const auto ranks = static_cast<std::int64_t>(t.number(i, "num_gpus"));
    if (!partial && ranks != 2 && ranks != 4 && ranks != 8) continue;
    out.push_back(
        {Collective::all_reduce, ranks, 1, t.number(i, "bytes"), t.number(i, "time_us_out_of_place") * 1e-6, held_out(t, i)});
  }
}

/// Adds samples of Aceso's profiler. Its MB are a rank's own part for all-gathers and the whole tensor otherwise.
void add_cloud(const OperatorTable& t, const std::string& hardware, std::vector<CollectiveSample>& out) {
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    if (t.text(i, "hw") != hardware) continue;
    const auto ranks = static_cast<std::int64_t>(t.number(i, "gpus"));
    const Collective op = operation_of(t.text(i, "op"));
    const double bytes =
        t.number(i, "data_size_mb") * 1048576 * (op == Collective::all_gather ? static_cast<double>(ranks) : 1.0);
    out.push_back({op, ranks, 1, bytes, t.number(i, "time_ms") * 1e-3, held_out(t, i)});
  }
}

double gathered_bytes(const OperatorTable& t, std::size_t i) { return t.number(i, "g2g_mb") * 1048576; }

/// Adds all-gathers across nodes only. All groups of a node share its NIC at the same time.
void add_network(const OperatorTable& t, std::vector<CollectiveSample>& out) {
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    if (t.number(i, "n") > 0 || t.number(i, "g2g_mb") <= 0 || t.number(i, "nodes") < 2) continue;
    out.push_back({Collective::all_gather, static_cast<std::int64_t>(t.number(i, "intra_group")),
                   static_cast<std::int64_t>(t.number(i, "nodes")), gathered_bytes(t, i), t.number(i, "latency_ms") * 1e-3,
                   held_out(t, i)});
  }
}

void add_overlap(const OperatorTable& t, double memory_bandwidth, std::vector<OverlapSample>& out) {
  const auto alone = [&](std::size_t like, bool compute) {
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
      const bool same = t.text(i, "nodes") == t.text(like, "nodes") && t.text(i, "intra_group") == t.text(like, "intra_group");
      const bool gemm = t.number(i, "n") > 0, gather = t.number(i, "g2g_mb") > 0;
      if (!same || gemm != compute || gather == compute) continue;
      if (t.text(i, compute ? "n" : "g2g_mb") == t.text(like, compute ? "n" : "g2g_mb")) return t.number(i, "latency_ms") * 1e-3;
    }
    return 0.0;
  };
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    if (t.number(i, "n") <= 0 || t.number(i, "g2g_mb") <= 0) continue;
    OverlapSample s{alone(i, false), alone(i, true), t.number(i, "latency_ms") * 1e-3, 0, held_out(t, i)};
    if (s.communication_s <= 0 || s.compute_s <= 0) continue;
    const double ranks = t.number(i, "intra_group") * t.number(i, "inter_group");
    s.traffic = gathered_bytes(t, i) * (ranks - 1) / ranks / s.communication_s / memory_bandwidth;
    out.push_back(s);
  }
}

struct FabricSource {
  const char* fabric;
  const char* basis;
  const char* device;  ///< its usual node was measured
  std::vector<const char*> nccl, all_reduce;
  const char* cloud = nullptr;
};

std::vector<FabricSource> sources() {
  return {
      {"nvswitch1",
       "nccl-tests of A100: aiconfigurator 095f58a (Apache-2.0), vTrain f8dda84 (MIT-style)",
       "a100-sxm-80gb",
       {"nccl_a100.csv"},
       {"allreduce_a100.csv"}},
      {"nvswitch3",
       "nccl-tests of H100 and H200 without NVLS: aiconfigurator 095f58a (Apache-2.0)",
       "h100-sxm-80gb",
       {"nccl_h100.csv", "nccl_h200.csv"},
       {}},
      {"nvswitch4", "nccl-tests of B200 without NVLS: aiconfigurator 095f58a (Apache-2.0)", "b200-sxm", {"nccl_b200.csv"}, {}},
      {"nvl72", "nccl-tests of one GB200 tray: aiconfigurator 095f58a (Apache-2.0)", "gb200-nvl72", {"nccl_gb200.csv"}, {}},
      {"nvlink2-cube-mesh", "nccl-tests of V100: vTrain f8dda84 (MIT-style)", "v100-sxm-32gb", {}, {"allreduce_v100.csv"}},
      {"pcie-cloud-l4", "collectives of 8 L4 from 16 MB on: Mist d69e530 (Apache-2.0)", "l4", {}, {}, "l4"},
      {"pcie-cloud-a10g", "collectives of 8 A10G from 16 MB on: Mist d69e530 (Apache-2.0)", "a10g", {}, {}, "a10g"},
  };
}

/// Returns the fabric levels of the usual node of a device.
std::vector<FabricLevel> node_levels(const char* device) {
  auto cluster = load_cluster("{nodes: 1, device: " + std::string(device) + "}", "calibration");
  ESPALIER_CHECK(cluster.ok());
  return cluster->levels();
}

}  // namespace

double predicted_s(const CollectiveSample& s, const std::vector<FabricLevel>& levels) {
  const std::int64_t node = levels.front().span;
  const cost::Group group =
      s.nodes > 1 ? cost::place_group(levels, s.inside, 1, s.nodes, node) : cost::place_group(levels, s.inside, 1);
  switch (s.operation) {
    case Collective::all_gather: return cost::all_gather_s(levels, group, s.bytes);
    case Collective::reduce_scatter: return cost::reduce_scatter_s(levels, group, s.bytes);
    case Collective::all_reduce: return cost::all_reduce_s(levels, group, s.bytes);
    case Collective::all_to_all: return cost::all_to_all_s(levels, group, s.bytes);
  }
  return 0;
}

FabricFit fit_level(const std::vector<CollectiveSample>& samples, const std::vector<FabricLevel>& levels, std::size_t fitted,
                    const std::vector<std::string>& names, std::optional<double> latency_us) {
  std::vector<const cluster::FabricField*> fields;
  std::vector<calibrate::FitParameter> parameters;
  for (const cluster::FabricField& f : cluster::fabric_fields()) {
    if (std::find(names.begin(), names.end(), f.name) == names.end()) continue;
    fields.push_back(&f);
    const double prior = f.name == "latency_us" ? latency_us.value_or(f.prior) : f.prior;
    parameters.push_back({std::string(f.name), prior, f.low, f.high, true, prior, f.sigma});
  }
  std::vector<char> held;
  for (const CollectiveSample& s : samples) held.push_back(s.held);
  const auto [values, logs] = fit(parameters, held, kFabricHuber, [&](std::size_t i, std::span<const double> x) {
    auto changed = levels;
    for (std::size_t k = 0; k < fields.size(); ++k) fields[k]->set(changed[fitted], x[k]);
    return std::log(predicted_s(samples[i], changed) / samples[i].seconds);
  });
  FabricFit out;
  for (std::size_t k = 0; k < fields.size(); ++k) out.calibration.values.emplace_back(fields[k], values[k]);
  out.residuals = judge(logs, held);
  return out;
}

OverlapFit fit_overlap(const std::vector<OverlapSample>& samples) {
  std::vector<calibrate::FitParameter> parameters;
  for (const cluster::EfficiencyField& f : cluster::overlap_fields())
    parameters.push_back(
        {std::string(f.name), f.prior, f.low, f.high, f.low > 0, f.prior, f.low > 0 ? f.sigma : f.prior * f.sigma});
  std::vector<char> held;
  for (const OverlapSample& s : samples) held.push_back(s.held);
  const auto [values, logs] = fit(parameters, held, kHuberOverlap, [&](std::size_t i, std::span<const double> x) {
    const OverlapSample& s = samples[i];
    const cost::MutualSlowdown k{x[1], x[0] + x[2] * s.traffic};
    return std::log(cost::pair_time(s.communication_s, s.compute_s, k) / s.together_s);
  });
  OverlapFit out;
  for (std::size_t k = 0; k < values.size(); ++k) out.values.emplace_back(&cluster::overlap_fields()[k], values[k]);
  out.residuals = judge(logs, held);
  return out;
}

namespace {

Result<FabricFit> fit_source(const std::string& directory, const FabricSource& source) {
  std::vector<CollectiveSample> samples;
  for (const char* name : source.nccl) {
    auto table = load_table(directory, name);
    if (!table) return table.error();
    add_nccl(*table, std::string(source.fabric) != "nvswitch1", samples);
  }
  for (const char* name : source.all_reduce) {
    auto table = load_table(directory, name);
    if (!table) return table.error();
    add_all_reduce(*table, false, samples);
  }
  // The profiler launches from Python and waits, so the time before the first byte is not the fabric's.
  std::vector<std::string> names = {"efficiency", "latency_us", "start_us", "ramp", "small_group"};
  if (source.cloud != nullptr) {
    auto table = load_table(directory, "collectives_cloud.csv");
    if (!table) return table.error();
    add_cloud(*table, source.cloud, samples);
    names = {"efficiency", "ramp", "small_group"};
  }
  FabricFit f = fit_level(samples, node_levels(source.device), 0, names);
  f.calibration.fabric = source.fabric;
  f.calibration.basis = source.basis;
  return f;
}

/// Fits the network of nodes of 8 A100 behind one NIC of 100 Gb/s (Google Cloud's figure for this machine). Uses
/// every all-gather across nodes of Mist's runs, with 1 to 8 ranks a node and all groups at once. The V100 runs are
/// left out because their line rate is unknown.
Result<FabricFit> fit_network(const OperatorTable& a100) {
  std::vector<CollectiveSample> samples;
  add_network(a100, samples);
  const auto cluster =
      load_cluster("{nodes: 4, device: a100-sxm-40gb, inter_node: {nics_per_node: 1, bandwidth: 100Gb/s}}", "calibration");
  if (!cluster) return cluster.error();
  return fit_level(samples, cluster->levels(), 1, {"efficiency", "latency_us", "ramp", "congestion"}, kTcpHop);
}

/// Fits bus bandwidths of 256 MB collectives on 2 to 64 nodes of 8 H100, from the Ultra-Scale Playbook (means of
/// repeated runs on its cluster). A single size cannot separate the start from a hop, nor show the ramp. These keep
/// their usual values, and so does efficiency. The rows are few, so none is held out.
Result<FabricFit> fit_playbook(const OperatorTable& t) {
  constexpr double kBytes = 256e6;
  constexpr std::int64_t kNode = 8;
  std::vector<CollectiveSample> samples;
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    const auto nodes = static_cast<std::int64_t>(t.number(i, "nodes"));
    if (nodes < 2) continue;
    const Collective op = operation_of(t.text(i, "collective"));
    const double ranks = static_cast<double>(nodes * kNode),
                 moved = (op == Collective::all_reduce ? 2 : 1) * kBytes * (ranks - 1) / ranks;
    samples.push_back({op, kNode, nodes, kBytes, moved / (t.number(i, "mean_GBps") * 1e9), false});
  }
  const auto cluster = load_cluster("{nodes: 64, device: h100-sxm-80gb}", "calibration");
  if (!cluster) return cluster.error();
  FabricFit f = fit_level(samples, cluster->levels(), 1, {"latency_us", "congestion"}, kManagedHop);
  f.calibration.fabric = "ultra-scale-playbook";
  f.calibration.basis =
      "collectives of 256 MB on 2 to 64 nodes, means of repeated runs on a shared cluster: HF Ultra-Scale Playbook, "
      "pp_comm_bandwidth.html (Apache-2.0); "
      "latency_us stands for all that grows with the nodes of a ring";
  return f;
}

/// Merges the fitted values with the values of `before` that no table determines.
void merge(const cluster::FabricCalibration& before, cluster::FabricCalibration& fitted) {
  for (const auto& value : before.values) {
    const auto same = [&](const auto& v) { return v.first == value.first; };
    if (std::none_of(fitted.values.begin(), fitted.values.end(), same)) fitted.values.push_back(value);
  }
}

std::string head() {
  return "# What was fitted of fabrics, networks and the overlap of compute with collectives; equations: src/cost/collective.h, "
         "ranges:\n"
         "# src/cluster/fabric_calibration.cpp. Written over the templates and usual networks of data/devices.yaml.\n"
         "# Written by `./dev fit` from data/operators. Entries whose basis is a prior were not fitted and stay as they "
         "are. Residuals:\n"
         "# |predicted/measured - 1| of the rows fitted and of those held out (one in three).\n"
         "schema: espalier.fabric-calibration/1\n";
}

}  // namespace

Result<std::string> calibrate_fabrics(const std::string& directory, const cluster::FabricCalibrations& before) {
  const auto a100 = load_table(directory, "overlap_a100_40g.csv"), v100 = load_table(directory, "overlap_v100_16g.csv");
  if (!a100) return a100.error();
  if (!v100) return v100.error();
  std::string out = head();
  std::vector<OverlapSample> overlaps;
  add_overlap(*a100, 1555e9, overlaps);
  add_overlap(*v100, 900e9, overlaps);
  const OverlapFit overlap = fit_overlap(overlaps);
  out +=
      "overlap:\n  basis: \"GEMM and all-gather at once, 11 placements on each of A100-40 and V100-16: Mist d69e530 "
      "(Apache-2.0)\"\n"
      "  coefficients: {";
  for (std::size_t i = 0; i < overlap.values.size(); ++i)
    out += (i ? ", " : "") + std::string(overlap.values[i].first->name) + ": " + format("%.4g", overlap.values[i].second);
  out += "}\n  residuals: " + written(overlap.residuals) + "\nnetworks:\n";
  const auto network = fit_network(*a100);
  if (!network) return network.error();
  for (cluster::FabricCalibration c : before.networks) {
    cluster::FabricCalibration merged;
    merged.basis = c.basis;
    merged.kind = c.kind;
    // On a TCP network, the time of a hop does not transfer to other networks.
    for (const auto& v : network->calibration.values)
      if (c.kind == FabricKind::ethernet || v.first->name == "efficiency" || v.first->name == "congestion")
        merged.values.push_back(v);
    merge(c, merged);
    write(out, "kind: " + std::string(to_string(c.kind)), merged, &network->residuals);
  }
  const auto playbook = load_table(directory, "collectives_playbook.csv");
  if (!playbook) return playbook.error();
  const auto shared = fit_playbook(*playbook);
  if (!shared) return shared.error();
  out += "clusters:\n";
  write(out, "cluster: " + shared->calibration.fabric, shared->calibration, &shared->residuals);
  out += "fabrics:\n";
  std::vector<std::string> fitted;
  for (const FabricSource& source : sources()) {
    auto f = fit_source(directory, source);
    if (!f) return f.error();
    for (const cluster::FabricCalibration& c : before.fabrics)
      if (c.fabric == source.fabric) merge(c, f->calibration);
    write(out, "fabric: " + f->calibration.fabric, f->calibration, &f->residuals);
    fitted.push_back(f->calibration.fabric);
  }
  for (const cluster::FabricCalibration& c : before.fabrics)
    if (std::find(fitted.begin(), fitted.end(), c.fabric) == fitted.end()) write(out, "fabric: " + c.fabric, c, nullptr);
  return out;
}

}  // namespace espalier::lab
