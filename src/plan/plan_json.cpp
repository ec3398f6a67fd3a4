// SPDX-License-Identifier: Apache-2.0
// plan.json, schema espalier.plan/1: writing with stable key order, strict reading, round trip.
//
//   devices   "0-7" first-last, "0-56:8" first-last:stride, "5" one device
//   layers    the ranges of a stage, one line each, chunk after chunk; `chunk` says which of several virtual stages a range belongs to,
//             where a chunk has more than one range
//   source    model and cluster inputs embedded as JSON values; null when the plan holds none
// `schedule.stages` is not written: it is the length of `stages`. (A result's alternatives, which have no stages, write it.)
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/document.h"
#include "base/format.h"
#include "espalier/plan.h"
#include "plan/operator_partition.h"
#include "plan/plan_json.h"

namespace espalier {
namespace {

using base::cat;
using base::JsonWriter;
using base::Node;
using base::NodeKind;
using base::Reader;

constexpr std::string_view kSchema = "espalier.plan/1";
constexpr std::int64_t kMaxCount = std::int64_t{1} << 22;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;
constexpr std::array<Precision, kPrecisions> kAllPrecisions = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16,
                                                               Precision::fp8};

// ---- writing -----------------------------------------------------------------------------------------------------------------

std::string device_text(const DeviceRange& r) {
  if (r.count == 1) return cat(r.first);
  return cat(r.first, "-", r.first + (r.count - 1) * r.stride, r.stride == 1 ? "" : cat(":", r.stride));
}

void write_input(JsonWriter& w, std::string_view key, const std::string& name, const std::string& hash,
                 const std::string& summary, const std::string& source) {
  w.key(key).begin_object();
  w.key("name").value(name).key("hash").value(hash).key("summary").value(summary).key("source");
  if (source.empty()) {
    w.null();
  } else {
    w.raw(source);
  }
  w.end_object();
}

void write_training(JsonWriter& w, const Training& t) {
  w.key("training").begin_object().key("sequence_length");
  if (t.sequence.encoder == 0 && t.sequence.decoder == 0) {
    w.value(t.sequence.main);
  } else {
    w.compact_next().begin_object();
    if (t.sequence.main != 0) w.key("main").value(t.sequence.main);
    w.key("encoder").value(t.sequence.encoder).key("decoder").value(t.sequence.decoder).end_object();
  }
  w.key("global_batch").value(t.global_batch).key("precision").value(to_string(t.precision));
  w.key("optimizer").value(to_string(t.optimizer)).key("moe_imbalance").value(t.moe_imbalance).key("tokens").value(t.tokens);
  w.end_object();
}

/// Operators in the order of the block; what cannot be read stays a text, so that nothing is lost.
void write_partition(JsonWriter& w, const BlockPartition& partition) {
  const auto& parsed = partition.operators();
  if (!parsed) {
    w.value(partition.text());
    return;
  }
  w.begin_object();
  for (const OperatorPartition& p : *parsed) w.key(p.name).value(partition::to_string(p.sequence));
  w.end_object();
}

void write_stage(JsonWriter& w, const Stage& stage) {
  w.begin_object().key("devices").compact_next().begin_array();
  for (const DeviceRange& r : stage.devices) w.value(device_text(r));
  w.end_array().key("layers").begin_array();
  const bool several = stage.chunks.size() > 1 && std::any_of(stage.chunks.begin(), stage.chunks.end(),
                                                              [](const Chunk& chunk) { return chunk.ranges.size() > 1; });
  for (std::size_t k = 0; k < stage.chunks.size(); ++k) {
    for (const LayerRange& range : stage.chunks[k].ranges) {
      w.compact_next().begin_object();
      if (several) w.key("chunk").value(static_cast<std::int64_t>(k));
      w.key("first").value(range.first).key("last").value(range.last).key("strategy");
      write_strategy(w, range.strategy);
      w.end_object();
    }
  }
  w.end_array().key("share").value(stage.share).end_object();
}

// ---- reading -----------------------------------------------------------------------------------------------------------------

std::int32_t read_int32(Reader& r, std::string_view key, std::int64_t low, std::int64_t high) {
  return static_cast<std::int32_t>(r.required_int(key, low, high));
}

/// A key that must be there; its value one of `values` by to_string.
template <class Enum, std::size_t N>
Enum read_enum(Reader& r, std::string_view key, const std::array<Enum, N>& values) {
  std::vector<std::string_view> names;
  for (const Enum v : values) names.push_back(to_string(v));
  if (!r.has(key)) r.fail(key, "nothing", cat("a value such as \"", names.front(), "\""));
  return values[r.optional_choice(key, names, 0)];
}

bool read_flag(Reader& r, std::string_view key) {
  if (!r.has(key)) r.fail(key, "nothing", "true or false");
  return r.optional_bool(key, false);
}

struct InputFields {
  std::string name, hash, summary, source;
};
InputFields read_input(Reader& r, std::string_view key) {
  InputFields fields;
  Reader input = r.child(key, true);
  fields.name = input.required_string("name");
  fields.hash = input.required_string("hash");
  fields.summary = input.required_string("summary");
  if (const Node* source = input.find("source"); source != nullptr && source->kind != NodeKind::null) {
    fields.source = base::to_json(*source);
  }
  input.finish();
  return fields;
}

void read_calibration_input(Reader& root, Plan& plan) {
  if (!root.has("calibration")) return;
  Reader calibration = root.child("calibration", true);
  plan.calibration_name = calibration.required_string("name");
  plan.calibration_hash = calibration.required_string("hash");
  const Node* source = calibration.find("source");
  if (source == nullptr || source->kind != NodeKind::mapping)
    calibration.fail("source", source == nullptr ? "nothing" : std::string(to_string(source->kind)), "the calibration itself");
  else
    plan.calibration_source = base::to_json(*source);
  calibration.finish();
}

Sequence read_sequence(Reader& r) {
  Sequence sequence;
  const Node* node = r.find("sequence_length");
  if (node != nullptr && node->kind == NodeKind::mapping) {
    Reader both = r.child("sequence_length", true);
    sequence.main = both.optional_int("main", 0, kMaxTokens, 0);
    sequence.encoder = both.required_int("encoder", 0, kMaxTokens);
    sequence.decoder = both.required_int("decoder", 0, kMaxTokens);
    both.finish();
  } else {
    sequence.main = r.required_int("sequence_length", 0, kMaxTokens);
  }
  return sequence;
}

Optimizer read_optimizer(Reader& t) {
  const std::string word = t.required_string("optimizer");
  for (const Optimizer v : {Optimizer::adam, Optimizer::sgd, Optimizer::lora})
    if (to_string(v) == word) return v;
  if (t.sink().ok()) t.fail("optimizer", cat("\"", word, "\""), "adam, sgd or lora");
  return Optimizer::adam;
}

Training read_training(Reader& r) {
  Reader t = r.child("training", true);
  Training training;
  training.sequence = read_sequence(t);
  training.global_batch = t.required_int("global_batch", 1, kMaxTokens);
  training.precision = read_enum(t, "precision", kAllPrecisions);
  training.optimizer = read_optimizer(t);
  training.moe_imbalance = t.required_real("moe_imbalance", 1.0, 1e6);
  training.tokens = t.required_real("tokens", 0.0, 1e18);
  t.finish();
  return training;
}

/// An object or its canonical text; null is none.
std::string read_partition(Reader& s) {
  const Node* node = s.find("partition");
  if (node == nullptr || node->kind == NodeKind::null) return "";
  std::string text;
  if (node->kind == NodeKind::string) {
    text = node->text;
  } else if (node->kind == NodeKind::mapping && !node->members.empty()) {
    for (const auto& [name, sequence] : node->members) {
      if (sequence.kind != NodeKind::string || name.find_first_of(" ;") != std::string::npos) {
        s.fail("partition", cat("\"", name, "\""), "names of operators and a sequence such as \"K,P2\" for each");
        return "";
      }
      text += cat(text.empty() ? "" : "; ", name, " ", sequence.text);
    }
  } else {
    s.fail("partition", std::string(to_string(node->kind)), "an object such as {\"attn.qkv\": \"K,P2\"}, or null");
    return "";
  }
  const auto parsed = parse_operator_partition(text);
  if (!parsed) {
    s.fail("partition", parsed.error().found, parsed.error().expected, parsed.error().hint);
    return "";
  }
  return to_string(*parsed);
}

/// "0-7", "0-56:8", "5"; ids below 2^22.
std::optional<DeviceRange> parse_devices(std::string_view text) {
  std::array<std::int64_t, 3> numbers = {0, -1, 1};
  constexpr std::array<char, 2> kMarks = {'-', ':'};
  const char* at = text.data();
  const char* const end = at + text.size();
  std::size_t count = 0;
  while (count < 3) {
    if (at == end || *at < '0' || *at > '9' || (*at == '0' && at + 1 != end && at[1] >= '0' && at[1] <= '9')) return std::nullopt;
    const auto [rest, error] = std::from_chars(at, end, numbers[count]);
    if (error != std::errc() || numbers[count] >= kMaxCount) return std::nullopt;
    at = rest;
    ++count;
    if (at == end || count == 3) break;
    if (*at != kMarks[count - 1]) return std::nullopt;
    ++at;
  }
  if (at != end) return std::nullopt;
  if (count == 1) return DeviceRange{numbers[0], 1, 1};
  const std::int64_t stride = numbers[2];
  const std::int64_t length = numbers[1] - numbers[0];
  // One way to write each range: a single device has no dash, stride 1 no colon.
  if (length < 1 || stride < (count == 3 ? 2 : 1) || length % stride != 0) return std::nullopt;
  return DeviceRange{numbers[0], length / stride + 1, stride};
}

void read_devices(Reader& r, std::vector<DeviceRange>& devices) {
  const Node* list = r.find("devices");
  if (list == nullptr || list->kind != NodeKind::sequence || list->items.empty()) {
    r.fail("devices", list == nullptr ? "nothing" : "no list of device ranges", "a list such as [\"0-7\"]");
    return;
  }
  for (const Node& item : list->items) {
    const std::optional<DeviceRange> range = item.kind == NodeKind::string ? parse_devices(item.text) : std::nullopt;
    if (!range) {
      r.fail("devices",
             item.kind == NodeKind::string ? cat("\"", item.text.substr(0, 40), "\"") : std::string(to_string(item.kind)),
             "\"first-last\", \"first-last:stride\" or \"id\", ids below 4194304");
      return;
    }
    devices.push_back(*range);
  }
}

/// Without `chunk` a range is a chunk of its own, or all ranges are the one chunk of the stage.
Stage read_stage(Reader& r, std::int32_t virtual_stages) {
  Stage stage;
  read_devices(r, stage.devices);
  r.each("layers", true, [&](Reader& item) {
    LayerRange range;
    const auto next = static_cast<std::int64_t>(virtual_stages > 1 ? stage.chunks.size() : 0);
    const std::int64_t chunk = item.optional_int("chunk", 0, 1 << 16, next);
    range.first = read_int32(item, "first", 0, 1 << 16);
    range.last = read_int32(item, "last", 0, 1 << 16);
    range.strategy = read_strategy(item);
    if (chunk > static_cast<std::int64_t>(stage.chunks.size()) || chunk + 1 < static_cast<std::int64_t>(stage.chunks.size()))
      item.fail("chunk", std::to_string(chunk), "the chunk of the range before, or the next one");
    item.finish();
    if (stage.chunks.empty() || chunk == static_cast<std::int64_t>(stage.chunks.size())) stage.chunks.emplace_back();
    stage.chunks.back().ranges.push_back(std::move(range));
  });
  stage.share = r.required_real("share", 0.0, 1.0);
  r.finish();
  return stage;
}

Plan read_plan(Reader& root) {
  Plan plan;
  if (const std::string schema = root.required_string("schema"); root.sink().ok() && schema != kSchema) {
    const bool other = schema.starts_with("espalier.plan/");
    root.fail(
        "schema", cat("\"", schema, "\""), cat("\"", kSchema, "\""),
        other ? "another version of espalier wrote it; use that version, or plan again from the job" : "is this a plan.json?");
  }
  plan.engine = root.required_string("engine");
  InputFields model = read_input(root, "model");
  plan.model_name = std::move(model.name);
  plan.model_hash = std::move(model.hash);
  plan.model_summary = std::move(model.summary);
  plan.model_source = std::move(model.source);
  InputFields cluster = read_input(root, "cluster");
  plan.cluster_name = std::move(cluster.name);
  plan.cluster_hash = std::move(cluster.hash);
  plan.cluster_summary = std::move(cluster.summary);
  plan.cluster_source = std::move(cluster.source);
  read_calibration_input(root, plan);
  plan.training = read_training(root);
  plan.schedule = read_schedule(root, false);
  root.each("stages", true, [&plan](Reader& stage) { plan.stages.push_back(read_stage(stage, plan.schedule.virtual_stages)); });
  root.finish();
  plan.schedule.stages = static_cast<std::int32_t>(plan.stages.size());
  return plan;
}

}  // namespace

