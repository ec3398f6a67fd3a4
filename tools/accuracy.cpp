// SPDX-License-Identifier: Apache-2.0
// espalier-accuracy RUNS.jsonl …: fits framework coefficients and judges them under both protocols (lab/protocol.h).
//   --json FILE       write every row with its predictions
//   --write DIR       write frameworks.yaml and intervals.yaml of data/calibration
//   --untrusted NAME  do not use step times of sources that begin with NAME to fit other sources
//   --merge NAME      count sources that begin with NAME as one
//   --source-only     skip the grouped folds
//   --judge NAME      judge only the sources that begin with NAME, and print the coefficients that predict their
//                     engines; others have no figures
//   --shipped         fit no times: predict every row with the shipped coefficients (seconds instead of minutes);
//                     memory is judged under its protocols
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/parallel.h"
#include "lab/protocol.h"
#include "runs/run_statistics.h"

namespace {

using namespace espalier;
using namespace espalier::lab;

struct Arguments {
  std::vector<std::string> files;
  calibrate::SourceNotes notes;
  std::vector<std::string> judged;
  std::string json, write;
  bool grouped = true, fit = true;
};

struct Judgement {
  ErrorSummary error;
  RankingSummary ranking;
  double coverage = 0;
};

Judgement judge(const calibrate::Corpus& corpus, const std::vector<Judged>& judged,
                const std::function<bool(const calibrate::CorpusRow&)>& wanted) {
  std::vector<double> errors;
  std::map<std::string, std::vector<runs::Pair>> groups;
  int covered = 0;
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    const calibrate::CorpusRow& r = corpus.rows[i];
    if (!r.timed() || !(judged[i].predicted_s > 0) || !wanted(r)) continue;
    const double t = *r.result.measured_s;
    errors.push_back((judged[i].predicted_s - t) / t);
    groups[r.result.ranking_group].push_back({judged[i].predicted_s, t});
    covered += judged[i].low_s <= t && t <= judged[i].high_s;
  }
  Judgement j;
  j.error = runs::summarize(errors);
  std::vector<std::vector<runs::Pair>> lists;
  for (auto& [name, pairs] : groups) lists.push_back(std::move(pairs));
  j.ranking = runs::rank(lists);
  j.coverage = errors.empty() ? 0 : covered / static_cast<double>(errors.size());
  return j;
}

void print_line(const std::string& name, const char* protocol, const Judgement& j) {
  std::printf("%-52.52s %-4s %5lld  %6.1f %%  %5.1f %%  %6.1f %%  %+6.1f %%  %3lld %5.2f %6.1f %%  %5.1f %%\n", name.c_str(),
              protocol, static_cast<long long>(j.error.n), 100 * j.error.mean_accuracy, 100 * j.error.median_ape,
              100 * j.error.p90_ape, 100 * j.error.bias, static_cast<long long>(j.ranking.groups), j.ranking.kendall_tau,
              100 * j.ranking.mean_top1_regret, 100 * j.coverage);
}

void print_tables(const calibrate::Corpus& corpus, const Protocols& p, bool grouped) {
  std::printf("%-52s %-4s %5s  %8s  %7s  %8s  %8s  %s\n", "source", "", "n", "accuracy", "median", "p90", "bias",
              "groups tau regret coverage");
  const auto lines = [&](const std::string& name, const std::function<bool(const calibrate::CorpusRow&)>& wanted) {
    const Judgement shipped = judge(corpus, p.shipped, wanted);
    if (shipped.error.n == 0) return;
    print_line(name, "fit", shipped);
    print_line(name, "S", judge(corpus, p.source_out, wanted));
    if (grouped) print_line(name, "G", judge(corpus, p.grouped, wanted));
  };
  for (const std::string& family : corpus.families) {
    lines(family, [&](const calibrate::CorpusRow& r) { return r.family == family; });
    if (std::any_of(corpus.rows.begin(), corpus.rows.end(),
                    [&](const calibrate::CorpusRow& r) { return r.family == family && r.devices > 128; }))
      lines("  up to 128 GPUs", [&](const calibrate::CorpusRow& r) { return r.family == family && r.devices <= 128; });
  }
  lines("all", [](const calibrate::CorpusRow&) { return true; });
  for (const auto& [key, value] : p.training.values)
    std::printf("%-20s %-20s %.4g +- %.2g  %s\n", key.first.c_str(), key.second.c_str(), value, p.training.sigma.at(key),
                p.training.sources.at(key).c_str());
  for (const auto& [engine, fit] : p.fits) {
    std::printf("%-20s %lld rows (%.0f), %d fitted:", engine.c_str(), static_cast<long long>(fit.rows), fit.effective_rows,
                fit.fitted_scalars());
    for (std::size_t j = 0; j < coefficient_fields().size(); ++j) {
      const auto& f = coefficient_fields()[j];
      std::printf(" %s %.4g%s", std::string(f.name).c_str(), fit.value.*f.member, fit.fitted[j] ? "" : "(prior)");
    }
    std::printf("\n");
  }
}

