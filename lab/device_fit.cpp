// SPDX-License-Identifier: Apache-2.0
#include "lab/device_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "base/invariant.h"
#include "base/statistics.h"
#include "calibrate/least_squares.h"
#include "cluster/calibration.h"
#include "cost/operator_cost.h"

namespace espalier::lab {
namespace {

constexpr std::size_t kKeptRows = 600;  // approximate rows kept of a table
constexpr double kOtherShapes =
    0.01;  // weight of a row with a shape outside training; it decides only where training gives no data
constexpr double kDeviceHuber = 0.1;  // beyond an error of 10 % the loss is linear
constexpr double kLargeProduct = 1e12,
                 kLeastShare = 0.05;  // operations of a product with weight 1; least weight

/// Holds one measured operator and predicts it from the trial device and the parameters of its program.
struct Sample {
  double seconds = 0;
  bool kept = true;      ///< fitted if true, held out otherwise
  bool training = true;  ///< training uses this shape
  double weight = 1;     ///< applies where `training` is set
  std::function<double(const cost::DeviceRates&, std::span<const double>)> predict;
};

/// Holds samples, the coefficients that they determine, and the parameters of their program.
struct Problem {
  std::string table, what;
  Precision precision = Precision::bf16;
  std::vector<std::string> shipped;              ///< names in efficiency_fields(), or "kernel_floor_us"
  std::vector<calibrate::FitParameter> program;  ///< fitted but not shipped
  std::vector<Sample> samples;
};

DeviceKind isolated(const std::string& name) {
  const DeviceKind* known = find_device(name);
  ESPALIER_CHECK(known != nullptr);
  DeviceKind device = *known;
  // Starts from priors, not from earlier fits, so that the result does not depend on the shipped file. The tables
  // hold isolated kernels, so nothing is lost to training.
  for (const auto& field : cluster::efficiency_fields()) device.efficiency.*field.member = field.prior;
  device.efficiency.sustained = 1.0;
  device.efficiency.kernel_floor = Seconds(3e-6);
  return device;
}

void set(DeviceKind& device, const std::string& name, double value) {
  if (name == "kernel_floor_us") {
    device.efficiency.kernel_floor = Seconds(value * 1e-6);
    return;
  }
  for (const auto& field : cluster::efficiency_fields())
    if (field.name == name) device.efficiency.*field.member = value;
}

calibrate::FitParameter parameter_of(const std::string& name) {
  if (name == "kernel_floor_us") return {name, 3.0, 0.5, 40.0, true, 3.0, 1.0};
  for (const auto& field : cluster::efficiency_fields())
    if (field.name == name)
      return {name, field.prior, std::max(field.low, 1e-3 * field.prior), field.high, true, field.prior, 3 * field.sigma};
  ESPALIER_CHECK(false);
  return {};
}

/// Returns medians and 90th percentiles over the rows that were not fitted.
OperatorResidual residual_of(const Problem& problem, const std::vector<double>& errors) {
  OperatorResidual out{problem.table, problem.what, 0, 0, 0, 0, 0, 0};
  for (const Sample& s : problem.samples) ++(s.kept ? out.fitted : out.held_out);
  std::vector<double> all, training;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (problem.samples[i].kept && out.held_out > 0) continue;
    all.push_back(std::abs(errors[i]));
    if (problem.samples[i].training) training.push_back(std::abs(errors[i]));
  }
  out.median = base::quantile(all, 0.5);
  out.p90 = base::quantile(all, 0.9);
  out.training_median = base::quantile(training, 0.5);
  out.training_p90 = base::quantile(training, 0.9);
  return out;
}

/// Fits one problem and writes its coefficients to `device` and `fit`.
void solve(const Problem& problem, DeviceKind& device, DeviceFit& fit) {
  if (problem.samples.empty()) return;
  std::vector<calibrate::FitParameter> parameters;
  for (const std::string& name : problem.shipped) parameters.push_back(parameter_of(name));
  parameters.insert(parameters.end(), problem.program.begin(), problem.program.end());
  std::vector<const Sample*> kept;
  calibrate::FitOptions options;
  options.huber = kDeviceHuber;
  for (const Sample& s : problem.samples)
    if (s.kept) {
      kept.push_back(&s);
      options.weight.push_back(s.training ? s.weight : kOtherShapes);
    }
  const auto errors = [&](std::span<const double> x, const auto& samples, std::span<double> out) {
    DeviceKind trial = device;
    for (std::size_t j = 0; j < problem.shipped.size(); ++j) set(trial, problem.shipped[j], x[j]);
    const cost::DeviceRates rates = cost::rates_of(trial, problem.precision);
    for (std::size_t i = 0; i < samples.size(); ++i)
      out[i] = std::log(samples[i]->predict(rates, x.subspan(problem.shipped.size())) / samples[i]->seconds);
  };
  const calibrate::FitResult result = calibrate::least_squares(
      parameters, kept.size(), [&](std::span<const double> x, std::span<double> out) { errors(x, kept, out); }, options);
  for (std::size_t j = 0; j < problem.shipped.size(); ++j) {
    set(device, problem.shipped[j], result.values[j]);
    fit.values.push_back({problem.shipped[j], result.values[j], result.standard_error[j]});
  }
  std::vector<const Sample*> all;
  for (const Sample& s : problem.samples) all.push_back(&s);
  std::vector<double> every(all.size());
  errors(result.values, all, every);
  fit.residuals.push_back(residual_of(problem, every));
}

calibrate::FitParameter nuisance(const char* name, double start, double low, double high) {
  return {name, start, low, high, true, start, 1.5};
}

/// Builds the GEMM problem of one precision. The fp8 rows include scaling and casting of the input: two kernels
/// over M·K elements.
Problem gemm_problem(const OperatorTable& table, bool fp8) {
  Problem p;
  p.table = table.name;
  p.what = fp8 ? "fp8 GEMM with its casts" : "bf16 GEMM";
  p.precision = fp8 ? Precision::fp8 : Precision::bf16;
  if (fp8) {
    p.shipped = {"gemm_fp8"};
    p.program = {nuisance("fixed_us", 12, 1, 60), nuisance("cast_bytes", 6, 1, 30)};
  } else {
    p.shipped = {"gemm_max", "gemm_memory", "kernel_floor_us"};
  }
  const std::uint64_t step = thinning_of(table);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.text(i, "dtype") != (fp8 ? "fp8" : "bfloat16")) continue;
    const double m = table.number(i, "m"), n = table.number(i, "n"), k = table.number(i, "k");
    if (std::fmod(m, 8) != 0) continue;  // token counts that training uses
    Sample s;
    s.seconds = table.number(i, "latency_ms") * 1e-3;
    s.kept = row_hash(table.lines[i]) % step == 0;
    s.training = m >= 1024 && n >= 512 && k >= 512;
    // A training step spends its time in large products.
    s.weight = std::clamp(std::sqrt(2 * m * n * k / kLargeProduct), kLeastShare, 1.0);
    s.predict = [m, n, k, fp8](const cost::DeviceRates& d, std::span<const double> q) {
      if (!fp8) return cost::gemm_s(d, d.gemm, m, n, k, 2);
      return cost::gemm_s(d, d.gemm, m, n, k, 1) - d.floor + q[0] * 1e-6 + q[1] * m * k / d.memory;
    };
    p.samples.push_back(std::move(s));
  }
  return p;
}

