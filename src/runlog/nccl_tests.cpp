// SPDX-License-Identifier: Apache-2.0
#include "runlog/nccl_tests.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "runlog/lines.h"

namespace espalier::runlog {
namespace {

constexpr std::size_t kMaxRows = 100'000;
constexpr std::size_t kMaxRanks = 100'000;
constexpr double kMaxMicroseconds = 1e12;

struct TestName {
  std::string_view program, word;
  CollectiveTest test;
};
constexpr std::array<TestName, 5> kNames = {{{"all_reduce_perf", "all_reduce", CollectiveTest::all_reduce},
                                             {"all_gather_perf", "all_gather", CollectiveTest::all_gather},
                                             {"reduce_scatter_perf", "reduce_scatter", CollectiveTest::reduce_scatter},
                                             {"alltoall_perf", "alltoall", CollectiveTest::all_to_all},
                                             {"sendrecv_perf", "sendrecv", CollectiveTest::send_receive}}};

struct TestedRank {
  std::int64_t group = 0;
  std::string host;
};

/// Holds the content of a table before its meaning is settled.
struct Draft {
  NcclTable table;
  std::optional<CollectiveTest> named;
  std::string program;  ///< a program that is not one of ours
  std::vector<TestedRank> ranks;
  std::int64_t own = 0;  ///< ranks of one process, where the first line states them
  double factor = 0;     ///< busbw / algbw of the largest row
  bool reduces = false;
};

std::optional<CollectiveTest> test_in(std::string_view text) {
  for (const TestName& name : kNames) {
    if (text.find(name.word) != std::string_view::npos) return name.test;
  }
  return std::nullopt;
}

std::string file_name(std::string_view where) { return std::string(where.substr(where.find_last_of('/') + 1)); }

Error bad(const std::string& where, std::string found, std::string expected, std::string hint = "") {
  return Error{ErrorKind::bad_input, where, std::move(found), std::move(expected), std::move(hint)};
}

// ---- ranks --------------------------------------------------------------------------------------------------------

/// Reads a line such as
///  "#  Rank  0 Group  0 Pid  12345 on   node001 device  0 [0000:18:00] NVIDIA H100 80GB HBM3".
/// Pasted text may have lost its '#', where that makes headings.
bool read_rank(std::string_view line, Draft& draft) {
  const auto words = words_of(line);
  const auto rank = std::find(words.begin(), words.end(), "Rank");
  const auto on = std::find(words.begin(), words.end(), "on");
  if (rank == words.end() || on == words.end() || on + 1 == words.end() || rank + 1 == words.end() || !whole_integer(*(rank + 1)))
    return false;
  if (line.find('#') == std::string_view::npos && std::find(words.begin(), words.end(), "device") == words.end()) return false;
  TestedRank r;
  r.host = std::string(*(on + 1));
  const auto group = std::find(words.begin(), words.end(), "Group");
  if (group != words.end() && group + 1 != words.end()) r.group = whole_integer(*(group + 1)).value_or(0);
  if (const std::size_t bracket = line.find(']'); bracket != std::string_view::npos && draft.table.device.empty())
    draft.table.device = std::string(trimmed(line.substr(bracket + 1)));
  if (draft.ranks.size() < kMaxRanks) draft.ranks.push_back(std::move(r));
  return true;
}

/// Reads "# nThread 1 nGpus 8 minBytes …", the ranks of one process.
void read_own_ranks(std::string_view line, Draft& draft) {
  const auto threads = after(line, "nThread "), devices = after(line, "nGpus ");
  if (!threads || !devices) return;
  const auto t = leading_number(*threads), g = leading_number(*devices);
  if (t && g && *t >= 1 && *g >= 1 && *t * *g <= static_cast<double>(kMaxRanks)) draft.own = std::llround(*t * *g);
}

/// Returns the ranks of an all-reduce from busbw / algbw = 2(n−1)/n. Returns 0 for another collective, or for more
/// ranks than the printed digits can distinguish.
std::int64_t ranks_by_factor(const Draft& draft) {
  if (!draft.reduces || draft.factor <= 1 || draft.factor > 1.98) return 0;
  return std::llround(2 / (2 - draft.factor));
}

/// Fills in a missing list of ranks. A single process that has all ranks is one node.
void assume_one_node(Draft& draft) {
  const std::int64_t n = ranks_by_factor(draft);
  if (draft.own < 2 || (n > 0 && n != draft.own)) return;
  draft.ranks.assign(static_cast<std::size_t>(draft.own), TestedRank{0, "node"});
}

Error no_ranks(const Draft& draft) {
  const std::int64_t n = ranks_by_factor(draft);
  return bad(
      draft.table.where, "a table without its '# Rank … on HOST device …' lines",
      "the whole output of the program, from '# nThread' on",
      n > 1 ? base::cat(
                  "busbw / algbw is that of ", n,
                  " ranks, but nothing tells on how many nodes: add '# Rank 0 Pid 1 on HOST device 0' and so on above the table")
            : std::string("the number of ranks and nodes is read from these lines"));
}

/// Sets ranks, nodes and groups of the table from its list of ranks. Groups or nodes of unlike sizes are an error.
Status place(Draft& draft) {
  NcclTable& t = draft.table;
  if (draft.ranks.empty()) assume_one_node(draft);
  if (draft.ranks.empty()) return no_ranks(draft);
  std::map<std::int64_t, std::map<std::string, std::int64_t>> groups;
  std::map<std::string, std::int64_t> per_node, number;
  t.members.clear();
  for (const TestedRank& r : draft.ranks) {
    const std::int64_t node = number.emplace(r.host, static_cast<std::int64_t>(number.size())).first->second;
    if (r.group == draft.ranks.front().group) t.members.emplace_back(node, per_node[r.host]);
    ++groups[r.group][r.host];
    ++per_node[r.host];
  }
  const auto& first = groups.begin()->second;
  const std::int64_t on_one = first.begin()->second;
  for (const auto& [id, hosts] : groups) {
    for (const auto& [host, n] : hosts) {
      if (n != on_one || hosts.size() != first.size())
        return bad(t.where, "groups with unlike numbers of ranks on their nodes", "equal groups, the same number on each node");
    }
  }
  t.groups = static_cast<std::int64_t>(groups.size());
  t.nodes = static_cast<std::int64_t>(first.size());
  t.ranks = on_one * t.nodes;
  t.active_per_node = per_node.begin()->second;
  if (t.ranks < 2) return bad(t.where, "one rank", "at least two ranks", "a collective of one rank moves nothing");
  return {};
}

// ---- which collective ---------------------------------------------------------------------------------------------

Status settle_test(Draft& draft, const std::string& file) {
  NcclTable& t = draft.table;
  if (draft.named) {
    t.test = *draft.named;
    return {};
  }
  if (!draft.program.empty())
    return bad(t.where, "\"" + draft.program + "\"",
               "all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf or sendrecv_perf");
  if (const auto test = test_in(file)) {
    t.test = *test;
    return {};
  }
  const double n = static_cast<double>(t.ranks), ring = (n - 1) / n;
  const auto near = [&](double factor) { return draft.factor > 0 && std::fabs(draft.factor / factor - 1) < 0.02; };
  if (draft.reduces && near(2 * ring))
    t.test = CollectiveTest::all_reduce;
  else if (draft.reduces && near(ring))
    t.test = CollectiveTest::reduce_scatter;
  else if (!draft.reduces && near(1))
    t.test = CollectiveTest::send_receive;
  else
    return bad(t.where, "a table that does not say which collective it timed", "a header line '# Collective test starting: …'",
               "name the file after the program: all_gather_perf.txt");
  return {};
}

// ---- rows ---------------------------------------------------------------------------------------------------------

bool is_type(std::string_view word) {
  constexpr std::array<std::string_view, 16> kTypes = {"int8",   "uint8",  "int32",  "uint32",   "int64",    "uint64",
                                                       "half",   "float",  "double", "fp8_e4m3", "fp8_e5m2", "bfloat16",
                                                       "f8e4m3", "f8e5m2", "int",    "char"};
  return std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

/// Returns the index of the first number of a row (time algbw busbw check time algbw busbw check), after type,
/// operation and root.
std::size_t first_number(const std::vector<std::string_view>& words, std::size_t type, bool& reduces) {
  std::size_t at = type + 1;
  if (at < words.size() && !whole_number(words[at]) && words[at] != "N/A") {
    reduces = words[at] != "none";
    ++at;
  }
  // A root is a whole number before eight more columns; time, algbw and busbw are at most eight.
  const std::size_t left = words.size() - std::min(words.size(), at);
  if (left % 4 == 1 || left == 7) ++at;
  return at;
}

enum class RowReading { foreign, row, damaged, negative };

RowReading read_row(const std::vector<std::string_view>& words, NcclRow& row, Draft& draft) {
  std::size_t type = 2;
  while (type < words.size() && type < 8 && !(is_type(words[type]) && whole_integer(words[type - 1]))) ++type;
  if (type >= words.size() || type >= 8) return RowReading::foreign;
  const auto bytes = whole_integer(words[type - 2]);
  const auto count = whole_integer(words[type - 1]);
  if (!bytes || !count) return RowReading::foreign;
  if (*bytes < 0 || *count < 0) return RowReading::negative;
  bool reduces = false;
  const std::size_t at = first_number(words, type, reduces);
  if (at + 3 > words.size()) return RowReading::damaged;
  auto time = whole_number(words[at]);
  if (!time && at + 4 < words.size()) time = whole_number(words[at + 4]);  // only in place
  if (!time || *time < 0 || *time > kMaxMicroseconds) return RowReading::damaged;
  row.bytes = *bytes;
  row.microseconds = *time;
  const auto algorithm = whole_number(words[at + 1]), bus = whole_number(words[at + 2]);
  if (algorithm && bus && *algorithm > 0.5 && *bus > 0) draft.factor = *bus / *algorithm;
  draft.reduces = reduces;
  return RowReading::row;
}

// ---- text ---------------------------------------------------------------------------------------------------------

class TextReader {
 public:
  explicit TextReader(std::string where) : where_(std::move(where)) {}

  void line(std::int64_t number, std::string_view text) {
    for (const std::string_view tag : {"<stdout>:", "<stderr>:"}) {  // mpirun --tag-output
      if (const std::size_t at = text.find(tag); at != std::string_view::npos) text.remove_prefix(at + tag.size());
    }
    if (const auto own = after(text, "# Espalier: from everyone to everyone up to"))
      if (const std::vector<std::string_view> words = words_of(*own); !words.empty())
        direct_bytes_ = whole_number(words.front()).value_or(0);
    if (const auto program = after(text, "Collective test starting:")) begin_program(words_of(*program));
    if (text.find("Using devices") != std::string_view::npos) begin_devices();
    if (read_rank(text, draft_)) return;
    read_own_ranks(text, draft_);
    if (text.find("Avg bus bandwidth") != std::string_view::npos) {
      draft_.table.complete = true;
      return close();
    }
    if (text.find('#') == std::string_view::npos || whole_integer(words_of(text).front())) row(number, text);
  }

  Result<std::vector<NcclTable>> finish() {
    close();
    if (!status_.ok()) return status_.error();
    if (!tables_.empty()) return std::move(tables_);
    if (damaged_ > 0)
      return bad(where_ + ":" + std::to_string(damaged_), "a row that cannot be read, and none that can",
                 "size count type redop root time algbw busbw #wrong …");
    return bad(where_ + ":1", "no rows of nccl-tests",
               "the output of all_reduce_perf, all_gather_perf, reduce_scatter_perf, "
               "alltoall_perf or sendrecv_perf");
  }

 private:
  void begin_program(const std::vector<std::string_view>& words) {
    close();
    draft_ = {};
    if (words.empty()) return;
    draft_.named = test_in(words.front());
    if (!draft_.named) draft_.program = std::string(words.front());
  }

  void begin_devices() {
    close();
    draft_.ranks.clear();
    draft_.table.device.clear();
  }

  void row(std::int64_t number, std::string_view text) {
    NcclRow r;
    const RowReading reading = read_row(words_of(text), r, draft_);
    if (reading == RowReading::negative && status_.ok())
      status_ = bad(where_ + ":" + std::to_string(number), "a row with a negative size or count", "bytes and elements from 0");
    if (reading == RowReading::damaged && damaged_ == 0) damaged_ = number;
    if (reading != RowReading::row || draft_.table.rows.size() >= kMaxRows) return;
    r.line = number;
    if (draft_.table.rows.empty()) draft_.table.where = where_ + ":" + std::to_string(number);
    if (r.bytes > 0 && r.microseconds > 0) draft_.table.rows.push_back(r);
  }

  /// Adds the table so far, if it has rows. Ranks and program stay for the next one.
  void close() {
    if (draft_.table.rows.empty()) return;
    if (status_.ok()) status_ = place(draft_);
    if (status_.ok()) status_ = settle_test(draft_, file_name(where_));
    draft_.table.direct_bytes = direct_bytes_;
    tables_.push_back(draft_.table);
    draft_.table.rows.clear();
    draft_.table.complete = false;
  }

  std::string where_;
  Draft draft_;
  double direct_bytes_ = 0;
  std::vector<NcclTable> tables_;
  Status status_;
  std::int64_t damaged_ = 0;
};

// ---- JSON ---------------------------------------------------------------------------------------------------------

double number_of(const base::Node* node) {
  if (node == nullptr) return 0;
  if (node->kind == base::NodeKind::integer) return static_cast<double>(node->integer);
  return node->kind == base::NodeKind::real ? node->real : 0;
}

const base::Node* path(const base::Node& root, std::initializer_list<const char*> keys) {
  const base::Node* at = &root;
  for (const char* key : keys) {
    at = at->kind == base::NodeKind::mapping ? at->find(key) : nullptr;
    if (at == nullptr) return nullptr;
  }
  return at;
}

void read_json_ranks(const base::Node& root, Draft& draft) {
  const base::Node* devices = path(root, {"config", "devices"});
  if (devices == nullptr) return;
  for (const base::Node& item : devices->items) {
    const base::Node* host = path(item, {"hostname"});
    const base::Node* info = path(item, {"device_info"});
    if (info != nullptr && draft.table.device.empty()) draft.table.device = info->text;
    const base::Node* group = path(item, {"group"});
    if (draft.ranks.size() < kMaxRanks) draft.ranks.push_back({group ? group->integer : 0, host ? host->text : ""});
  }
}

void read_json_rows(const base::Node& root, Draft& draft) {
  const base::Node* results = path(root, {"results"});
  if (results == nullptr) return;
  for (const base::Node& item : results->items) {
    const base::Node* time = path(item, {"out_of_place", "time"});
    const char* place = number_of(time) > 0 ? "out_of_place" : "in_place";
    const double microseconds = number_of(path(item, {place, "time"}));
    const double bytes = number_of(path(item, {"size"}));
    const double algorithm = number_of(path(item, {place, "alg_bw"})), bus = number_of(path(item, {place, "bus_bw"}));
    if (const base::Node* redop = path(item, {"redop"})) draft.reduces = redop->text != "none" && !redop->text.empty();
    if (algorithm > 0.5 && bus > 0) draft.factor = bus / algorithm;
    if (!(bytes >= 1 && bytes < 1e15 && microseconds > 0 && microseconds < kMaxMicroseconds)) continue;
    draft.table.rows.push_back({item.line, static_cast<std::int64_t>(bytes), microseconds});
  }
}

Result<std::vector<NcclTable>> read_json_tables(std::string_view text, const std::string& where) {
  auto document = base::read_json(text, where);
  if (!document) return document.error();
  Draft draft;
  draft.table.where = where + ":1";
  draft.table.complete = true;
  if (const base::Node* arguments = path(document->root, {"args"}); arguments && !arguments->items.empty()) {
    draft.named = test_in(file_name(arguments->items.front().text));
    if (!draft.named) draft.program = file_name(arguments->items.front().text);
  }
  read_json_ranks(document->root, draft);
  read_json_rows(document->root, draft);
  if (draft.table.rows.empty())
    return bad(where + ":1", "no results", "the JSON that nccl-tests writes with -J FILE (config.devices, results)");
  if (Status status = place(draft); !status.ok()) return status.error();
  if (Status status = settle_test(draft, file_name(where)); !status.ok()) return status.error();
  return std::vector<NcclTable>{std::move(draft.table)};
}

}  // namespace

std::string_view to_string(CollectiveTest test) {
  switch (test) {
    case CollectiveTest::all_reduce: return "all-reduce";
    case CollectiveTest::all_gather: return "all-gather";
    case CollectiveTest::reduce_scatter: return "reduce-scatter";
    case CollectiveTest::all_to_all: return "all-to-all";
    case CollectiveTest::send_receive: return "send-receive";
  }
  return "";
}

Result<std::vector<NcclTable>> read_nccl_tests(std::string_view text, const std::string& where) {
  if (Status status = check_size(text, where); !status.ok()) return status.error();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return read_json_tables(text, where);
  TextReader reader(where);
  each_line(text, [&](std::int64_t number, std::string_view line) { reader.line(number, line); });
  return reader.finish();
}

}  // namespace espalier::runlog
