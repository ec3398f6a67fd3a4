// SPDX-License-Identifier: Apache-2.0
#include "exchange/galvatron.h"

#include "base/document.h"
#include "base/document_kind.h"
#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "exchange/request.h"
#include "galvatron/plan_conversion.h"
#include "galvatron/strategy_document.h"

namespace espalier::exchange {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// Returns the plan of a strategy document, with the inputs of the job embedded.
Result<Plan> plan_of_job(const galvatron::StrategyDocument& document, const Job& job, SequenceParallel tensor_groups) {
  auto plan = galvatron::plan_of(document, job.model, job.cluster, job.training, tensor_groups);
  if (!plan) return plan;
  if (Status status = embed_job(job, *plan); !status.ok()) return status.error();
  return plan;
}

// ---- the strategy file --------------------------------------------------------------------------------------------

Result<ImportedPlan> read_strategy(const ImportRequest& request) {
  if (Status status = refused(galvatron_strategy(), request); !status.ok()) return status.error();
  const ImportFile& file = required_file(request, "strategy");
  std::vector<std::string> unread;
  const auto document = galvatron::read_strategy_document(file.text, file.name, &unread);
  if (!document) return base::wrong_kind_of(file.text, file.name, "a strategy file of Galvatron", document.error());
  const std::string groups = option_of(galvatron_strategy(), request, "sequence-parallel");
  if (groups != "yes" && groups != "no")
    return Error{ErrorKind::usage, "import galvatron sequence-parallel", base::cat("\"", groups, "\""), "yes or no", ""};
  auto plan = plan_of_job(*document, *request.job, groups == "yes" ? SequenceParallel::megatron : SequenceParallel::none);
  if (!plan) {
    Error error = plan.error();
    if (error.where.starts_with("$.")) error.where = base::cat(file.name, ": ", error.where);
    return error;
  }
  ImportedPlan out{std::move(*plan), {}};
  for (const std::string& key : unread) out.notes.push_back(base::cat(file.name, ": ", key, " is not read"));
  return out;
}

constexpr FormatRows kStrategyRows = {"galvatron", "galvatron", "GAL"};

/// Returns no rules, since the engine's rules cover everything that a strategy file cannot express.
std::vector<FormatRule> strategy_rules() { return {}; }

std::optional<FormatFault> strategy_fault(const Job& job, const Plan& plan) {
  if (auto broken = engine_fault_of(kStrategyRows, job, plan)) return broken;
  const auto document = galvatron::document_of(plan);
  if (document) return std::nullopt;
  const Error& error = document.error();
  return FormatFault{"GAL-LAYERS", base::cat(error.where, ": ", error.found), error.expected, error.hint};
}

Result<std::string> write_strategy(const ExportRequest& request) {
  // A fault of the plan, whatever the format.
  if (Status status = unsupported(*request.plan); !status.ok()) return status.error();
  if (const auto broken = strategy_fault(*request.job, *request.plan)) return to_error(*broken, galvatron_export());
  const auto document = galvatron::document_of(*request.plan);
  ESPALIER_CHECK(document.ok());  // the plan keeps its rules
  return galvatron::to_json(*document);
}

// ---- the profile files --------------------------------------------------------------------------------------------

template <class T>
Status read_into(const ImportRequest& request, const char* role, Result<T> (*read)(std::string_view, const std::string&),
                 T& out) {
  const ImportFile* file = file_of(request, role);
  if (file == nullptr) return {};
  auto value = read(file->text, file->name);
  if (!value) return value.error();
  out = std::move(*value);
  return {};
}

Result<galvatron::ProfileFiles> read_files(const ImportRequest& request) {
  galvatron::ProfileFiles files;
  if (Status status = read_into(request, "computation", galvatron::read_computation_profile, files.computation); !status.ok())
    return status.error();
  if (Status status = read_into(request, "memory", galvatron::read_memory_profile, files.memory); !status.ok())
    return status.error();
  if (Status status = read_into(request, "allreduce", galvatron::read_all_reduce_bandwidth, files.all_reduce); !status.ok())
    return status.error();
  if (Status status = read_into(request, "p2p", galvatron::read_p2p_bandwidth, files.p2p); !status.ok()) return status.error();
  if (Status status = read_into(request, "overlap", galvatron::read_overlap_coefficient, files.overlap_slowdown); !status.ok())
    return status.error();
  if (Status status = read_into(request, "sp", galvatron::read_collective_times, files.collectives); !status.ok())
    return status.error();
  return files;
}

Result<std::int64_t> budget_of(const ImportRequest& request) {
  const std::string budget = option_of(galvatron_profile(), request, "budget");
  if (budget.empty()) return request.job->cluster.usable_memory().count();
  if (const auto bytes = base::parse_bytes(budget); bytes && *bytes > 0) return *bytes;
  return Error{ErrorKind::usage, "--budget", base::cat("\"", budget, "\""), "a size with its unit",
               "Galvatron's 36 GB are 36GiB"};
}

Result<galvatron::ProfiledOptions> options_of(const ImportRequest& request) {
  const Importer format = galvatron_profile();
  const auto budget = budget_of(request);
  if (!budget) return budget.error();
  const auto pp = count_of(format, request, "pp");
  if (!pp) return pp.error();
  const auto chunks = count_of(format, request, "chunks");
  if (!chunks) return chunks.error();
  galvatron::ProfiledOptions options;
  options.memory_mb = *budget / kMiB;
  options.pp = static_cast<std::int32_t>(*pp);
  options.chunks = *chunks;
  options.default_type =
      option_of(format, request, "default-dp") == "ddp" ? galvatron::DataParallelType::ddp : galvatron::DataParallelType::zero2;
  return options;
}

Result<ImportedPlan> read_profile(const ImportRequest& request) {
  auto found = plan_by_profile(request);
  if (!found) return found.error();
  if (!found->plan) return found->plan.error();
  return ImportedPlan{std::move(*found->plan), {}};
}

}  // namespace

