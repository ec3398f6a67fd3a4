// SPDX-License-Identifier: Apache-2.0
// Implements espalier import galvatron-profile …. It finds the best plan of Galvatron's space by Galvatron's own
// costs over its profile files, and writes its strategy file. It also prints the prediction of Espalier's own model
// for that plan.
#include <algorithm>
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "cli/import_command.h"
#include "exchange/galvatron.h"
#include "report/brief_text.h"

namespace espalier::cli {
namespace {

struct GalvatronProfileFlags {
  std::vector<std::pair<std::string, std::string>> files;  ///< role of the importer, path
  std::map<std::string, std::string> options;
  std::string default_type = "zero2";
  std::string folder;
  bool reduce_at_end = false;
  std::int32_t pp = 0;
  std::int64_t chunks = 0;
  JobFlags job;
};

// ---- reading ------------------------------------------------------------------------------------------------------

Result<exchange::ImportRequest> request_of(const GalvatronProfileFlags& flags) {
  exchange::ImportRequest request;
  request.options = flags.options;
  request.options["default-dp"] = flags.default_type;
  request.options["reduce-at-end"] = flags.reduce_at_end ? "yes" : "no";
  request.options["pp"] = std::to_string(flags.pp);
  request.options["chunks"] = std::to_string(flags.chunks);
  for (const auto& [role, path] : flags.files) {
    if (path.empty()) continue;
    auto text = base::read_file(path);
    if (!text) return text.error();
    request.files.push_back({role, path, std::move(*text)});
  }
  return request;
}

// ---- answering ----------------------------------------------------------------------------------------------------

struct ProfiledAnswer {
  galvatron::ProfiledPlan plan;
  Result<PlannerResult> simulated;
};

std::string seconds_text(double seconds) { return base::seconds(static_cast<std::int64_t>(std::min(seconds * 1e9, 9e18))); }

std::string counted(std::int64_t n, const std::string& noun) {
  return base::grouped(n) + " " + noun + (n == 1 ? "" : noun.back() == 'h' ? "es" : "s");
}

std::string stages_text(const galvatron::ProfiledPlan& plan) {
  std::vector<std::vector<std::string>> rows{{"stage", "layers", "micro-batch", "gradients", "memory"}};
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    rows.push_back({std::to_string(i), std::to_string(stage.layers), seconds_text(stage.seconds.steady),
                    seconds_text(stage.seconds.sync), std::to_string(stage.memory_mb) + " MB"});
  }
  return report::table(rows);
}

std::string answer_text(const ProfiledAnswer& answer) {
  const galvatron::ProfiledPlan& plan = answer.plan;
  const auto& d = plan.document;
  std::string out = base::cat("Galvatron strategy: ", galvatron::strategies_text(plan), "\n");
  out += base::cat("  batch ", std::to_string(d.global_batch), " in ", counted(d.chunks, "micro-batch"), ", ",
                   counted(d.pp, "stage"), ", default ", galvatron::to_string(d.default_type), "; embedding and head: group ",
                   std::to_string(d.vocab_tp), d.vocab_ulysses ? " (Ulysses)" : "", d.vocab_zero3 ? ", ZeRO-3\n" : "\n");
  out += "\nBy Galvatron's costs (its profile files, its formulas; not simulated by Espalier)\n";
  out += base::cat("  step          ", seconds_text(plan.seconds), "   ",
                   base::fixed(static_cast<double>(d.global_batch) / plan.seconds, 2), " samples/s\n");
  if (d.pp > 1)
    out += base::cat("                ", seconds_text(plan.main_seconds), " as Galvatron's main branch scores a pipeline\n");
  out += base::cat("  memory        at most ", std::to_string(plan.usable_mb), " MB per device\n");
  out += base::cat("  searched      ", base::grouped(plan.choices),
                   " choices of stages, micro-batches, tensor groups, embedding and head; ", base::grouped(plan.solved),
                   " solved, the rest by bound\n");
  out += stages_text(plan) + "\nBy Espalier's own model (the job's device and engine)\n";
  if (!answer.simulated) return out + base::cat("  not simulated: ", answer.simulated.error().message(), "\n");
  const Prediction& p = answer.simulated->prediction;
  out += base::cat("  step          ", base::seconds(p.iteration_ns), "\n  memory        ", base::gib(p.peak_memory_bytes),
                   " of ", base::gib(p.memory_limit_bytes), p.fits ? "\n" : ": does not fit\n");
  return out;
}

std::string answer_json(const ProfiledAnswer& answer) {
  const galvatron::ProfiledPlan& plan = answer.plan;
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.galvatron/1");
  w.key("costs").value("galvatron");
  w.key("strategy").raw(galvatron::to_json(plan.document));
  w.key("iteration_s").value(plan.seconds);
  w.key("iteration_main_s").value(plan.main_seconds);
  w.key("usable_mb").value(plan.usable_mb);
  w.key("choices").value(plan.choices);
  w.key("solved").value(plan.solved);
  w.key("stages").begin_array();
  for (const auto& stage : plan.stages) {
    w.compact_next().begin_object();
    w.key("layers").value(stage.layers);
    w.key("microbatch_s").value(stage.seconds.steady);
    w.key("gradients_s").value(stage.seconds.sync);
    w.key("memory_mb").value(stage.memory_mb);
    w.end_object();
  }
  w.end_array();
  if (answer.simulated)
    w.key("espalier").raw(to_json(*answer.simulated, false));
  else
    w.key("espalier_error").value(answer.simulated.error().message());
  w.end_object();
  return w.text();
}

Status write_files(const Context& context, const GalvatronProfileFlags& flags, const Job& job, const ProfiledAnswer& answer,
                   std::vector<std::string>& files) {
  if (flags.folder.empty()) return {};
  if (answer.simulated) {
    if (Status status = write_outputs(context, {flags.folder, ""}, job, *answer.simulated, files); !status.ok()) return status;
  } else {
    std::error_code ignored;  // a failed write reports the error
    std::filesystem::create_directories(flags.folder, ignored);
  }
  const std::string path = (std::filesystem::path(flags.folder) / "galvatron_config.json").string();
  files.push_back(path);
  return report::write_file(path, galvatron::to_json(answer.plan.document));
}

int run_profile(Context& context, const GalvatronProfileFlags& flags) {
  auto request = request_of(flags);
  if (!request) return fail(context, request.error());
  const auto job = load_job_of(context, flags.job);
  if (!job) return fail(context, job.error());
  request->job = &*job;
  auto imported = exchange::plan_by_profile(*request);
  if (!imported) return fail(context, imported.error());
  auto simulated = imported->plan ? simulate(*job, *imported->plan) : Result<PlannerResult>(imported->plan.error());
  const ProfiledAnswer answer{std::move(imported->found), std::move(simulated)};
  std::vector<std::string> written;
  if (Status status = write_files(context, flags, *job, answer, written); !status.ok()) return fail(context, status.error());
  if (context.json) {
    print_json(context, answer_json(answer));
    return kOk;
  }
  print_answer(context, answer_text(answer));
  for (const std::string& file : written) context.out << "wrote " << file << "\n";
  return kOk;
}

}  // namespace

