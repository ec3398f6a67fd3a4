// SPDX-License-Identifier: Apache-2.0
#include "calibrate/log_arguments.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/format.h"
#include "job/engine_defaults.h"
#include "plan/engine.h"
#include "runlog/argument_block.h"

namespace espalier::calibrate {
namespace {

/// Holds the configuration's value of an argument: a number (True is 1, False 0), or a word.
struct LoggedArgument {
  const char* name;
  std::int64_t value = 0;
  std::string word = {};  ///< not empty: the argument is a word
  /// This is the number that "None" means. Without one, "None" is not compared.
  std::optional<std::int64_t> none{};
  bool modules = false;  ///< the word names modules of a block, which a log lists
};

std::int64_t heads_of(const LayerKind& kind) {
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::attention) return op.heads;
  return 0;
}

std::string word_of(RecomputeKind kind) {
  switch (kind) {
    case RecomputeKind::none: return "None";
    case RecomputeKind::selective: return "selective";
    case RecomputeKind::full: return "full";
  }
  return "";
}

/// Converts "['layernorm', 'moe_act']" to a configuration's names; empty where not all of them are known.
std::string modules_in(std::string text) {
  for (char& c : text)
    if (c == '[' || c == ']' || c == '\'' || c == '"') c = ' ';
  const auto modules = parse_recompute_modules(text);
  return modules ? to_string(*modules) : "";
}

void say_degrees(const Strategy& s, const Schedule& schedule, std::vector<LoggedArgument>& out) {
  out.insert(out.end(), {{"tensor_model_parallel_size", s.tp},
                         {"pipeline_model_parallel_size", schedule.stages},
                         {"context_parallel_size", s.cp},
                         {"expert_model_parallel_size", s.ep},
                         {"micro_batch_size", schedule.micro_batch},
                         {"sequence_parallel", s.sp == SequenceParallel::megatron ? 1 : 0},
                         {"recompute_granularity", 0, word_of(s.recompute.kind)}});
  const bool interleaved = schedule.kind == ScheduleKind::interleaved;
  out.push_back({"virtual_pipeline_model_parallel_size", interleaved ? schedule.virtual_stages : 1, "", 1});
  if (s.dp > 0) out.push_back({"data_parallel_size", s.dp});
  if (s.recompute.modules.any()) out.push_back({"recompute_modules", 0, to_string(s.recompute.modules), std::nullopt, true});
  if (s.data_ranks() <= 1) return;
  out.push_back({"use_distributed_optimizer", s.shards_optimizer() ? 1 : 0});
  out.push_back({"overlap_grad_reduce", s.overlap.grad_reduce ? 1 : 0});
  if (s.shards_optimizer()) out.push_back({"overlap_param_gather", s.overlap.param_gather ? 1 : 0});
}

std::vector<LoggedArgument> said_by(const Trained& t) {
  const LayerKind& block = t.job.model.layer(1);
  std::vector<LoggedArgument> out{{"world_size", t.job.cluster.devices()},
                                  {"global_batch_size", t.training.global_batch},
                                  {"seq_length", t.training.sequence.main},
                                  {"num_layers", t.job.model.blocks()},
                                  {"hidden_size", block.hidden},
                                  {"num_attention_heads", heads_of(block)}};
  if (t.strategy != nullptr && t.schedule != nullptr) say_degrees(*t.strategy, *t.schedule, out);
  return out;
}

std::optional<std::int64_t> value_of(const runlog::Argument& argument, const LoggedArgument& said) {
  if (argument.value == "True") return 1;
  if (argument.value == "False") return 0;
  if (argument.value == "None") return said.none;
  return runlog::integer_of(argument);
}

/// Returns whether the two agree; nothing where they cannot be compared.
std::optional<bool> agrees(const runlog::Argument& argument, const LoggedArgument& said) {
  if (!said.word.empty()) return (said.modules ? modules_in(argument.value) : argument.value) == said.word;
  const auto value = value_of(argument, said);
  if (!value) return std::nullopt;
  return *value == said.value;
}

using Arguments = std::map<std::string, runlog::Argument>;

std::optional<std::int32_t> count_of(const Arguments& arguments, const char* name) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto at = arguments.find(name);
  const auto value = at == arguments.end() ? std::nullopt : runlog::integer_of(at->second);
  if (!value || *value < 1 || *value > kMost) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

std::optional<bool> switch_of(const Arguments& arguments, const char* name) {
  const auto at = arguments.find(name);
  if (at == arguments.end() || (at->second.value != "True" && at->second.value != "False")) return std::nullopt;
  return at->second.value == "True";
}

}  // namespace

