// SPDX-License-Identifier: Apache-2.0
// Implements espalier profile JOB.yaml -o FILE. It measures the operators of the job's model on this machine, and
// writes them as a calibration. With --network every rank of a launcher takes part, and the collectives between them
// are measured.
#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/galvatron_profiles.h"
#include "cli/ranks.h"
#include "espalier/calibration.h"
#include "espalier/profile.h"
#include "plan/listed_devices.h"
#include "plan/operator_partition.h"

namespace espalier::cli {
namespace {

struct ProfileFlags {
  std::vector<std::string> collectives, partitions;
  std::string out, pace, from, galvatron, tp = "1", samples = "1,2";
  std::int64_t steps = 5, local = 1, overlap = 0;
  bool sequence_parallel = false, network = false;
  double timeout = 300;
};

/// Reads "1,2,4".
Result<std::vector<std::int64_t>> counts_of(const std::string& flag, const std::string& text) {
  std::vector<std::int64_t> out;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const bool digits =
        !word.empty() && word.size() < 6 && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    out.push_back(digits ? std::stoll(word) : 0);
    if (out.back() < 1)
      return Error{ErrorKind::usage, flag, cat("\"", text, "\""), "counts of 1 and more with commas, such as 1,2,4", ""};
  }
  return out;
}

/// Returns the first value of a line "key : value" of a file of the kernel.
std::string kernel_line(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind(key, 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string machine_note(const ProfileFlags& flags) {
  const std::time_t now = std::time(nullptr);
  char date[32] = "";
  std::tm utc{};
  if (gmtime_r(&now, &utc) != nullptr) std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
  return cat("measured ", date, " on ", kernel_line("/proc/cpuinfo", "model name"),
             flags.pace.empty() ? "" : cat(", emulating ", flags.pace), "; ", flags.steps, " steps per run");
}

RankOptions rank_options(const ProfileFlags& flags) {
  RankOptions options;
  options.steps = flags.steps;
  options.pace = flags.pace;
  options.timeout = flags.timeout;
  return options;
}

/// Returns the record of one run of one tensor group.
Result<OperatorRecord> measured(Context& context, const ProfileFlags& flags, const std::string& program, const Plan& plan,
                                const std::string& record) {
  RankOptions options = rank_options(flags);
  options.record = record;
  if (Status status = run_plan_here(plan, options, program, {}, [&context] { return context.interrupted(); }); !status.ok())
    return status.error();
  auto text = base::read_file(record);
  if (!text) return text.error();
  return OperatorRecord{{record, std::move(*text)}, plan.pipelines.front().schedule.microbatches, device_count(plan) == 1};
}

/// Measures steps of `ranks` data-parallel ranks that reduce gradients during the backward pass and after it, in
/// turn.
Status measure_overlap(Context& context, const ProfileFlags& flags, const Job& job, std::int64_t samples,
                       const std::string& program, const std::string& file, ProfileInputs& inputs) {
  constexpr int kRuns = 3;  // runs of each kind, so that other load on the machine affects both
  Strategy strategy;
  strategy.dp = static_cast<std::int32_t>(flags.overlap);
  Schedule schedule;
  schedule.micro_batch = static_cast<std::int32_t>(samples);
  schedule.microbatches = 1;
  for (int k = 0; k < 2 * kRuns; ++k) {
    strategy.overlap.grad_reduce = k % 2 == 0;
    if (!context.quiet && !context.json)
      note(context, cat("dp ", flags.overlap, ", reductions ", k % 2 == 0 ? "during" : "after", " the backward pass"));
    const Plan plan = profiled_plan(job, strategy, schedule);
    RankOptions options = rank_options(flags);
    options.timeline = file;
    if (Status status = run_plan_here(plan, options, program, {}, [&context] { return context.interrupted(); }); !status.ok())
      return status.error();
    auto text = base::read_file(file);
    if (!text) return text.error();
    inputs.overlap.push_back({plan, {file, std::move(*text)}});
  }
  return {};
}

/// Describes a measured tensor group.
struct ProfiledTensorGroup {
  std::int64_t tp = 1;
  BlockPartition partition;  ///< partition of its operators; none: tensor parallelism
};
/// Lists the runs of a profile: tensor groups, samples of a micro-batch.
struct Shapes {
  std::vector<ProfiledTensorGroup> groups;
  std::vector<std::int64_t> samples;
};

Result<Shapes> shapes_of(const ProfileFlags& flags) {
  auto tensor = counts_of("--tp", flags.tp);
  if (!tensor) return tensor.error();
  auto samples = counts_of("--samples", flags.samples);
  if (!samples) return samples.error();
  Shapes shapes{{}, std::move(*samples)};
  for (const std::int64_t tp : *tensor) shapes.groups.push_back({tp, {}});
  for (const std::string& text : flags.partitions) {
    const BlockPartition partition(text);
    if (!partition.operators()) return partition.operators().error();
    shapes.groups.push_back({partition.operators()->front().sequence.devices(), partition});
  }
  return shapes;
}

Result<ProfileInputs> measure_all(Context& context, const ProfileFlags& flags, const Shapes& shapes, const Job& job,
                                  const std::string& program) {
  const ScratchFolder scratch;
  ProfileInputs inputs;
  inputs.note = machine_note(flags);
  for (const std::string& path : flags.collectives) {
    auto text = base::read_file(path);
    if (!text) return text.error();
    inputs.collectives.push_back({path, std::move(*text)});
  }
  if (!flags.from.empty()) {
    auto earlier = read_calibration_file(flags.from);
    if (!earlier) return earlier.error();
    inputs.earlier = std::move(*earlier);
    return inputs;
  }
  const SequenceParallel sp = flags.sequence_parallel ? SequenceParallel::megatron : SequenceParallel::none;
  for (const auto& [tp, partition] : shapes.groups)
    for (const std::int64_t samples : shapes.samples)
      for (const std::int32_t microbatches : {2, 6}) {
        if (microbatches != 2 && (tp > 1 || samples != shapes.samples.front()))
          continue;  // host work: one rank, its smallest micro-batches
        if (!context.quiet && !context.json)
          note(context, cat("tp ", tp, partition.empty() ? ", " : ", partitioned, ", samples, " samples per micro-batch"));
        const Plan plan =
            profiled_plan(job, static_cast<std::int32_t>(tp), sp, static_cast<std::int32_t>(samples), microbatches, partition);
        auto record = measured(context, flags, program, plan, (scratch.path() / "record.json").string());
        if (!record) return record.error();
        inputs.records.push_back(std::move(*record));
      }
  if (flags.overlap > 0) {
    const std::int64_t most = *std::max_element(shapes.samples.begin(), shapes.samples.end());
    if (Status status = measure_overlap(context, flags, job, most, program, (scratch.path() / "step.json").string(), inputs);
        !status.ok())
      return status.error();
  }
  return inputs;
}

/// Returns the sizes of the groups that are measured whole, which Galvatron can use.
std::vector<std::int64_t> tensor_sizes(const Shapes& shapes) {
  std::vector<std::int64_t> sizes;
  for (const ProfiledTensorGroup& group : shapes.groups)
    if (group.partition.empty()) sizes.push_back(group.tp);
  return sizes;
}

int answer(Context& context, const ProfileFlags& flags, const Profile& profile, const std::vector<std::string>& files) {
  if (context.json) {
    base::JsonWriter json;
    json.begin_object()
        .key("file")
        .value(flags.out)
        .key("operators")
        .value(profile.operators)
        .key("step_s")
        .value(profile.step_s);
    json.key("micro_batch_s").value(profile.micro_batch_s).key("update_bytes_per_s").value(profile.update_bytes_per_s);
    if (profile.compute_slowdown > 0)
      json.key("overlap")
          .begin_object()
          .key("compute_slowdown")
          .value(profile.compute_slowdown)
          .key("communication_slowdown")
          .value(profile.communication_slowdown)
          .end_object();
    if (!flags.galvatron.empty()) {
      json.key("galvatron").begin_array();
      for (const std::string& file : files) json.value(file);
      json.end_array();
    }
    json.end_object();
    print_json(context, json.text());
    return kOk;
  }
  std::string text = cat(profile.operators, " operator times; overheads ", base::fixed(profile.step_s * 1e3, 2),
                         " ms per step and ", base::fixed(profile.micro_batch_s * 1e3, 2), " ms per micro-batch; update at ",
                         base::fixed(profile.update_bytes_per_s / 1e9, 2), " GB/s");
  if (!flags.collectives.empty())
    text += cat("; collectives fitted within ", base::fixed(profile.fabric_error * 100, 1), " % (median)");
  if (profile.compute_slowdown > 0)
    text += cat("; when they overlap, compute takes ", base::fixed(profile.compute_slowdown, 2), " and reductions ",
                base::fixed(profile.communication_slowdown, 2), " times as long");
  text += cat("\nwritten to ", flags.out, ": name it in the job as `profile: ", flags.out, "`\n");
  for (const std::string& file : files) text += cat("wrote ", file, "\n");
  print_answer(context, text);
  return kOk;
}

int run_operators(Context& context, const JobFlags& from, const ProfileFlags& flags) {
  auto job = load_job_of(context, from);
  if (!job) return fail(context, job.error());
  const auto shapes = shapes_of(flags);
  if (!shapes) return fail(context, shapes.error());
  const auto program = flags.from.empty() || !flags.galvatron.empty() ? rank_program() : Result<std::string>(std::string());
  if (!program) return fail(context, program.error());
  const auto inputs = measure_all(context, flags, *shapes, *job, *program);
  if (!inputs) return context.interrupted() ? kInterrupted : fail(context, inputs.error());
  const auto profile = make_profile(*job, *inputs);
  if (!profile) return fail(context, profile.error());
  if (Status status = report::write_file(flags.out, profile->yaml); !status.ok()) return fail(context, status.error());
  note_all(context, profile->notes);
  std::vector<std::string> files;
  if (!flags.galvatron.empty()) {
    auto written = write_galvatron_profiles(
        context, from,
        {flags.galvatron, flags.out, tensor_sizes(*shapes), shapes->samples, inputs->collectives, rank_options(flags)}, *program);
    if (!written) return context.interrupted() ? kInterrupted : fail(context, written.error());
    files = std::move(*written);
  }
  return answer(context, flags, *profile, files);
}

int run_network(Context& context, const ProfileFlags& flags) {
  const auto program = rank_program();
  if (!program) return fail(context, program.error());
  const auto place = place_by_launcher("profile --network");
  if (!place) return fail(context, place.error());
  return fail(context, launch::become(*program, {"probe", flags.out, std::to_string(place->rank), std::to_string(place->world),
                                                 cat("tcp:", place->address, ":", place->port), base::shortest(flags.timeout),
                                                 std::to_string(flags.local)}));
}

}  // namespace

void add_profile_command(Command& app, Context& context) {
  Command* command =
      app.add_subcommand("profile", "measure this machine: operators of a job's model, or the network between ranks");
  auto job = std::make_shared<JobFlags>();
  auto flags = std::make_shared<ProfileFlags>();
  command->add_option("job", job->path, "job file (YAML or JSON); - for stdin")->type_name("JOB.yaml");
  command->add_option("--set", job->overrides, "override a value of the job: a.b.c=value (repeatable)")
      ->type_name("PATH=VALUE")
      ->one_value_each();
  command->add_option("-o,--out", flags->out, "write the profile here")->required()->type_name("FILE");
  command->add_option("--tp", flags->tp, "sizes of tensor groups, comma-separated")->show_default();
  command
      ->add_option(
          "--partition", flags->partitions,
          "also measure the operators of blocks with this partition, in a plan's notation: \"attn.norm R,R; attn.qkv P2; "
          "…\" (repeatable)")
      ->type_name("OPERATORS")
      ->one_value_each();
  command->add_option("--samples", flags->samples, "samples per micro-batch: two or more counts, comma-separated")
      ->show_default();
  command->add_flag("--sequence-parallel", flags->sequence_parallel, "measure groups with Megatron's sequence parallelism");
  command
      ->add_option("--overlap", flags->overlap,
                   "measure on this number of data-parallel ranks how concurrent compute and reductions slow each other down")
      ->range(2, 1024)
      ->type_name("RANKS");
  command->add_option("--steps", flags->steps, "steps of each run; the first is not counted")
      ->range(2, 1'000'000)
      ->show_default();
  command->add_option("--pace", flags->pace, "make ranks emulate a device: flops=F,bandwidth=B,launch=S")->type_name("PACE");
  command->add_option("--collectives", flags->collectives, "file that --network wrote, or nccl-tests output")->type_name("FILE");
  command->add_option("--from", flags->from, "reuse the operators of this earlier profile; only the network is new")
      ->type_name("FILE");
  command
      ->add_option("--galvatron", flags->galvatron,
                   "also write Galvatron's profile files here; memory is measured in runs of one and two blocks")
      ->type_name("FOLDER");
  command->add_flag("--network", flags->network, "measure collectives between the ranks of a launcher; needs no job");
  command->add_option("--local", flags->local, "with --network: ranks per node")->range(1, 1024)->show_default();
  command->add_option("--timeout", flags->timeout, "seconds after which a rank gives up on a silent peer")
      ->positive()
      ->show_default();
  add_common_flags(*command, context);
  command->footer("Name the file in the job as `profile: FILE`, with engine espalier; see docs/runtime.md.");
  command->callback([&context, job, flags] {
    if (flags->network) {
      context.exit_code = run_network(context, *flags);
    } else if (job->path.empty()) {
      context.exit_code = fail(context, Error{ErrorKind::usage, "profile", "no job", "JOB.yaml, or --network", ""});
    } else {
      context.exit_code = run_operators(context, *job, *flags);
    }
  });
}

}  // namespace espalier::cli
