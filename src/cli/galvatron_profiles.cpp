// SPDX-License-Identifier: Apache-2.0
#include "cli/galvatron_profiles.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "espalier/calibration.h"
#include "espalier/galvatron_profile.h"

namespace espalier::cli {
namespace {

/// Returns the name of the number of blocks in configurations, as this model's has it.
Result<std::string> key_of_blocks(const Job& job) {
  const Plan plan = profiled_plan(job, 1, SequenceParallel::none, 1, 1);
  const auto config = base::read_json(plan.model_source, "model");
  if (!config) return config.error();
  for (const std::string key : {"num_hidden_layers", "n_layer", "num_layers", "n_layers"})
    if (config->root.find(key) != nullptr) return key;
  return Error{ErrorKind::bad_input, "profile --galvatron", "a model that does not name its number of blocks",
               "num_hidden_layers, n_layer, num_layers or n_layers", "the memory of a block is measured by adding one block"};
}

Plan plan_of(const Job& job, const exchange::MemoryRun& run) {
  Strategy strategy;
  strategy.tp = run.tp;
  if (run.recomputed) strategy.recompute = {RecomputeKind::full, static_cast<std::int32_t>(run.blocks), {}};
  Schedule schedule;
  schedule.stages = run.stages;
  schedule.micro_batch = static_cast<std::int32_t>(run.samples);
  schedule.microbatches = 1;
  return profiled_plan(job, strategy, schedule);
}

Result<std::vector<std::int64_t>> peaks_in(const std::string& path) {
  const auto text = base::read_file(path);
  if (!text) return text.error();
  const auto document = base::read_json(*text, path);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  std::vector<std::int64_t> peaks = root.optional_int_list("peak_bytes", 0, std::int64_t{1} << 60);
  if (!sink.ok()) return sink.first().error();
  return peaks;
}

std::vector<exchange::MemoryRun> runs_for(const GalvatronProfiles& what, std::int64_t blocks) {
  const auto [few, many] = std::minmax_element(what.samples.begin(), what.samples.end());
  std::vector<exchange::MemoryRun> runs;
  for (const std::int64_t tp : what.tensor_groups)
    for (const std::int64_t samples : {*few, *many}) {
      const auto ranks = static_cast<std::int32_t>(tp);
      runs.push_back({ranks, 1, false, blocks, samples, {}});
      if (tp == 1) runs.push_back({ranks, 1, true, blocks, samples, {}});
      if (blocks == 2) runs.push_back({ranks, 2, false, blocks, samples, {}});
    }
  return runs;
}

Result<std::vector<exchange::MemoryRun>> measured_memory(Context& context, const JobFlags& from, const std::string& key,
                                                         const GalvatronProfiles& what, const std::string& program) {
  const ScratchFolder scratch;
  RankOptions options = what.ranks;
  options.record = (scratch.path() / "record.json").string();
  options.steps = 2;  // the first is not counted
  std::vector<exchange::MemoryRun> done;
  for (const std::int64_t blocks : {1, 2}) {
    JobFlags shortened = from;
    shortened.overrides.push_back(cat("model.", key, "=", blocks));
    const auto job = load_job_of(context, shortened);
    if (!job) return job.error();
    for (exchange::MemoryRun& run : runs_for(what, blocks)) {
      if (!context.quiet && !context.json)
        note(context,
             cat("memory of ", blocks, blocks == 1 ? " block" : " blocks", ", tp ", run.tp, ", ", run.stages,
                 run.stages == 1 ? " stage, " : " stages, ", run.samples, " samples", run.recomputed ? ", recomputed" : ""));
      if (Status status = run_plan_here(plan_of(*job, run), options, program, {}, [&context] { return context.interrupted(); });
          !status.ok())
        return status.error();
      auto peaks = peaks_in(options.record);
      if (!peaks) return peaks.error();
      run.peak_bytes = std::move(*peaks);
      done.push_back(std::move(run));
    }
  }
  return done;
}

}  // namespace

Result<std::vector<std::string>> write_galvatron_profiles(Context& context, const JobFlags& from, const GalvatronProfiles& what,
                                                          const std::string& program) {
  auto job = load_job_of(context, from);
  if (!job) return job.error();
  auto profile = read_calibration_file(what.profile);
  if (!profile) return profile.error();
  const auto key = key_of_blocks(*job);
  if (!key) return key.error();
  if (Status status = use_calibration(*job, std::move(*profile)); !status.ok()) return status.error();
  exchange::MachineMeasurements measured;
  measured.samples = what.samples;
  auto memory = measured_memory(context, from, *key, what, program);
  if (!memory) return memory.error();
  measured.memory = std::move(*memory);
  for (const NamedText& text : what.collectives) {
    measured.collectives_name = text.name;
    measured.collectives += text.text;
  }
  const auto files = exchange::galvatron_profile(*job, measured);
  if (!files) return files.error();
  std::error_code failed;
  std::filesystem::create_directories(what.folder, failed);
  std::vector<std::string> written;
  for (const exchange::ProfileFile& file : *files) {
    written.push_back((std::filesystem::path(what.folder) / file.name).string());
    if (Status status = report::write_file(written.back(), file.text); !status.ok()) return status.error();
  }
  return written;
}

}  // namespace espalier::cli
