// SPDX-License-Identifier: Apache-2.0
// Writes Galvatron's profile files from times and peaks measured on this machine.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "base/format.h"
#include "espalier/galvatron_profile.h"
#include "galvatron/profile_files.h"
#include "job/calibration_file.h"
#include "profile/measured_operators.h"
#include "runlog/nccl_tests.h"

namespace espalier::exchange {
namespace {

constexpr double kMebibyte = 1 << 20;

Error refused(std::string found, std::string expected) {
  return Error{ErrorKind::bad_input, "profile", std::move(found), std::move(expected), ""};
}

// ---- times --------------------------------------------------------------------------------------------------------

/// Returns the seconds of a layer's forward pass on one rank, for a whole micro-batch.
double forward_s(const Job& job, const LayerKind& kind, std::int64_t samples) {
  double seconds = 0;
  for (const Operator& op : kind.operators) {
    const profile::OperatorWork work =
        profile::work_on_rank(kind, op, Strategy{}, job.model.vocabulary, job.training.sequence.main, samples);
    seconds += job.calibration->operators->at(work.shape, static_cast<double>(work.tokens)).forward;
  }
  return seconds;
}

galvatron::ComputationProfile computation_of(const Job& job, const LayerKind& block, const std::vector<std::int64_t>& samples) {
  galvatron::ComputationProfile out;
  for (const std::int64_t batch : samples) {
    const auto ms = [batch](double seconds) { return seconds * 1e3 / static_cast<double>(batch); };
    const double ends =
        forward_s(job, job.model.layer(0), batch) + forward_s(job, job.model.layer(job.model.layers.size() - 1), batch);
    out.times.push_back(
        {0, false, galvatron::LayerPart::whole, batch, job.training.sequence.main, ms(forward_s(job, block, batch))});
    out.times.push_back({0, true, galvatron::LayerPart::whole, batch, job.training.sequence.main, ms(ends)});
  }
  return out;
}

// ---- memory -------------------------------------------------------------------------------------------------------

/// Holds peaks of the fullest rank of a stage, by {tp, stages, recomputed, blocks, samples}.
using RunKey = std::tuple<std::int32_t, std::int32_t, bool, std::int64_t, std::int64_t>;
class Peaks {
 public:
  explicit Peaks(const std::vector<MemoryRun>& runs) {
    for (const MemoryRun& run : runs) {
      runs_[{run.tp, run.stages, run.recomputed, run.blocks, run.samples}] = &run;
      if (std::find(samples_.begin(), samples_.end(), run.samples) == samples_.end()) samples_.push_back(run.samples);
    }
    std::sort(samples_.begin(), samples_.end());
  }

  /// Fits a line through the runs with the fewest and the most samples. There is no line where one of the two did not
  /// run.
  struct Line {
    double at_first = 0, per_sample = 0, first = 1;
    [[nodiscard]] double fixed() const { return at_first - per_sample * first; }
  };
  [[nodiscard]] std::optional<Line> line(std::int32_t tp, std::int32_t stages, bool recomputed, std::int64_t blocks,
                                         std::int32_t stage) const {
    if (samples_.size() < 2) return std::nullopt;
    std::array<double, 2> bytes{};
    for (const std::size_t k : {0, 1}) {
      const auto run = runs_.find({tp, stages, recomputed, blocks, k == 0 ? samples_.front() : samples_.back()});
      if (run == runs_.end()) return std::nullopt;
      const std::vector<std::int64_t>& peaks = run->second->peak_bytes;
      const std::size_t ranks = peaks.size() / static_cast<std::size_t>(stages);
      const auto begin = peaks.begin() + static_cast<std::ptrdiff_t>(ranks) * stage;
      if (ranks == 0) return std::nullopt;
      bytes[k] = static_cast<double>(*std::max_element(begin, begin + static_cast<std::ptrdiff_t>(ranks)));
    }
    const auto few = static_cast<double>(samples_.front()), many = static_cast<double>(samples_.back());
    return Line{bytes[0], (bytes[1] - bytes[0]) / (many - few), few};
  }