/// Builds the problem of causal forward attention without a window. The tables' program also writes the cache of keys
/// and values, whose bytes are a parameter of their own.
Problem attention_problem(const OperatorTable& table) {
  Problem p;
  p.table = table.name;
  p.what = "fused causal attention forward";
  p.shipped = {"attention_max", "attention_prologue", "attention_rows"};
  p.program = {nuisance("fixed_us", 12, 1, 60), nuisance("cache_bytes", 0.5, 0.001, 10)};
  const std::uint64_t step = thinning_of(table);
  bool sizes = false;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const double size = table.number(i, "head_dim"), heads = table.number(i, "heads"), kv = table.number(i, "kv_heads");
    if (table.number(i, "window") != 0 || size > 128) continue;
    sizes |= size != 128;
    const double sequence = table.number(i, "seq"), batch = table.number(i, "batch"), rows = batch * heads * sequence;
    const double kv_bytes = 4 * batch * kv * sequence * size;
    const cost::AttentionCall shape{rows, cost::mean_keys(sequence, 0, true), sequence, 2 * size, 4 * rows * size + kv_bytes};
    Sample s;
    s.seconds = table.number(i, "latency_ms") * 1e-3;
    s.kept = row_hash(table.lines[i]) % step == 0;
    s.training = sequence >= 1024 && batch * heads >= 8;
    s.predict = [shape, kv_bytes](const cost::DeviceRates& d, std::span<const double> q) {
      return cost::attention_forward_s(d, shape) - d.floor + q[0] * 1e-6 + q[1] * kv_bytes / d.memory;
    };
    p.samples.push_back(std::move(s));
  }
  if (sizes) p.shipped.push_back("attention_softmax");  // one head size cannot determine it
  return p;
}