void write_strategy(JsonWriter& w, const Strategy& s) {
  w.begin_object();
  w.key("tp").value(s.tp).key("sp").value(to_string(s.sp)).key("cp").value(s.cp).key("cp_kind").value(to_string(s.cp_kind));
  w.key("ep")
      .value(s.ep)
      .key("etp")
      .value(s.etp)
      .key("dp")
      .value(s.dp)
      .key("zero")
      .value(number_of(s.zero))
      .key("shard")
      .value(s.shard);
  w.key("order").value(to_string(s.order));
  w.key("recompute").begin_object().key("kind").value(to_string(s.recompute.kind)).key("layers").value(s.recompute.layers);
  w.end_object().key("overlap").begin_object();
  w.key("grad_reduce").value(s.overlap.grad_reduce).key("param_gather").value(s.overlap.param_gather);
  w.key("p2p").value(s.overlap.p2p).key("tp").value(s.overlap.tp).end_object().key("partition");
  if (s.partition.empty()) {
    w.null();
  } else {
    write_partition(w, s.partition);
  }
  w.end_object();
}

void write_schedule(JsonWriter& w, const Schedule& s) {
  w.begin_object().key("kind").value(to_string(s.kind)).key("stages").value(s.stages);
  w.key("virtual_stages").value(s.virtual_stages).key("microbatches").value(s.microbatches);
  w.key("micro_batch").value(s.micro_batch).end_object();
}