Importer galvatron_strategy() {
  return {"galvatron",
          "Galvatron's strategy file as a plan of the job",
          true,
          {{"strategy", "galvatron_config_*.json", true}},
          {{"sequence-parallel",
            "whether tensor groups use Megatron's sequence parallelism, yes or no: a launch flag, not in the file", "yes"}},
          read_strategy};
}

Importer galvatron_profile() {
  return {"galvatron-profile",
          "the best plan by Galvatron's cost model and its profile files",
          true,
          {{"computation", "computation_profiling_*.json", true},
           {"memory", "memory_profiling_*.json", true},
           {"allreduce", "allreduce_bandwidth_*.json", true},
           {"p2p", "p2p_bandwidth_*.json; without it, plans have one stage", false},
           {"overlap", "overlap_coefficient.json (default: 1, no slowdown)", false},
           {"sp", "sp_time_*.json; without it, times follow from the all-reduce bandwidth", false}},
          {{"budget", "memory per device, such as 36GiB; empty: that of the job's devices", ""},
           {"default-dp", "data-parallel type of layers without ZeRO-3: ddp or zero2", "zero2"},
           {"reduce-at-end", "whether gradients are reduced once per step, yes or no (Galvatron's no_async_grad_reduce)", "no"},
           {"pp", "only this number of stages; 0: any", "0"},
           {"chunks", "only this number of micro-batches; 0: any", "0"}},
          read_profile};
}

Exporter galvatron_export() {
  return {"galvatron",
          "Galvatron's strategy file (galvatron_config_*.json)",
          "galvatron_config.json",
          write_strategy,
          "galvatron",
          {},
          strategy_rules,
          strategy_fault};
}

Result<ProfiledImport> plan_by_profile(const ImportRequest& request) {
  const Importer format = galvatron_profile();
  if (Status status = refused(format, request); !status.ok()) return status.error();
  const auto files = read_files(request);
  if (!files) return files.error();
  const auto options = options_of(request);
  if (!options) return options.error();
  const Job& job = *request.job;
  auto model = galvatron::profiled_model(*files, job.model, job.training, job.cluster.devices());
  if (!model) return model.error();
  model->reduce_every_microbatch = option_of(format, request, "reduce-at-end") != "yes";
  auto found = galvatron::plan_profiled(*model, *options);
  if (!found) return found.error();
  auto plan = plan_of_job(found->document, job, model->sequence_parallel ? SequenceParallel::megatron : SequenceParallel::none);
  return ProfiledImport{std::move(*found), std::move(plan)};
}

}  // namespace espalier::exchange