/// Builds the problem of the experts on one rank with balanced tokens. It has two grouped GEMMs (the first for gate
/// and up) and permutes tokens before and after.
Problem expert_problem(const OperatorTable& table) {
  Problem p;
  p.table = table.name;
  p.what = "experts forward, balanced";
  p.shipped = {"gemm_grouped"};
  p.program = {nuisance("fixed_us", 30, 2, 300), nuisance("permute", 2.5, 0.2, 15)};
  const std::uint64_t step = thinning_of(table);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const double ep = table.number(i, "moe_ep"), tp = table.number(i, "moe_tp");
    if (table.text(i, "distribution") != "balanced" || table.text(i, "dtype") != "bfloat16") continue;
    const double tokens = table.number(i, "tokens"), hidden = table.number(i, "hidden"),
                 width = table.number(i, "expert_ffn") / tp;
    const double experts = table.number(i, "experts") / ep, copies = tokens * table.number(i, "topk") / ep,
                 each = copies / experts;
    Sample s;
    s.seconds = table.number(i, "latency_ms") * 1e-3;
    s.kept = row_hash(table.lines[i]) % step == 0;
    s.training = each >= 128 && copies >= 4096;
    s.predict = [=](const cost::DeviceRates& d, std::span<const double> q) {
      const double first = cost::batched_gemm_s(d, d.grouped, experts, each, 2 * width, hidden, 2);
      const double second = cost::batched_gemm_s(d, d.grouped, experts, each, hidden, width, 2);
      return first + second - 2 * d.floor + q[0] * 1e-6 + q[1] * 4 * (copies + tokens) * hidden / d.memory;
    };
    p.samples.push_back(std::move(s));
  }
  return p;
}

struct GptShape {
  double hidden, heads;
};
/// Returns GPT shapes by the names that the profiles of Mist (ASPLOS 2025) and Aceso (EuroSys 2024) use.
const std::map<std::string, GptShape>& gpt_shapes() {
  static const std::map<std::string, GptShape> shapes = {{"350M", {1024, 16}}, {"1_3B", {2048, 32}}, {"2_6B", {2560, 32}},
                                                         {"6_7B", {4096, 32}}, {"13B", {5120, 40}},  {"20B", {6144, 64}},
                                                         {"22B", {6144, 48}},  {"40B", {8192, 64}}};
  return shapes;
}

/// Holds one row of a profile of GPT operators, forward pass.
struct GptRow {
  std::string op;
  double tokens, sequence, hidden, heads, tp, seconds;
  bool kept;
};

std::vector<GptRow> gpt_rows(const OperatorTable& table, const std::string& hardware) {
  const bool aceso = table.has("gpt_size");
  const double sequence = hardware.rfind("a100", 0) == 0 ? 4096 : 2048;  // from the profiles' run configurations
  const std::uint64_t step = thinning_of(table);
  std::vector<GptRow> out;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (!aceso && table.text(i, "hw") != hardware) continue;
    const auto shape = gpt_shapes().find(table.text(i, aceso ? "gpt_size" : "model"));
    const double tp = table.number(i, "tp");
    if (shape == gpt_shapes().end() || table.number(i, "algo") != 0) continue;
    out.push_back({table.text(i, aceso ? "op_name" : "op"), sequence * table.number(i, "mbs"), sequence, shape->second.hidden,
                   shape->second.heads, tp, table.number(i, "fwd_us") * 1e-6, row_hash(table.lines[i]) % step == 0});
  }
  return out;
}

Sample gpt_sample(const GptRow& row) {
  Sample s;
  s.seconds = row.seconds;
  s.kept = row.kept;
  return s;
}