void print_left_out(const Protocols& p) {
  for (const auto& [family, known] : p.left_out)
    for (const auto& [engine, c] : known.engines) {
      std::printf("without %s: %s", family.c_str(), engine.c_str());
      for (const auto& f : coefficient_fields()) std::printf(" %s %.4g", std::string(f.name).c_str(), c.*f.member);
      std::printf("\n");
    }
}

std::string framework_yaml(const calibrate::Corpus& corpus, const Protocols& p) {
  std::string out =
      "# What was fitted of each framework; fields, units and equations: src/plan/engine.h (FrameworkCoefficients), "
      "docs/accuracy.md.\n"
      "# Written by `./dev fit`; an engine that is not listed has the pooled ones.\n"
      "schema: espalier.framework-calibration/1\nsources:\n";
  std::set<std::string> sources;
  for (const calibrate::CorpusRow& r : corpus.rows)
    if (r.timed() && r.trusted) sources.insert(r.result.source);
  for (const std::string& source : sources) out += "  - {name: \"" + source + "\"}\n";
  out += "frameworks:\n";
  const auto entry = [&](const std::string& engine, const std::string& basis, const FrameworkCoefficients& c) {
    out += "  - engine: " + engine + "\n    basis: \"" + basis + "\"\n    coefficients: {";
    bool first = true;
    for (const auto& f : coefficient_fields()) {
      char text[64];
      std::snprintf(text, sizeof text, "%s%s: %.5g", first ? "" : ", ", std::string(f.name).c_str(), c.*f.member);
      out += text;
      first = false;
    }
    out += "}\n";
  };
  entry("pooled", "mean over engines: the prior of one that was never measured", p.pooled.center);
  for (const auto& [engine, fit] : p.fits)
    entry(engine, std::to_string(fit.rows) + " runs, " + std::to_string(fit.fitted_scalars()) + " coefficients fitted",
          fit.value);
  return out;
}

std::string training_yaml(const TrainingFit& fit) {
  std::string out =
      "# What training keeps of the rates of isolated kernels, by device; fields, ranges and priors: "
      "src/cluster/calibration.cpp, method: "
      "lab/training_fit.h.\n"
      "# Written by `./dev fit`; a field that is not listed has the prior of data/devices.yaml. error: relative standard error.\n"
      "schema: espalier.device-calibration/1\ncalibrations:\n";
  std::map<std::string, std::map<std::string, double>> devices;
  for (const auto& [key, value] : fit.values) devices[key.first][key.second] = value;
  for (const auto& [device, values] : devices) {
    std::string numbers, errors, basis;
    for (const auto& [name, value] : values) {
      char text[64];
      std::snprintf(text, sizeof text, "%s%s: %.4g", numbers.empty() ? "" : ", ", name.c_str(), value);
      numbers += text;
      std::snprintf(text, sizeof text, "%s%s: %.2g", errors.empty() ? "" : ", ", name.c_str(), fit.sigma.at({device, name}));
      errors += text;
      basis += (basis.empty() ? "" : "; ") + name + " from runs of " + fit.sources.at({device, name});
    }
    out += "  - device: " + device + "\n    basis: \"" + basis + "\"\n    coefficients: {" + numbers + "}\n    error: {" +
           errors + "}\n";
  }
  return out;
}

std::string intervals_yaml(const Protocols& p) {
  std::string out =
      "# 80 % intervals of predicted step time as factors; equation: src/planner/interval.h. Written by `./dev fit`.\n"
      "schema: espalier.intervals/1\nintervals:\n";
  for (const auto& [key, i] : p.intervals) {
    char text[256];
    std::snprintf(text, sizeof text, "  - {engine: \"%s\", device: \"%s\", low: %.4f, high: %.4f, runs: %lld}\n",
                  key.first.c_str(), key.second.c_str(), i.low, i.high, static_cast<long long>(i.runs));
    out += text;
  }
  return out;
}