void add_import_galvatron_profile(Command& command, Context& context) {
  Command* part =
      command.add_subcommand("galvatron-profile", "find the best plan by Galvatron's cost model and its profile files");
  auto flags = std::make_shared<GalvatronProfileFlags>();
  const std::vector<exchange::FileRole>& roles = exchange::find_importer("galvatron-profile")->files;
  for (const exchange::FileRole& role : roles) flags->files.emplace_back(role.name, "");
  for (std::size_t i = 0; i < roles.size(); ++i) {
    auto option = part->add_option("--" + roles[i].name, flags->files[i].second, roles[i].what)->type_name("FILE");
    if (roles[i].required) option->required();
  }
  add_import_job_flags(*part, flags->job);
  part->add_option("--budget", flags->options["budget"], "memory per device, such as 36GiB (default: that of the job's devices)")
      ->type_name("SIZE");
  part->add_option("--default-dp", flags->default_type, "data-parallel type of layers without ZeRO-3")
      ->one_of({"ddp", "zero2"})
      ->show_default();
  part->add_flag("--reduce-at-end", flags->reduce_at_end, "reduce gradients once per step (Galvatron's no_async_grad_reduce)");
  part->add_option("--pp", flags->pp, "only this number of stages")->positive();
  part->add_option("--chunks", flags->chunks, "only this number of micro-batches")->positive();
  part->add_option("-o,--out", flags->folder, "write galvatron_config.json, plan.json and result.json into this folder")
      ->type_name("DIR");
  add_common_flags(*part, context);
  part->callback([&context, flags] { context.exit_code = run_profile(context, *flags); });
}

}  // namespace espalier::cli