/// Uses column linears at any split and row linears unsplit, since split ones include an all-reduce. The profile ran
/// eagerly, so each call costs 20 µs or more.
Problem gpt_gemm_problem(const OperatorTable& table, const std::string& hardware, bool fit_rate) {
  Problem p;
  p.table = table.name;
  p.what = "fp16 GEMM, " + hardware;
  p.precision = Precision::fp16;
  if (fit_rate) p.shipped = {"gemm_max"};
  p.program = {nuisance("fixed_us", 15, 1, 60)};
  for (const GptRow& r : gpt_rows(table, hardware)) {
    double n = 0, k = r.hidden;
    if (r.op == "enc-attention-qkv") n = 3 * r.hidden / r.tp;
    if (r.op == "enc-MLP-GEMM-1") n = 4 * r.hidden / r.tp;
    if (r.op == "enc-attention-dense" && r.tp == 1) n = r.hidden;
    if (r.op == "enc-MLP-GEMM-2" && r.tp == 1) {
      n = r.hidden;
      k = 4 * r.hidden;
    }
    if (n == 0) continue;
    Sample s = gpt_sample(r);
    // The profile's operators add the bias in the same kernel or in a separate one, which is one pass
    // over the result.
    s.predict = [m = r.tokens, n, k](const cost::DeviceRates& d, std::span<const double> q) {
      return cost::gemm_s(d, d.gemm, m, n, k, 2) - d.floor + q[0] * 1e-6;
    };
    p.samples.push_back(std::move(s));
  }
  return p;
}

Problem gpt_batched_problem(const OperatorTable& table, const std::string& hardware) {
  Problem p;
  p.table = table.name;
  p.what = "products of unfused attention, " + hardware;
  p.precision = Precision::fp16;
  p.shipped = {"gemm_batched"};
  p.program = {nuisance("fixed_us", 15, 1, 60)};
  for (const GptRow& r : gpt_rows(table, hardware)) {
    const bool scores = r.op == "enc-attention-score";
    if (!scores && r.op != "enc-attention-context") continue;
    const double batch = r.heads / r.tp * r.tokens / r.sequence, size = r.hidden / r.heads, n = scores ? r.sequence : size,
                 k = scores ? size : r.sequence;
    Sample s = gpt_sample(r);
    s.predict = [batch, m = r.sequence, n, k](const cost::DeviceRates& d, std::span<const double> q) {
      return cost::batched_gemm_s(d, d.batched, batch, m, n, k, 2) - d.floor + q[0] * 1e-6;
    };
    p.samples.push_back(std::move(s));
  }
  return p;
}

/// Uses memory-bound operators whose bytes are certain. Causal softmax moves 3 bytes a score (4 beyond the 2048 keys
/// of the fused kernel), its dropout 5 a score, and the activation 4 an element.
Problem gpt_memory_problem(const OperatorTable& table, const std::string& hardware) {
  Problem p;
  p.table = table.name;
  p.what = "softmax, dropout, activation, " + hardware;
  p.precision = Precision::fp16;
  p.shipped = {"memory_max"};
  p.program = {nuisance("fixed_us", 15, 1, 60)};
  for (const GptRow& r : gpt_rows(table, hardware)) {
    const double scores = r.heads / r.tp * r.tokens * r.sequence;
    double bytes = 0;
    if (r.op == "enc-attention-softmax" && r.sequence <= 2048) bytes = 3 * scores;
    if (r.op == "enc-attention-dropout") bytes = 5 * scores;
    if (r.op == "enc-MLP-gelu") bytes = 4 * r.tokens * 4 * r.hidden / r.tp;
    if (bytes == 0) continue;
    Sample s = gpt_sample(r);
    s.predict = [bytes](const cost::DeviceRates& d, std::span<const double> q) {
      return cost::memory_bound_s(d, bytes) - d.floor + q[0] * 1e-6;
    };
    p.samples.push_back(std::move(s));
  }
  return p;
}

std::string number(double x, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, x);
  return text.data();
}
std::string percent(double x) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * x);
  return text.data();
}

}  // namespace

