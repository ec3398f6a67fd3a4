// SPDX-License-Identifier: Apache-2.0
#include "lab/training_fit.h"
#include "cluster/operand_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include "calibrate/least_squares.h"
#include "cluster/calibration.h"
#include "cluster/catalogue.h"

namespace espalier::lab {
namespace {

struct Field {
  std::string_view name;
  double DeviceEfficiency::*member = nullptr;
  double low = 0, high = 1, prior = 1, sigma = 0.1;
};
const cluster::EfficiencyField& catalogued(std::string_view name) {
  const auto fields = cluster::efficiency_fields();
  return *std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.name == name; });
}

constexpr std::array<std::string_view, 3> kNames = {"sustained", "sustained_fp8", "attention_backward"};

/// Holds one scalar of the fit and the devices that share it.
struct Scalar {
  Field field;
  std::vector<std::string> devices;
};

bool teaches(const calibrate::CorpusRow& row, const std::string& without) {
  return calibrate::teaches(row) && row.family != without && row.run.job.cluster.groups.size() == 1;
}

/// Holds rows of one architecture by engine. For a family on one device only every n-th row is used, so that at most
/// kMostOfOne remain. They have the weight of a few rows anyway.
using RowsByEngine = std::map<std::string, std::vector<const calibrate::CorpusRow*>>;
constexpr std::size_t kMostOfOne = 120;
using Views = std::vector<const calibrate::CorpusRow*>;
RowsByEngine rows_of(const Views& rows, const std::vector<std::string>& kin) {
  std::map<std::string, Views> by_source;
  for (const calibrate::CorpusRow* row : rows)
    if (std::find(kin.begin(), kin.end(), row->device) != kin.end()) by_source[row->family + "|" + row->device].push_back(row);
  RowsByEngine out;
  for (const auto& [source, list] : by_source) {
    const std::size_t step = (list.size() + kMostOfOne - 1) / kMostOfOne;
    for (std::size_t i = 0; i < list.size(); i += step) out[list[i]->engine].push_back(list[i]);
  }
  return out;
}

/// Returns the prior of the catalogue with a range that is physically possible. Tables measure kernels back to back
/// at the power limit of small devices, which lowers their clocks. In training, memory-bound kernels run in between
/// and the clocks are higher, so a rate above the table's is possible.
Field field(std::string_view name, const DeviceEfficiency& known, double low, double high, double sigma) {
  const cluster::EfficiencyField& f = catalogued(name);
  return {name, f.member, low, high, std::clamp(known.*f.member, low, high), sigma};
}

std::vector<Scalar> scalars_of(const RowsByEngine& rows, const std::vector<std::string>& kin, bool from_rows) {
  std::map<std::vector<std::string>, DeviceEfficiency> all;
  std::set<std::vector<std::string>> eight;
  for (const auto& [engine, list] : rows)
    for (const calibrate::CorpusRow* row : list) {
      const std::vector<std::string> chip = chip_of(row->device);
      all.try_emplace(
          chip, from_rows ? row->run.job.cluster.groups.front().device.efficiency : cluster::prior_efficiency(chip.front()));
      if (cluster::operand_format(row->run.job.training.precision).cast) eight.insert(chip);
    }
  std::vector<Scalar> out;
  for (const auto& [chip, known] : all) {
    out.push_back({field("sustained", known, 0.6, 1.25, 0.08), chip});
    if (eight.contains(chip)) out.push_back({field("sustained_fp8", known, 0.75, 1.2, 0.08), chip});
  }
  if (!all.empty())
    out.push_back(
        {field("attention_backward", from_rows ? all.begin()->second : cluster::prior_efficiency(kin.front()), 0.3, 2.0, 0.25),
         kin});
  return out;
}

void put(DeviceEfficiency& e, const std::string& device, const std::vector<Scalar>& scalars, std::span<const double> x) {
  for (std::size_t j = 0; j < scalars.size(); ++j)
    if (std::find(scalars[j].devices.begin(), scalars[j].devices.end(), device) != scalars[j].devices.end())
      e.*scalars[j].field.member = x[j];
}

/// Predicts rows of one engine with the devices changed. `rows` are copies that this call may change.
std::vector<double> seconds_on(std::vector<calibrate::CorpusRow>& rows, const FrameworkCoefficients& coefficients,
                               const std::vector<Scalar>& scalars, std::span<const double> x, int threads) {
  std::vector<const calibrate::CorpusRow*> views;
  for (calibrate::CorpusRow& row : rows) {
    for (NodeGroup& group : row.run.job.cluster.groups) put(group.device.efficiency, group.device.name, scalars, x);
    views.push_back(&row);
  }
  return calibrate::predicted_s(views, coefficients, threads);
}

/// Holds the rows that are fitted: copies by engine, and their weights in the same order.
struct TrainingLesson {
  std::map<std::string, std::vector<calibrate::CorpusRow>> rows;
  std::vector<double> weight;
};
TrainingLesson lesson_of(const RowsByEngine& rows, const std::map<std::string, FrameworkCoefficients>& coefficients,
                         double most_rows) {
  std::map<std::string, double> total;
  for (const auto& [engine, list] : rows)
    for (const calibrate::CorpusRow* row : list)
      if (coefficients.contains(engine)) total[row->family + "|" + row->device] += row->weight;
  TrainingLesson lesson;
  for (const auto& [engine, list] : rows) {
    if (!coefficients.contains(engine)) continue;
    for (const calibrate::CorpusRow* row : list) {
      lesson.rows[engine].push_back(*row);
      lesson.weight.push_back(row->weight * std::min(1.0, most_rows / total[row->family + "|" + row->device]));
    }
  }
  return lesson;
}