Schedule read_schedule(Reader& r, bool with_stages) {
  Reader s = r.child("schedule", true);
  Schedule schedule;
  schedule.kind = read_enum(s, "kind",
                            std::array{ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                       ScheduleKind::zb_h1, ScheduleKind::zb_v});
  schedule.virtual_stages = read_int32(s, "virtual_stages", 1, 1 << 16);
  schedule.microbatches = read_int32(s, "microbatches", 1, kMaxInt32);
  schedule.micro_batch = read_int32(s, "micro_batch", 1, kMaxInt32);
  if (with_stages) schedule.stages = read_int32(s, "stages", 1, 1 << 16);
  s.finish();
  return schedule;
}

Strategy read_strategy(Reader& r) {
  Reader s = r.child("strategy", true);
  Strategy strategy;
  strategy.tp = read_int32(s, "tp", 1, kMaxCount);
  strategy.sp = read_enum(s, "sp", std::array{SequenceParallel::none, SequenceParallel::megatron, SequenceParallel::ulysses});
  strategy.cp = read_int32(s, "cp", 1, kMaxCount);
  strategy.cp_kind = read_enum(s, "cp_kind", std::array{ContextParallelKind::ring, ContextParallelKind::all_to_all});
  strategy.ep = read_int32(s, "ep", 1, kMaxCount);
  strategy.etp = read_int32(s, "etp", 1, kMaxCount);
  strategy.dp = read_int32(s, "dp", 1, kMaxCount);
  strategy.zero = ZeroStage{read_int32(s, "zero", 0, 3)};
  strategy.shard = read_int32(s, "shard", 1, kMaxCount);
  strategy.order = read_enum(s, "order", std::array{RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp, RankOrder::tp_dp_cp_pp});
  Reader recompute = s.child("recompute", true);
  strategy.recompute.kind =
      read_enum(recompute, "kind", std::array{RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full});
  strategy.recompute.layers = read_int32(recompute, "layers", 0, 1 << 16);
  recompute.finish();
  Reader overlap = s.child("overlap", true);
  strategy.overlap.grad_reduce = read_flag(overlap, "grad_reduce");
  strategy.overlap.param_gather = read_flag(overlap, "param_gather");
  strategy.overlap.p2p = read_flag(overlap, "p2p");
  strategy.overlap.tp = read_flag(overlap, "tp");
  overlap.finish();
  strategy.partition = BlockPartition(read_partition(s));
  s.finish();
  return strategy;
}

