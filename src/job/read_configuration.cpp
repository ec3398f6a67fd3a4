// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include "base/document.h"
#include "espalier/configuration.h"
#include "job/engine_defaults.h"
#include "job/search_part.h"
#include "plan/dimension.h"
#include "plan/engine.h"

namespace espalier::job {
namespace {

Error unknown_value(const std::string& field, const std::string& value, const std::vector<std::string>& words) {
  std::string expected;
  for (const std::string& word : words) expected += (expected.empty() ? "one of " : ", ") + word;
  const std::string close = base::suggestion(value, words);
  return Error{ErrorKind::usage, field, "\"" + value + "\"", expected, close.empty() ? "choose one of these words" : close};
}

/// Returns the ordinal of an enum's value by name; the sink keeps the first bad one.
std::int64_t value_of(const std::string& dimension, const std::string& text, Status& status) {
  if (const auto value = value_of_name(dimension, text)) return *value;
  std::vector<std::string> words;
  for (std::int64_t v = 0; v < enum_size(*parse_dimension(dimension)); ++v) words.push_back(value_name(dimension, v));
  if (status.ok()) status = unknown_value(dimension, text, words);
  return 0;
}

Overlap read_overlap(const std::string& list, Status& status) {
  Overlap overlap;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "grad")
      overlap.grad_reduce = true;
    else if (word == "param")
      overlap.param_gather = true;
    else if (word == "p2p")
      overlap.p2p = true;
    else if (word == "tp")
      overlap.tp = true;
    else if (word != "none" && status.ok())
      status = unknown_value("overlap", word, {"grad", "param", "p2p", "tp", "none"});
  }
  return overlap;
}

/// Reads "none", "selective", "full", or modules of a block: "layernorm,moe_act".
Recompute read_recompute(const std::string& words, Status& status) {
  if (const auto kind = value_of_name("recompute", words)) return {static_cast<RecomputeKind>(*kind)};
  if (const auto modules = parse_recompute_modules(words)) return {RecomputeKind::selective, 0, *modules};
  std::vector<std::string> known = {"none", "selective", "full", "op"};
  RecomputeModules::all().each([&](RecomputeModule m) { known.emplace_back(to_string(m)); });
  if (status.ok()) status = unknown_value("recompute", words, known);
  return {};
}

/// Returns a degree, where an unset one is 1.
std::int32_t given(const std::optional<std::int32_t>& degree) { return std::max(1, degree.value_or(1)); }

ScheduleKind read_schedule(const ConfigurationWords& f, Status& status) {
  // Several chunks per stage mean interleaving unless another schedule is named, since 1F1B has none.
  if (f.schedule.empty()) return given(f.vpp) > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  return static_cast<ScheduleKind>(value_of("schedule", f.schedule, status));
}

std::int32_t default_virtual_stages(ScheduleKind kind) { return has_chunks(kind) ? 2 : 1; }

/// Fills in dp, shard and micro-batches, then the values that depend on them: ZeRO needs several data ranks, overlaps
/// need something to overlap.
void complete(const ConfigurationWords& f, const Job& job, const EngineDefaults& defaults, CompleteConfiguration& c) {
  CompleteConfiguration plain = c;
  complete_configuration(job, plain.strategy, plain.schedule);
  if (!f.zero && plain.strategy.data_ranks() > 1) c.strategy.zero = defaults.zero;
  complete_configuration(job, c.strategy, c.schedule);
  const EngineModel* engine = find_engine(job.engine);
  if (f.overlap.empty() && engine != nullptr)
    c.strategy.overlap = usable_overlap(defaults.overlap, *engine, job, c.strategy, c.schedule);
}

}  // namespace
}  // namespace espalier::job

namespace espalier {

Result<CompleteConfiguration> read_configuration(const ConfigurationWords& f, const Job& job) {
  Status status;
  CompleteConfiguration c;
  c.strategy.tp = job::given(f.tp);
  const job::EngineDefaults defaults = job::engine_defaults(job.engine);
  c.strategy.sp = f.sp.empty() ? (c.strategy.tp > 1 ? defaults.sp : SequenceParallel::none)
                               : static_cast<SequenceParallel>(job::value_of("sp", f.sp, status));
  c.strategy.cp = job::given(f.cp);
  c.strategy.cp_kind = static_cast<ContextParallelKind>(job::value_of("cp_kind", f.cp_kind, status));
  c.strategy.ep = job::given(f.ep);
  c.strategy.etp = job::given(f.etp);
  c.strategy.dp = f.dp.value_or(0);
  c.strategy.zero = ZeroStage{f.zero.value_or(0)};
  c.strategy.shard = f.shard.value_or(0);
  if (!f.order.empty()) c.strategy.order = static_cast<RankOrder>(job::value_of("order", f.order, status));
  c.strategy.recompute.kind = defaults.recompute;
  if (!f.recompute.empty()) c.strategy.recompute = job::read_recompute(f.recompute, status);
  c.strategy.recompute.layers = f.recompute_layers.value_or(0);
  c.strategy.overlap = job::read_overlap(f.overlap, status);
  if (!f.offload.empty()) c.strategy.offload = static_cast<Offload>(job::value_of("offload", f.offload, status));
  if (!f.partition.empty()) c.strategy.partition = BlockPartition(f.partition);
  c.schedule.kind = job::read_schedule(f, status);
  c.schedule.stages = job::given(f.pp);
  c.schedule.virtual_stages = f.vpp ? *f.vpp : job::default_virtual_stages(c.schedule.kind);
  c.schedule.micro_batch = job::given(f.micro_batch);
  c.schedule.microbatches = 0;
  if (!status.ok()) return status.error();
  job::complete(f, job, defaults, c);
  return c;
}

}  // namespace espalier