void write_json(const std::string& path, const calibrate::Corpus& corpus, const Protocols& p) {
  std::ofstream out(path);
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    const calibrate::CorpusRow& r = corpus.rows[i];
    base::JsonWriter w;
    w.compact_next().begin_object();
    w.key("id").value(r.result.id).key("source").value(r.result.source).key("family").value(r.family);
    w.key("engine").value(r.result.engine).key("device").value(r.device).key("devices").value(r.devices);
    w.key("group").value(r.group).key("ranking_group").value(r.result.ranking_group).key("label").value(r.result.label);
    if (r.timed() && p.source_out[i].predicted_s > 0) {
      w.key("measured_s").value(*r.result.measured_s).key("shipped_s").value(p.shipped[i].predicted_s);
      w.key("source_out_s").value(p.source_out[i].predicted_s).key("source_out_low_s").value(p.source_out[i].low_s);
      w.key("source_out_high_s").value(p.source_out[i].high_s);
      if (p.grouped[i].predicted_s > 0) {
        w.key("grouped_s").value(p.grouped[i].predicted_s).key("grouped_low_s").value(p.grouped[i].low_s);
        w.key("grouped_high_s").value(p.grouped[i].high_s);
      }
    }
    if (r.result.measured_bytes) {
      w.key("measured_bytes").value(*r.result.measured_bytes).key("predicted_bytes").value(*r.result.predicted_bytes);
      w.key("source_out_bytes").value(p.source_out_bytes[i]).key("grouped_bytes").value(p.grouped_bytes[i]);
    }
    if (r.result.measured_fits) {
      w.key("measured_fits").value(*r.result.measured_fits).key("predicted_fits").value(*r.result.predicted_fits);
      w.key("static_bytes").value(r.result.static_bytes).key("limit_bytes").value(r.result.memory_limit_bytes);
    }
    w.end_object();
    out << w.text() << "\n";
  }
  for (const SkippedRun& s : corpus.skipped) {
    base::JsonWriter w;
    w.compact_next()
        .begin_object()
        .key("id")
        .value(s.id)
        .key("family")
        .value(s.source)
        .key("skipped")
        .value(s.reason)
        .end_object();
    out << w.text() << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  a.notes.merged = {"HF Ultra-Scale Playbook"};
  a.notes.untrusted = {"Megatron-LM functional-test golden values"};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--source-only")
      a.grouped = false;
    else if (word == "--shipped")
      a.fit = false;
    else if (word == "--json" && i + 1 < argc)
      a.json = argv[++i];
    else if (word == "--write" && i + 1 < argc)
      a.write = argv[++i];
    else if (word == "--untrusted" && i + 1 < argc)
      a.notes.untrusted.push_back(argv[++i]);
    else if (word == "--judge" && i + 1 < argc)
      a.judged.push_back(argv[++i]);
    else if (word == "--merge" && i + 1 < argc)
      a.notes.merged.push_back(argv[++i]);
    else
      a.files.push_back(word);
  }
  std::vector<RunRecord> records;
  for (const std::string& file : a.files) {
    auto read = read_run_records_file(file);
    if (!read) {
      std::cerr << read.error().message() << "\n";
      return 3;
    }
    if (!read->unreadable.empty()) {
      std::cerr << read->unreadable.front().message() << "\n";
      return 3;
    }
    records.insert(records.end(), std::make_move_iterator(read->records.begin()), std::make_move_iterator(read->records.end()));
  }
  ProtocolOptions options;
  options.fit.threads = base::hardware_threads();
  options.grouped = a.grouped;
  options.judged = a.judged;
  options.training.threads = options.fit.threads;
  options.only_shipped = !a.fit;
  calibrate::Corpus corpus = calibrate::make_corpus(records, a.notes, options.fit.threads);
  const Protocols p = run_protocols(corpus, options);
  print_tables(corpus, p, a.grouped);
  if (!a.judged.empty()) print_left_out(p);
  if (!a.json.empty()) write_json(a.json, corpus, p);
  if (!a.write.empty()) {
    std::ofstream(a.write + "/frameworks.yaml") << framework_yaml(corpus, p);
    std::ofstream(a.write + "/intervals.yaml") << intervals_yaml(p);
    std::ofstream(a.write + "/training.yaml") << training_yaml(p.training);
  }
  return 0;
}