std::string to_json(const Plan& plan) {
  JsonWriter w;
  w.begin_object();
  w.key("schema").value(kSchema);
  w.key("engine").value(plan.engine);
  write_input(w, "model", plan.model_name, plan.model_hash, plan.model_summary, plan.model_source);
  write_input(w, "cluster", plan.cluster_name, plan.cluster_hash, plan.cluster_summary, plan.cluster_source);
  if (!plan.calibration_source.empty()) {
    w.key("calibration").begin_object();
    w.key("name").value(plan.calibration_name).key("hash").value(plan.calibration_hash);
    w.key("source").raw(plan.calibration_source).end_object();
  }
  write_training(w, plan.training);
  w.key("schedule").begin_object();
  w.key("kind").value(to_string(plan.schedule.kind)).key("virtual_stages").value(plan.schedule.virtual_stages);
  w.key("microbatches").value(plan.schedule.microbatches).key("micro_batch").value(plan.schedule.micro_batch).end_object();
  w.key("stages").begin_array();
  for (const Stage& stage : plan.stages) write_stage(w, stage);
  w.end_array().end_object();
  return w.text() + "\n";
}

Result<Plan> plan_from_json(std::string_view text, const std::string& where) {
  Result<base::Document> document = base::read_json(text, where);
  if (!document.ok()) return document.error();
  base::ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  Plan plan = read_plan(root);
  if (!sink.ok()) return *sink.first();
  if (Status fault = validate(plan)) {
    fault->where = cat(where, ": ", fault->where);
    return *fault;
  }
  return plan;
}

}  // namespace espalier