const std::vector<DeviceTables>& device_tables() {
  static const std::vector<DeviceTables> tables = {
      {"a100-sxm-80gb", "aic_gemm_a100.csv", "aic_attention_fwd_a100.csv", "", "", "", "a100-sxm-40gb"},
      {"a100-sxm-40gb", "", "", "", "mist_aceso_gpt_op_profile.csv", "a100-sxm4-40gb", "a100-sxm-80gb"},
      {"a10g", "", "", "", "mist_aceso_gpt_op_profile.csv", "a10g", ""},
      {"b200-sxm", "aic_gemm_b200.csv", "aic_attention_fwd_b200.csv", "aic_moe_fwd_b200.csv", "", "", ""},
      {"gb200-nvl72", "aic_gemm_gb200.csv", "aic_attention_fwd_gb200.csv", "aic_moe_fwd_gb200.csv", "", "", ""},
      {"h100-sxm-80gb", "aic_gemm_h100.csv", "aic_attention_fwd_h100.csv", "aic_moe_fwd_h100.csv", "", "", ""},
      {"h200-sxm", "aic_gemm_h200.csv", "aic_attention_fwd_h200.csv", "aic_moe_fwd_h200.csv", "", "", ""},
      {"gh200", "", "", "", "", "", "h200-sxm"},
      // Blackwell Ultra doubles the exponentials per clock cycle
      // (developer.nvidia.com/blog/making-softmax-more-efficient-with-nvidia-blackwell-ultra).
      {"b300", "", "", "", "", "", "b200-sxm", 2},
      {"gb300", "", "", "", "", "", "gb200-nvl72", 2},
      {"h100-500w", "", "", "", "", "", "h100-sxm-80gb"},
      {"h800", "", "", "", "", "", "h100-sxm-80gb"},
      {"a800", "", "", "", "", "", "a100-sxm-80gb"},
      {"l4", "", "", "", "mist_aceso_gpt_op_profile.csv", "l4", ""},
      {"v100-sxm-16gb", "", "", "", "aceso_v100_gpt_op_profile.csv", "v100", ""},
      {"v100-sxm-32gb", "", "", "", "mist_aceso_gpt_op_profile.csv", "v100-sxm2-32gb-seq2048", ""},
  };
  return tables;
}

std::uint64_t thinning_of(const OperatorTable& table) {
  // Looked up by name, not by length, so that a thinned table is not thinned again.
  static const std::map<std::string, std::uint64_t> rows = {{"aic_gemm_a100.csv", 4840},
                                                            {"aic_gemm_h100.csv", 61425},
                                                            {"aic_gemm_h200.csv", 61425},
                                                            {"aic_gemm_b200.csv", 61264},
                                                            {"aic_gemm_gb200.csv", 61170},
                                                            {"aic_attention_fwd_a100.csv", 3248},
                                                            {"aic_attention_fwd_h100.csv", 20825},
                                                            {"aic_attention_fwd_h200.csv", 20823},
                                                            {"aic_attention_fwd_b200.csv", 26113},
                                                            {"aic_attention_fwd_gb200.csv", 26048},
                                                            {"aic_moe_fwd_a100.csv", 4172},
                                                            {"aic_moe_fwd_h100.csv", 12837},
                                                            {"aic_moe_fwd_h200.csv", 11550},
                                                            {"aic_moe_fwd_b200.csv", 12917},
                                                            {"aic_moe_fwd_gb200.csv", 12837},
                                                            {"mist_aceso_gpt_op_profile.csv", 2400},
                                                            {"aceso_v100_gpt_op_profile.csv", 1200}};
  const auto found = rows.find(table.name);
  return found == rows.end() ? 1 : std::max<std::uint64_t>(1, found->second / kKeptRows);
}

Result<DeviceFit> fit_device(const DeviceTables& tables, const std::string& directory, const std::vector<DeviceFit>& earlier) {
  DeviceFit fit;
  fit.device = tables.device;
  fit.twin = tables.twin;
  fit.exponentials = tables.exponentials;
  DeviceKind device = isolated(tables.device);
  for (const DeviceFit& other : earlier)
    if (other.device == tables.twin)
      for (const FittedValue& v : other.values) set(device, v.name, v.value);
  using T = const OperatorTable&;
  const auto run = [&](const std::string& name, const std::vector<std::function<Problem(T)>>& problems) -> Status {
    if (name.empty()) return {};
    const auto table = load_table(directory, name);
    if (!table) return table.error();
    for (const auto& problem : problems) solve(problem(*table), device, fit);
    return {};
  };
  // The twin's kernels were measured in isolation, which is better than a profile of eager operators.
  const bool known = !tables.twin.empty();
  if (Status status = run(tables.gemm, {[](T t) { return gemm_problem(t, false); }, [](T t) { return gemm_problem(t, true); }});
      !status.ok())
    return status.error();
  if (Status status = run(tables.operators, {[&](T t) { return gpt_memory_problem(t, tables.hardware); },
                                             [&](T t) { return gpt_gemm_problem(t, tables.hardware, !known); },
                                             [&](T t) { return gpt_batched_problem(t, tables.hardware); }});
      !status.ok())
    return status.error();
  if (Status status = run(tables.attention, {attention_problem}); !status.ok()) return status.error();
  if (Status status = run(tables.moe, {expert_problem}); !status.ok()) return status.error();
  if (!tables.gemm.empty())
    fit.range =
        "GEMMs of M 128 to 32768, N and K 32 to 65536; causal attention forward of head size 64 and 128, 256 to 16384 tokens, 1 "
        "to 96 "
        "heads; experts of hidden 2048 to 7168. Judged for training at M 1024 and more, 1024 tokens and more, 128 copies an "
        "expert "
        "and more";
  else if (!tables.operators.empty())
    fit.range = "fp16 operators of GPT layers, hidden 1024 to 8192, 2048 or 4096 tokens, 1 to 8 samples";
  return fit;
}