 private:
  std::map<RunKey, const MemoryRun*> runs_;
  std::vector<std::int64_t> samples_;
};

double megabytes(double bytes) { return std::max(0.0, bytes) / kMebibyte; }

/// Returns the memory that a block adds; nothing where runs of one and of two blocks are missing.
std::optional<Peaks::Line> of_a_block(const Peaks& peaks, std::int32_t tp, bool recomputed) {
  const auto one = peaks.line(tp, 1, recomputed, 1, 0), two = peaks.line(tp, 1, recomputed, 2, 0);
  if (!one || !two) return std::nullopt;
  return Peaks::Line{two->at_first - one->at_first, two->per_sample - one->per_sample, one->first};
}

void add_ends(galvatron::OtherMemory& out, std::int32_t tp, const std::optional<Peaks::Line>& stage, const Peaks::Line& block) {
  if (!stage) return;
  out.activation_mb[tp] = megabytes(stage->per_sample - block.per_sample);
  out.states_mb[tp] = megabytes(stage->fixed() - block.fixed());
}

Result<galvatron::MemoryProfile> memory_of(const Job& job, const LayerKind& block, const std::vector<MemoryRun>& runs) {
  const Peaks peaks(runs);
  galvatron::MemoryProfile out;
  const std::int64_t sequence = job.training.sequence.main;
  galvatron::LayerMemory layer;
  layer.parameter_mb = 4 * static_cast<double>(parameter_count(block)) / kMebibyte;
  galvatron::OtherMemory one, first, last;
  for (const MemoryRun& run : runs) {
    if (run.recomputed || layer.activation_mb.count(run.tp) > 0) continue;
    const auto adds = of_a_block(peaks, run.tp, false);
    if (!adds)
      return refused(cat("memory of tp ", run.tp, " without its paired runs"),
                     "runs with one and with two blocks, each for two sample counts");
    layer.activation_mb[run.tp] = megabytes(adds->per_sample);
    add_ends(one, run.tp, peaks.line(run.tp, 1, false, 1, 0), *adds);
    add_ends(first, run.tp, peaks.line(run.tp, 2, false, 2, 0), *adds);
    add_ends(last, run.tp, peaks.line(run.tp, 2, false, 2, 1), *adds);
  }
  if (const auto recomputed = of_a_block(peaks, 1, true)) layer.checkpoint_mb = megabytes(recomputed->per_sample);
  out.plain.layers[{0, sequence}] = layer;
  out.plain.one_stage[sequence] = one;
  if (!first.states_mb.empty()) {
    out.plain.first_stage[sequence] = first;
    out.plain.last_stage[sequence] = last;
  }
  return out;
}

// ---- network ------------------------------------------------------------------------------------------------------

struct MeasuredNetwork {
  galvatron::AllReduceBandwidth all_reduce;
  galvatron::P2pBandwidth p2p;
  galvatron::CollectiveTimes times;
};

/// Returns whether ranks of the group are consecutive in the list of all.
bool consecutive(const runlog::NcclTable& t) {
  std::int64_t last = -1;
  for (const auto& [node, place] : t.members) {
    const std::int64_t rank = node * t.active_per_node + place;
    if (last >= 0 && rank != last + 1) return false;
    last = rank;
  }
  return true;
}

/// Returns whether ranks of the group are as far apart as the whole list allows, as neighbours in a pipeline of that
/// many stages.
bool across(const runlog::NcclTable& t) {
  if (t.members.size() < 2) return false;
  const auto rank = [&t](std::size_t i) { return t.members[i].first * t.active_per_node + t.members[i].second; };
  return rank(1) - rank(0) == t.groups;
}

Result<MeasuredNetwork> network_of(const MachineMeasurements& measured) {
  const auto tables = runlog::read_nccl_tests(measured.collectives, measured.collectives_name);
  if (!tables) return tables.error();
  MeasuredNetwork out;
  for (const runlog::NcclTable& t : *tables) {
    const auto ranks = static_cast<std::int32_t>(t.ranks);
    const auto largest =
        std::max_element(t.rows.begin(), t.rows.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    const double rate = static_cast<double>(largest->bytes) / kMebibyte / (largest->microseconds * 1e-3),
                 n = static_cast<double>(ranks);
    if (t.test == runlog::CollectiveTest::send_receive && across(t)) out.p2p.gb_per_s[ranks] = rate;
    if (t.test == runlog::CollectiveTest::all_reduce) {
      const double bus = rate * 2 * (n - 1) / n;
      out.all_reduce.gb_per_s[{ranks, consecutive(t)}] = bus;
    }
    if (!consecutive(t)) continue;
    for (const runlog::NcclRow& row : t.rows) {
      const auto size = static_cast<std::int64_t>(kMebibyte);
      if (row.bytes % size != 0) continue;
      if (t.test == runlog::CollectiveTest::all_reduce)
        out.times.all_reduce_ms[{ranks, row.bytes / size}] = row.microseconds * 1e-3;
      if (t.test == runlog::CollectiveTest::all_to_all)
        out.times.all_to_all_ms[{ranks, row.bytes / size}] = row.microseconds * 1e-3;
    }
  }
  return out;
}

}  // namespace

Result<std::vector<ProfileFile>> galvatron_profile(const Job& job, const MachineMeasurements& measured) {
  if (job.calibration == nullptr || job.calibration->operators == nullptr)
    return refused("a job without measured operators", "`profile: FILE` in the job");
  const LayerKind& block = job.model.layer(1);
  for (std::size_t l = 2; l + 1 < job.model.layers.size(); ++l)
    if (job.model.layers[l] != job.model.layers[1])
      return refused("blocks of several kinds", "equal blocks, as in Galvatron's profiler");
  std::vector<ProfileFile> out;
  const std::string precision = job.training.precision == Precision::fp32 ? "fp32" : "bf16";
  out.push_back(
      {cat("computation_profiling_", precision, ".json"), galvatron::to_json(computation_of(job, block, measured.samples))});
  if (!measured.memory.empty()) {
    const auto memory = memory_of(job, block, measured.memory);
    if (!memory) return memory.error();
    out.push_back({cat("memory_profiling_", precision, ".json"), galvatron::to_json(*memory)});
  }
  if (measured.collectives.empty()) return out;
  const auto network = network_of(measured);
  if (!network) return network.error();
  if (!network->all_reduce.gb_per_s.empty()) out.push_back({"allreduce_bandwidth.json", galvatron::to_json(network->all_reduce)});
  if (!network->p2p.gb_per_s.empty()) out.push_back({"p2p_bandwidth.json", galvatron::to_json(network->p2p)});
  if (!network->times.all_reduce_ms.empty()) out.push_back({"sp_time.json", galvatron::to_json(network->times)});
  return out;
}

}  // namespace espalier::exchange