std::string families_of(const TrainingLesson& lesson, const std::vector<std::string>& devices) {
  std::set<std::string> families;
  for (const auto& [engine, rows] : lesson.rows)
    for (const calibrate::CorpusRow& row : rows)
      if (std::find(devices.begin(), devices.end(), row.device) != devices.end()) families.insert(row.family);
  std::string out;
  for (const std::string& f : families) out += (out.empty() ? "" : ", ") + f;
  return out;
}

void keep(const std::vector<Scalar>& scalars, const calibrate::FitResult& solved, const TrainingLesson& lesson,
          TrainingFit& fit) {
  for (std::size_t j = 0; j < scalars.size(); ++j) {
    for (const std::string& device : scalars[j].devices) {
      const std::pair<std::string, std::string> key(device, scalars[j].field.name);
      fit.values[key] = solved.values[j];
      fit.sigma[key] = solved.standard_error[j];
      fit.sources[key] = families_of(lesson, scalars[j].devices);
    }
  }
}

void fit_architecture(const RowsByEngine& rows, const std::vector<std::string>& kin,
                      const std::map<std::string, FrameworkCoefficients>& coefficients, const TrainingFitOptions& options,
                      TrainingFit& fit) {
  const std::vector<Scalar> scalars = scalars_of(rows, kin, options.from_rows);
  TrainingLesson lesson = lesson_of(rows, coefficients, options.most_rows);
  if (lesson.weight.empty()) return;
  std::vector<calibrate::FitParameter> parameters;
  for (const Scalar& s : scalars)
    parameters.push_back(
        {std::string(s.field.name), s.field.prior, s.field.low, s.field.high, true, s.field.prior, s.field.sigma});
  calibrate::FitOptions solver;
  solver.huber = kTrainingHuber;
  solver.far = kTrainingFar;
  solver.iterations = 8;
  solver.tolerance = 1e-3;
  solver.difference = 1e-3;
  solver.weight = lesson.weight;
  const auto residuals = [&](std::span<const double> x, std::span<double> r) {
    std::size_t i = 0;
    for (auto& [engine, list] : lesson.rows) {
      const std::vector<double> t = seconds_on(list, coefficients.at(engine), scalars, x, options.threads);
      for (std::size_t k = 0; k < t.size(); ++k, ++i)
        r[i] = std::isfinite(t[k]) ? std::log(t[k] / *list[k].result.measured_s) / options.noise : 0.0;
    }
  };
  keep(scalars, calibrate::least_squares(parameters, lesson.weight.size(), residuals, solver), lesson, fit);
}

/// Returns the architectures, and each other device of the rows as a group of its own.
std::vector<std::vector<std::string>> kins_of(const Views& rows) {
  std::vector<std::vector<std::string>> out = architectures();
  for (const calibrate::CorpusRow* row : rows) {
    const bool known = std::any_of(out.begin(), out.end(), [&](const std::vector<std::string>& kin) {
      return std::find(kin.begin(), kin.end(), row->device) != kin.end();
    });
    if (!known) out.push_back({row->device});
  }
  return out;
}

}  // namespace

const std::vector<std::vector<std::string>>& architectures() {
  static const std::vector<std::vector<std::string>> all = {
      {"a100-sxm-80gb", "a100-sxm-40gb", "a100-pcie-80gb", "a100-pcie-40gb", "a800"},
      {"h100-sxm-80gb", "h100-500w", "h100-pcie-80gb", "h100-nvl", "h200-sxm", "gh200", "h800"},
      {"b200-sxm", "gb200-nvl72", "b300", "gb300"},
      {"v100-sxm-16gb", "v100-sxm-32gb"},
  };
  return all;
}

const std::vector<std::vector<std::string>>& chips() {
  static const std::vector<std::vector<std::string>> all = {
      {"a100-sxm-80gb", "a800"},
      {"h100-sxm-80gb", "h800", "h200-sxm"},
      {"v100-sxm-16gb", "v100-sxm-32gb"},
  };
  return all;
}

std::vector<std::string> chip_of(const std::string& device) {
  for (const std::vector<std::string>& chip : chips())
    if (std::find(chip.begin(), chip.end(), device) != chip.end()) return chip;
  return {device};
}

TrainingFit fit_training(const std::vector<const calibrate::CorpusRow*>& rows,
                         const std::map<std::string, FrameworkCoefficients>& coefficients, const TrainingFitOptions& options) {
  TrainingFit fit;
  for (const std::vector<std::string>& kin : kins_of(rows)) fit_architecture(rows_of(rows, kin), kin, coefficients, options, fit);
  return fit;
}

TrainingFit fit_training(const calibrate::Corpus& corpus, const std::map<std::string, FrameworkCoefficients>& coefficients,
                         const std::string& without, const TrainingFitOptions& options) {
  Views rows;
  for (const calibrate::CorpusRow& row : corpus.rows)
    if (teaches(row, without)) rows.push_back(&row);
  return fit_training(rows, coefficients, options);
}

void put_training_values(calibrate::CorpusRow& row, const TrainingValues& values) {
  for (NodeGroup& group : row.run.job.cluster.groups)
    for (const std::string_view name : kNames)
      if (const auto at = values.find({group.device.name, std::string(name)}); at != values.end())
        group.device.efficiency.*catalogued(name).member = at->second;
}

void set_training_values(calibrate::Corpus& corpus, const TrainingValues& values) {
  for (calibrate::CorpusRow& row : corpus.rows) {
    for (NodeGroup& group : row.run.job.cluster.groups)
      for (const std::string_view name : kNames)
        group.device.efficiency.*catalogued(name).member = cluster::prior_efficiency(group.device.name).*catalogued(name).member;
    put_training_values(row, values);
  }
}

}  // namespace espalier::lab