namespace {
/// Adapts attention to a device that computes exponentials faster than the device that `fit` was measured on.
/// d½ (operator_cost.h) shrinks. A, the rate at head size 128, grows so that the products keep their rate
/// A·(1 + d½/128).
void scale_exponentials(DeviceFit& fit) {
  const auto value = [&](std::string_view name) {
    return std::find_if(fit.values.begin(), fit.values.end(), [&](const FittedValue& v) { return v.name == name; });
  };
  const auto rate = value("attention_max"), half = value("attention_softmax");
  if (fit.exponentials == 1 || rate == fit.values.end() || half == fit.values.end()) return;
  const double products = rate->value * (1 + half->value / 128);
  half->value /= fit.exponentials;
  rate->value = products / (1 + half->value / 128);
}
}  // namespace

Result<std::vector<DeviceFit>> fit_devices(const std::string& directory) {
  std::vector<DeviceFit> fits;
  for (const DeviceTables& tables : device_tables()) {
    auto fit = fit_device(tables, directory, fits);
    if (!fit) return fit.error();
    fits.push_back(*fit);
  }
  const std::vector<DeviceFit> own = fits;
  for (DeviceFit& fit : fits)
    for (const DeviceFit& other : own) {
      if (other.device != fit.twin) continue;
      const auto has = [&](const FittedValue& v) {
        return std::any_of(fit.values.begin(), fit.values.end(), [&](const FittedValue& mine) { return mine.name == v.name; });
      };
      for (const FittedValue& v : other.values)
        if (!has(v)) fit.values.push_back(v);
      scale_exponentials(fit);
      fit.range += (fit.range.empty() ? "" : "; ") + std::string("of ") + other.device + ": " + other.range;
    }
  return fits;
}

std::string calibration_yaml(const std::vector<DeviceFit>& fits) {
  std::string out =
      "# What was fitted of each device; fields, units, ranges: src/cluster/calibration.cpp, equations: "
      "src/cost/operator_cost.h.\n"
      "# Written by `./dev fit`; a field that is not listed, and a device that is not listed, has the prior of "
      "data/devices.yaml.\n"
      "# error: relative standard error of each scalar. residuals: |log(predicted/measured)| over rows that were not fitted.\n"
      "schema: espalier.device-calibration/1\ncalibrations:\n";
  for (const DeviceFit& fit : fits) {
    std::string values, errors, basis;
    for (const FittedValue& v : fit.values) {
      values += (values.empty() ? "" : ", ") + v.name + ": " + number(v.value, 4);
      errors += (errors.empty() ? "" : ", ") + v.name + ": " + number(v.standard_error, 2);
    }
    for (const OperatorResidual& r : fit.residuals)
      basis += (basis.empty() ? "" : "; ") + r.what + " off by " + percent(r.training_median) + " (median; p90 " +
               percent(r.training_p90) + ")";
    if (!fit.twin.empty()) basis += (basis.empty() ? "the rest as " : "; the rest as ") + fit.twin;
    if (fit.exponentials != 1)
      basis += ", attention at " + number(fit.exponentials, 2) + " times its exponentials (not measured)";
    out += "  - device: " + fit.device + "\n    basis: \"fitted to published operator times (data/operators): " + basis + "\"\n";
    out += "    range: \"" + fit.range + "\"\n    coefficients: {" + values + "}\n    error: {" + errors + "}\n";
    if (!fit.residuals.empty()) out += "    residuals:\n";
    for (const OperatorResidual& r : fit.residuals)
      out += "      - {table: " + r.table + ", operator: \"" + r.what + "\", fitted: " + std::to_string(r.fitted) +
             ", held_out: " + std::to_string(r.held_out) + ", median: " + number(r.median, 3) + ", p90: " + number(r.p90, 3) +
             ", training_median: " + number(r.training_median, 3) + ", training_p90: " + number(r.training_p90, 3) + "}\n";
  }
  return out;
}

}  // namespace espalier::lab
