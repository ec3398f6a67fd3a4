// SPDX-License-Identifier: Apache-2.0
#include "espalier/measured_step.h"

#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/format.h"

namespace espalier {
namespace {

constexpr std::string_view kSchema = "espalier.measured-step/1";
constexpr std::int64_t kLongest = std::int64_t{1} << 50;  // nanoseconds: 13 days
constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::size_t kOfInstruction = 5, kOfOperator = 6;  // numbers in the lists of the file

void write_numbers(base::JsonWriter& json, const char* key, const std::vector<std::int64_t>& numbers) {
  json.key(key).compact_next().begin_array();
  for (const std::int64_t number : numbers) json.value(number);
  json.end_array();
}

std::vector<std::int64_t> numbers_of(const std::vector<MeasuredInstruction>& rows) {
  std::vector<std::int64_t> out;
  for (const MeasuredInstruction& i : rows)
    out.insert(out.end(), {i.start_ns, i.end_ns, i.operators_ns, i.collectives_ns, i.waited_ns});
  return out;
}

std::vector<std::int64_t> numbers_of(const std::vector<MeasuredOperator>& rows) {
  std::vector<std::int64_t> out;
  for (const MeasuredOperator& o : rows)
    out.insert(out.end(), {o.layer, o.number, static_cast<std::int64_t>(o.pass), o.repeated ? 1 : 0, o.times, o.total_ns});
  return out;
}

/// Reads a list of numbers, `each` to a row.
std::vector<std::int64_t> list(Reader& r, const char* key, std::size_t each) {
  std::vector<std::int64_t> numbers = r.optional_int_list(key, -kLongest, kLongest);
  if (numbers.size() % each == 0) return numbers;
  r.fail(key, cat(numbers.size(), " numbers"), cat(each, " numbers for each"), "the file is incomplete");
  return {};
}

void read_instructions(Reader& r, MeasuredRank& rank) {
  const std::vector<std::int64_t> numbers = list(r, "instructions", kOfInstruction);
  for (std::size_t k = 0; k < numbers.size(); k += kOfInstruction) {
    const MeasuredInstruction i{numbers[k], numbers[k + 1], numbers[k + 2], numbers[k + 3], numbers[k + 4]};
    const bool whole = i.end_ns >= i.start_ns && i.operators_ns >= 0 && i.collectives_ns >= 0 && i.waited_ns >= 0;
    if (!whole || i.operators_ns + i.collectives_ns > i.end_ns - i.start_ns) {
      r.fail("instructions",
             cat("number ", k / kOfInstruction, " from ", i.start_ns, " to ", i.end_ns, " ns with ", i.operators_ns, " and ",
                 i.collectives_ns, " ns inside"),
             "an end after its start, and parts that fit between them");
      return;
    }
    rank.instructions.push_back(i);
  }
}

void read_operators(Reader& r, MeasuredRank& rank) {
  const std::vector<std::int64_t> numbers = list(r, "operators", kOfOperator);
  for (std::size_t k = 0; k < numbers.size(); k += kOfOperator) {
    for (std::size_t n = 0; n < kOfOperator; ++n) {
      const std::int64_t most = n == 2 ? 2 : n == 3 ? 1 : n == 5 ? kLongest : kMost;
      if (numbers[k + n] >= 0 && numbers[k + n] <= most) continue;
      r.fail("operators", cat(numbers[k + n], " as number ", n, " of row ", k / kOfOperator), cat("0 to ", most));
      return;
    }
    MeasuredOperator o;
    o.layer = static_cast<std::int32_t>(numbers[k]);
    o.number = static_cast<std::int32_t>(numbers[k + 1]);
    o.pass = static_cast<OperatorPass>(numbers[k + 2]);
    o.repeated = numbers[k + 3] == 1;
    o.times = numbers[k + 4];
    o.total_ns = numbers[k + 5];
    rank.operators.push_back(o);
  }
}

MeasuredRank read_rank(Reader& r) {
  MeasuredRank rank;
  rank.device = r.required_int("device", 0, kMost);
  rank.start_ns = r.required_int("start_ns", -kLongest, kLongest);
  rank.end_ns = r.required_int("end_ns", -kLongest, kLongest);
  rank.clock_error_ns = r.required_int("clock_error_ns", 0, kLongest);
  if (rank.end_ns < rank.start_ns) r.fail("end_ns", cat(rank.end_ns), "no less than start_ns");
  read_instructions(r, rank);
  read_operators(r, rank);
  r.finish();
  return rank;
}

}  // namespace

std::string to_json(const MeasuredStep& step) {
  base::JsonWriter json;
  json.begin_object().key("schema").value(kSchema).key("plan").value(step.plan);
  json.key("step").value(step.step).key("steps").value(step.steps).key("ranks").begin_array();
  for (const MeasuredRank& rank : step.ranks) {
    json.begin_object().key("device").value(rank.device).key("start_ns").value(rank.start_ns).key("end_ns").value(rank.end_ns);
    json.key("clock_error_ns").value(rank.clock_error_ns);
    write_numbers(json, "instructions", numbers_of(rank.instructions));
    write_numbers(json, "operators", numbers_of(rank.operators));
    json.end_object();
  }
  json.end_array().end_object();
  return json.text() + "\n";
}

Result<MeasuredStep> read_measured_step(const std::string& text, const std::string& name) {
  base::Limits limits;  // lists of numbers: a run of a thousand ranks
  limits.max_bytes = std::size_t{512} << 20;
  limits.max_nodes = 60'000'000;
  auto document = base::read_json(text, name, limits);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader r = Reader::root(*document, sink);
  if (const std::string schema = r.required_string("schema"); sink.ok() && schema != kSchema)
    r.fail("schema", cat("\"", schema, "\""), std::string(kSchema), "`espalier run --timeline FILE` writes it");
  MeasuredStep step;
  step.plan = r.required_string("plan");
  step.step = r.required_int("step", 0, kMost);
  step.steps = r.required_int("steps", 1, kMost);
  r.each("ranks", true, [&](Reader& rank) { step.ranks.push_back(read_rank(rank)); });
  r.finish();
  if (sink.ok() && step.ranks.empty()) r.fail("ranks", "none", "a rank or more");
  if (!sink.ok()) return sink.first().error();
  return step;
}

}  // namespace espalier