Result<LoggedConfiguration> logged_configuration(std::string_view log, const std::string& where) {
  const auto arguments = runlog::read_argument_block(log, where);
  if (!arguments) return arguments.error();
  LoggedConfiguration out;
  out.tp = count_of(*arguments, "tensor_model_parallel_size");
  out.pp = count_of(*arguments, "pipeline_model_parallel_size");
  out.vpp = count_of(*arguments, "virtual_pipeline_model_parallel_size");
  out.cp = count_of(*arguments, "context_parallel_size");
  out.ep = count_of(*arguments, "expert_model_parallel_size");
  out.etp = count_of(*arguments, "expert_tensor_parallel_size");
  out.micro_batch = count_of(*arguments, "micro_batch_size");
  out.sequence_parallel = switch_of(*arguments, "sequence_parallel");
  out.distributed_optimizer = switch_of(*arguments, "use_distributed_optimizer");
  out.overlap_gradients = switch_of(*arguments, "overlap_grad_reduce");
  out.overlap_parameters = switch_of(*arguments, "overlap_param_gather");
  if (const auto at = arguments->find("recompute_granularity"); at != arguments->end())
    out.recompute = at->second.value == "None" ? "none" : at->second.value;
  if (const auto at = arguments->find("recompute_modules"); at != arguments->end() && out.recompute == "selective")
    if (const std::string modules = modules_in(at->second.value); !modules.empty()) out.recompute = modules;
  // This applies to the block method. Under the uniform one it is the size of a unit, and all blocks are recomputed.
  const auto method = arguments->find("recompute_method");
  if (out.recompute == "full" && method != arguments->end() && method->second.value == "block")
    out.recompute_layers = count_of(*arguments, "recompute_num_layers");
  return out;
}

Result<std::int64_t> compare_arguments(std::string_view log, const std::string& where, const Trained& trained) {
  const auto arguments = runlog::read_argument_block(log, where);
  if (!arguments) return arguments.error();
  std::int64_t compared = 0;
  std::string found, expected;
  for (const LoggedArgument& said : said_by(trained)) {
    const auto at = arguments->find(said.name);
    if (at == arguments->end()) continue;
    const auto same = agrees(at->second, said);
    if (!same) continue;
    ++compared;
    if (*same) continue;
    found += cat(found.empty() ? "" : ", ", said.name, " ", at->second.value, " (line ", at->second.line, ")");
    expected += cat(expected.empty() ? "" : ", ", said.word.empty() ? std::to_string(said.value) : said.word);
  }
  if (found.empty()) return compared;
  return Error{ErrorKind::bad_input, where, found, cat(expected, ", as ", trained.who, " says"), trained.hint};
}

void overlap_as_logged(const Job& job, const LoggedConfiguration& logged, CompleteConfiguration& configuration) {
  Strategy& s = configuration.strategy;
  Overlap wanted = s.overlap;
  if (logged.overlap_gradients) wanted.grad_reduce = *logged.overlap_gradients;
  if (logged.overlap_parameters) wanted.param_gather = *logged.overlap_parameters;
  s.overlap = job::usable_overlap(wanted, *find_engine(job.engine), job, s, configuration.schedule);
}

}  // namespace espalier::calibrate
