// SPDX-License-Identifier: Apache-2.0
#include "espalier/measured_runs.h"

#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "runs/mixed_fields.h"
#include "runs/record_facts.h"
#include "runs/record_fields.h"
#include "runs/remarks.h"

namespace espalier {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxRecords = 500'000;
constexpr base::Limits kLineLimits{std::size_t{4} << 20, 32, 100'000, std::size_t{1} << 20};

using Fields = runs::RecordFields;

void read_model(const Fields& f, RunModel& m) {
  m.name = f.word("name");
  m.layers = f.count("layers");
  m.hidden = f.count("hidden");
  m.ffn = f.count("ffn");
  m.heads = f.count("heads");
  m.kv_heads = f.count("kv_heads");
  m.vocab = f.count("vocab");
  m.experts = f.count("experts");
  m.topk = f.count("topk");
  m.head_dim = f.count("head_dim");
  m.params = f.real("params");
  m.config = f.word("config");
}

/// Resolves paths of a runs file relative to its folder.
std::string beside(const std::string& where, const std::string& path) {
  const std::filesystem::path p(path);
  return path.empty() || p.is_absolute() ? path : (std::filesystem::path(where).parent_path() / p).lexically_normal().string();
}

void read_configuration(const Fields& f, RunRecord& r) {
  r.seq = f.count("seq");
  r.tp = f.count("tp");
  r.pp = f.count("pp");
  r.dp = f.count("dp");
  r.cp = f.count("cp");
  r.ep = f.count("ep");
  r.etp = f.count("etp");
  r.vpp = f.count("vpp");
  if (const Node* sp = f.find("sp"); sp && sp->kind == NodeKind::string)
    r.sp_kind = sp->text;
  else
    r.sp = f.flag("sp");
  r.zero_stage = f.count("zero_stage");
  r.fsdp = f.flag("fsdp");
  r.recompute = f.word("recompute");
  r.microbatch = f.count("microbatch");
  r.global_batch = f.count("global_batch");
  r.precision = f.word("precision");
  r.schedule = f.word("schedule");
  r.framework = f.word("framework");
}

void read_measured(const Fields& f, RunMeasurement& m) {
  m.iteration_s = f.real("iteration_s");
  m.tokens_per_s_per_gpu = f.real("tokens_per_s_per_gpu");
  m.peak_mem_gb = f.real("peak_mem_gb");
  m.memory_rank = f.word("memory_rank");
  m.memory_kind = f.word("memory_kind");
}

/// Returns whether validate skips a row for its status (Mapper::check_status).
bool is_skipped_by(const std::string& status) {
  const std::string word = base::lower(status);
  return !word.empty() && word != "ok" && word != "oom" && word != "crashed_or_oom";
}

/// Reads techniques, adapters, release and kind of memory: from their fields, else from the record's text and `extra`.
void read_facts(const Fields& f, const Node& root, RunRecord& r) {
  const runs::RecordDictionary& dictionary = runs::record_dictionary();
  const std::vector<std::string> listed = f.names("techniques");
  r.techniques = runs::listed_techniques(f.find("techniques") != nullptr ? listed : runs::published_techniques(root, dictionary));
  const Fields adapter = f.child("adapter");
  r.adapter = {adapter.count("rank"), adapter.names("targets"), adapter.word("source")};
  if (!r.adapter.rank && r.adapter.targets.empty()) r.adapter = runs::stated_adapter(root, dictionary).value_or(RunAdapter{});
  if (r.adapter.rank || !r.adapter.targets.empty())
    r.techniques.lora = true;
  else if (r.techniques.lora)
    r.adapter = runs::assumed_adapter(r.framework, dictionary).value_or(RunAdapter{});
  r.release = f.word("release");
  if (r.release.empty()) r.release = runs::published_release(root, dictionary);
  if (!r.measured.memory_kind.empty()) return;
  if (const auto kind = runs::published_memory_kind(root, dictionary)) r.measured.memory_kind = to_string(*kind);
}

Result<RunRecord> read_record(const Node& root, std::int64_t line, const std::string& where) {
  RunRecord r;
  r.line = line;
  Status status;
  const Fields f(root, "$", r, status, where);
  r.id = f.word("id");
  if (r.id.empty()) r.id = "line " + std::to_string(line);
  r.source = f.word("source");
  r.table = f.word("table");
  r.status = f.word("status");
  if (is_skipped_by(r.status)) return r;  // whatever else it holds
  read_model(f.child("model"), r.model);
  r.model.config = beside(where, r.model.config);
  const Fields gpu = f.child("gpu");
  r.gpu = {gpu.word("type"), gpu.real("mem_gb"), gpu.count("count"), gpu.count("per_node")};
  const Fields links = f.child("interconnect");
  r.intra = links.word("intra");
  r.inter = links.word("inter");
  read_configuration(f, r);
  read_measured(f.child("measured"), r.measured);
  runs::read_mixed(f, r);
  r.mixture.network.matrix = beside(where, r.mixture.network.matrix);
  runs::read_extra(root.find("extra"), r);
  read_facts(f, root, r);
  if (!status.ok()) return status.error();
  return r;
}

/// Returns a syntax error of a line, with the line of the file instead of the first one.
Error placed(Error error, std::int64_t number, const std::string& where) {
  const std::string first = where + ":1:";
  if (error.where.compare(0, first.size(), first) == 0)
    error.where = where + ":" + std::to_string(number) + ":" + error.where.substr(first.size());
  return error;
}

/// Reports a line without any JSON object, most often one of a table.
Error not_json(std::string_view line, const std::string& place) {
  constexpr std::size_t kShown = 40;
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  const std::string shown = base::in_quotes(line.substr(0, kShown)) + (line.size() > kShown ? " …" : "");
  const std::string table = line.find(',') == std::string_view::npos ? "" : "CSV tables are not supported; ";
  return Error{ErrorKind::bad_input, place, "text that is not JSON (" + shown + ")", "one JSON object per line (JSONL)",
               table + "docs/file-formats.md, \"Measured runs\", shows a record"};
}

/// Reads one line of the file, which is not blank.
Result<RunRecord> read_line(std::string_view line, std::int64_t number, const std::string& where) {
  const std::string place = where + ":" + std::to_string(number) + ":1";
  if (line.size() > kLineLimits.max_bytes)
    return Error{ErrorKind::bad_input, place, std::to_string(line.size()) + " bytes in one line", "at most 4 MiB per line",
                 "one record per line"};
  const auto document = base::read_json(line, where, kLineLimits);
  if (!document && line.find('{') == std::string_view::npos) return not_json(line, place);
  if (!document) return placed(document.error(), number, where);
  if (document->root.kind != NodeKind::mapping)
    return Error{ErrorKind::bad_input, place, std::string(to_string(document->root.kind)), "a JSON object",
                 "one record per line"};
  return read_record(document->root, number, where);
}

}  // namespace

Result<RunFile> read_run_records(std::string_view jsonl, const std::string& where) {
  RunFile file;
  for (std::int64_t number = 1; !jsonl.empty(); ++number) {
    const std::size_t end = jsonl.find('\n');
    const std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(end == std::string_view::npos ? jsonl.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (file.records.size() + file.unreadable.size() == kMaxRecords)
      return Error{ErrorKind::bad_input, where + ":" + std::to_string(number) + ":1",
                   "more than " + std::to_string(kMaxRecords) + " records", "fewer", "split the file"};
    auto record = read_line(line, number, where);
    if (record)
      file.records.push_back(std::move(record).value());
    else
      file.unreadable.push_back(record.error());
  }
  return file;
}

Result<RunFile> read_run_records_file(const std::string& path) {
  auto text = base::read_file(path, kMaxFileBytes);
  if (!text) return text.error();
  auto file = read_run_records(*text, path);
  if (file && file->records.empty() && file->unreadable.empty())
    return Error{ErrorKind::bad_input, path + ":1:1", "no records", "one JSON object per line",
                 "docs/file-formats.md, \"Measured runs\""};
  return file;
}

Result<std::vector<RunRecord>> read_all_run_records(std::string_view jsonl, const std::string& where) {
  auto file = read_run_records(jsonl, where);
  if (!file) return file.error();
  if (!file->unreadable.empty()) return file->unreadable.front();
  return std::move(file->records);
}

}  // namespace espalier
