// SPDX-License-Identifier: Apache-2.0
#include "exchange/spot_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/format.h"
#include "base/invariant.h"
#include "base/text.h"
#include "cluster/table_reader.h"

namespace espalier::exchange {
namespace {

using cluster::TableRow;

constexpr double kLongestTrace = 1e9;  ///< s; the limit of a cluster file
constexpr std::int64_t kMostNodes = 100'000;
constexpr std::size_t kMostEvents = 100'000;  ///< the limit of a cluster file

Error wrong(const TraceRequest& request, const TableRow& row, std::size_t column, const std::string& expected) {
  const Node* cell = column < row.cells.size() ? &row.cells[column] : nullptr;
  const base::TextPosition place{row.line, cell == nullptr ? 1 : cell->column};
  const std::string found = cell == nullptr ? cat(row.cells.size(), " values") : base::in_quotes(cell->text);
  return {ErrorKind::bad_input, base::at(request.name, place), found, expected, "espalier import trace --help lists the formats"};
}

std::optional<double> number(const TableRow& row, std::size_t column, double most) {
  if (column >= row.cells.size()) return std::nullopt;
  const Node& cell = row.cells[column];
  if (cell.kind != NodeKind::integer && cell.kind != NodeKind::real) return std::nullopt;
  return cell.real >= 0 && cell.real <= most ? std::optional(cell.real) : std::nullopt;
}

std::string word(const TableRow& row, std::size_t column) {
  return column < row.cells.size() ? row.cells[column].text : std::string();
}

/// Returns the rows without the one that holds names of columns.
Result<std::vector<TableRow>> rows_of(const TraceRequest& request) {
  auto rows = cluster::read_rows(request.text, request.name);
  if (!rows) return rows.error();
  const bool named = !rows->empty() && rows->front().cells.front().kind == NodeKind::string && !word(rows->front(), 0).empty() &&
                     word(rows->front(), 0).find_first_of("0123456789") == std::string::npos;
  if (named) rows->erase(rows->begin());
  if (rows->empty())
    return Error{ErrorKind::bad_input, request.name, "no rows", "a trace", "espalier import trace --help lists the formats"};
  return rows;
}

/// Converts nodes that come and go to events.
class SpotNodes {
 public:
  void come(double at, const std::string& name) {
    const std::int64_t slot = free_.empty() ? slots_++ : *free_.begin();
    free_.erase(slot);
    here_.emplace(name, slot);
    moves_.push_back({at, slot, true});
  }
  [[nodiscard]] bool here(const std::string& name) const { return here_.count(name) > 0; }
  void go(double at, const std::string& name) {
    const auto found = here_.find(name);
    moves_.push_back({at, found->second, false});
    free_.insert(found->second);
    here_.erase(found);
  }
  [[nodiscard]] std::size_t moves() const { return moves_.size(); }
  [[nodiscard]] std::int64_t most() const { return slots_; }

  /// Returns the events. All slots are present at the start. A node that comes later leaves at 0, and one that comes
  /// at 0 needs no event.
  [[nodiscard]] ImportedTrace events(std::int64_t first_node) const {
    std::set<std::int64_t> at_start;
    std::size_t after = 0;
    for (; after < moves_.size() && moves_[after].at == 0; ++after) {
      if (moves_[after].join)
        at_start.insert(moves_[after].slot);
      else
        at_start.erase(moves_[after].slot);
    }
    ImportedTrace trace;
    trace.nodes = slots_;
    const auto add = [&](double at, std::int64_t slot, bool join) {
      trace.events.push_back(
          {Seconds(at), join ? ClusterEventKind::join : ClusterEventKind::leave, cat("node:", first_node + slot), 1.0, ""});
    };
    for (std::int64_t slot = 0; slot < slots_; ++slot)
      if (at_start.count(slot) == 0) add(0, slot, false);
    for (; after < moves_.size(); ++after) {
      ESPALIER_CHECK(moves_[after].slot >= 0 && moves_[after].slot < slots_);  // a node that the cluster will have
      ESPALIER_CHECK(trace.events.empty() ||
                     Seconds(moves_[after].at) >= trace.events.back().at);  // as readers have ordered them
      add(moves_[after].at, moves_[after].slot, moves_[after].join);
    }
    return trace;
  }

 private:
  struct Move {
    double at;
    std::int64_t slot;
    bool join;
  };
  std::int64_t slots_ = 0;
  std::map<std::string, std::int64_t> here_;
  std::set<std::int64_t> free_;
  std::vector<Move> moves_;
};

/// Counts the nodes from a time on. The highest numbers go first.
struct Count {
  double at;
  double nodes;
};

Result<ImportedTrace> events_of(const TraceRequest& request, const std::vector<Count>& counts) {
  SpotNodes presence;
  std::int64_t here = 0;
  for (const Count& count : counts) {
    const auto wanted = static_cast<std::int64_t>(count.nodes);
    for (; here < wanted; ++here) presence.come(count.at, std::to_string(here));
    for (; here > wanted; --here) presence.go(count.at, std::to_string(here - 1));
    if (presence.moves() > kMostEvents + static_cast<std::size_t>(kMostNodes))
      return Error{ErrorKind::bad_input, request.name, "too many events", cat("at most ", kMostEvents), "cut the trace"};
  }
  return presence.events(request.first_node);
}

Result<ImportedTrace> finished(const TraceRequest& request, Result<ImportedTrace> trace, std::vector<std::string> notes) {
  if (!trace) return trace;
  if (trace->nodes == 0)
    return Error{ErrorKind::bad_input, request.name, "a trace in which no node is ever present", "at least one", ""};
  if (trace->events.size() > kMostEvents)
    return Error{ErrorKind::bad_input, request.name, cat(trace->events.size(), " events"), cat("at most ", kMostEvents),
                 "cut the trace"};
  // The limit also covers dates, whose time counts from the first.
  if (!trace->events.empty() && trace->events.back().at.count() > kLongestTrace)
    return Error{ErrorKind::bad_input, request.name,
                 cat(static_cast<std::int64_t>(trace->events.back().at.count()), " s from the first row to the last"),
                 cat("at most ", static_cast<std::int64_t>(kLongestTrace), " s"), "look for a wrong year"};
  trace.value().notes = std::move(notes);
  return trace;
}

/// Reads time,count with `per_second` units of time in a second and `per_node` counted things in a node.
Result<ImportedTrace> read_counts(const TraceRequest& request, const std::vector<TableRow>& rows, double per_second,
                                  std::int64_t per_node) {
  std::vector<Count> counts;
  bool rounded = false;
  for (const TableRow& row : rows) {
    const auto time = number(row, 0, kLongestTrace * per_second);
    const auto count = number(row, 1, static_cast<double>(kMostNodes));
    if (!time) return wrong(request, row, 0, "a time that is a number");
    if (!count || *count != std::floor(*count)) return wrong(request, row, 1, "a whole number of nodes or devices");
    const double at = (*time) / per_second;
    if (!counts.empty() && at < counts.back().at) return wrong(request, row, 0, "times that do not decrease from row to row");
    const double nodes = std::floor(*count / static_cast<double>(per_node));
    rounded = rounded || nodes * static_cast<double>(per_node) != *count;
    counts.push_back({at, nodes});
  }
  std::vector<std::string> notes;
  if (rounded) notes.push_back(cat("counts that are not a multiple of ", per_node, " devices are rounded down to whole nodes"));
  return finished(request, events_of(request, counts), std::move(notes));
}

/// Returns the days since 1970-01-01 of a date "2021-12-11" in the Gregorian calendar.
std::optional<double> days_of(std::string_view text) {
  int part[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, code] = std::from_chars(at, end, part[i]);
    if (code != std::errc() || (i < 2 ? next == end || *next != '-' : next != end)) return std::nullopt;
    at = next + 1;
  }
  const auto [year, month, day] = part;
  if (year < 1970 || year > 2100 || month < 1 || month > 12 || day < 1 || day > 31) return std::nullopt;
  const int shifted = month > 2 ? year : year - 1;
  const int of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
  return 365.0 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719'468;
}

/// Returns the seconds of "13:07:45".
std::optional<double> clock_of(std::string_view text) {
  int part[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, code] = std::from_chars(at, end, part[i]);
    if (code != std::errc() || part[i] < 0 || part[i] > 60 || (i < 2 ? next == end || *next != ':' : next != end))
      return std::nullopt;
    at = next + 1;
  }
  return 3600.0 * part[0] + 60.0 * part[1] + part[2];
}

Result<ImportedTrace> read_dated_counts(const TraceRequest& request, const std::vector<TableRow>& rows) {
  std::vector<Count> counts;
  for (const TableRow& row : rows) {
    const auto days = days_of(word(row, 0));
    const auto clock = clock_of(word(row, 1));
    const auto count = number(row, 2, static_cast<double>(kMostNodes));
    if (!days) return wrong(request, row, 0, "a date such as 2021-12-11");
    if (!clock) return wrong(request, row, 1, "a time such as 13:07:45");
    if (!count || *count != std::floor(*count)) return wrong(request, row, 2, "a whole number of instances");
    counts.push_back({*days * 86'400.0 + *clock, *count});
  }
  const auto earlier = [](const Count& a, const Count& b) { return a.at < b.at; };
  std::vector<std::string> notes;
  if (!std::is_sorted(counts.begin(), counts.end(), earlier))
    notes.push_back("rows are not in order of time: sorted; the last of equal times counts");
  std::stable_sort(counts.begin(), counts.end(), earlier);
  const double start = counts.front().at;
  std::vector<Count> last;
  for (const Count& count : counts) {
    if (!last.empty() && last.back().at == count.at - start) last.pop_back();
    last.push_back({count.at - start, count.nodes});
  }
  return finished(request, events_of(request, last), std::move(notes));
}

Result<ImportedTrace> read_named(const TraceRequest& request, const std::vector<TableRow>& rows) {
  SpotNodes presence;
  double before = 0;
  for (const TableRow& row : rows) {
    const auto time = number(row, 0, kLongestTrace * 1e3);
    if (!time) return wrong(request, row, 0, "a time in ms");
    const double at = *time / 1e3;
    const std::string what = word(row, 1), name = word(row, 2);
    if (at < before) return wrong(request, row, 0, "times that do not decrease from row to row");
    if (what != "add" && what != "remove") return wrong(request, row, 1, "add or remove");
    if (name.empty()) return wrong(request, row, 2, "the name of a node");
    if (presence.here(name) == (what == "add"))
      return wrong(request, row, 2, what == "add" ? "an absent node" : "a present node");
    if (what == "add")
      presence.come(at, name);
    else
      presence.go(at, name);
    before = at;
  }
  return finished(request, presence.events(request.first_node), {});
}

Result<ImportedTrace> read_differences(const TraceRequest& request, const std::vector<TableRow>& rows) {
  std::vector<Count> counts;
  double here = 0;
  for (const TableRow& row : rows) {
    const auto time = number(row, 0, kLongestTrace * 1e3);
    const auto moved = number(row, 2, static_cast<double>(kMostNodes));
    const std::string what = word(row, 1);
    if (!time || (!counts.empty() && *time / 1e3 < counts.back().at))
      return wrong(request, row, 0, "a time in ms, not before that of the row above");
    if (what != "add" && what != "remove" && what != "no-op") return wrong(request, row, 1, "add, remove or no-op");
    if (!moved || *moved != std::floor(*moved)) return wrong(request, row, 2, "a whole number of nodes");
    here += what == "add" ? *moved : what == "remove" ? -*moved : 0.0;
    if (here < 0 || here > static_cast<double>(kMostNodes))
      return wrong(request, row, 2, cat("at most the present nodes, and at most ", kMostNodes, " at once"));
    counts.push_back({*time / 1e3, here});
  }
  return finished(request, events_of(request, counts), {});
}

bool has_words(const TableRow& row) { return row.cells.size() > 2 && row.cells[1].kind == NodeKind::string; }

}  // namespace

Result<ImportedTrace> read_bamboo_trace(const TraceRequest& request) {
  const auto rows = rows_of(request);
  if (!rows) return rows.error();
  return rows->front().cells.front().kind == NodeKind::string ? read_dated_counts(request, *rows) : read_named(request, *rows);
}

Result<ImportedTrace> read_parcae_trace(const TraceRequest& request) {
  const auto rows = rows_of(request);
  if (!rows) return rows.error();
  return has_words(rows->front()) ? read_differences(request, *rows) : read_counts(request, *rows, 1e3, 1);
}

Result<ImportedTrace> read_sailor_trace(const TraceRequest& request) {
  const auto rows = rows_of(request);
  if (!rows) return rows.error();
  return read_counts(request, *rows, 1.0, request.devices_per_node);
}

Result<ImportedTrace> read_counts_trace(const TraceRequest& request) {
  const auto rows = rows_of(request);
  if (!rows) return rows.error();
  return read_counts(request, *rows, 1.0, 1);
}

std::string events_csv(const std::vector<ClusterEvent>& events, const std::string& source) {
  std::string out = base::cat("# ", source, "\ntime_s,event,target,value\n");
  for (const ClusterEvent& event : events) {
    const bool moves = event.kind == ClusterEventKind::join || event.kind == ClusterEventKind::leave;
    std::string value = event.via;
    if (event.kind != ClusterEventKind::route && !(moves && event.value == 1.0)) {
      char text[32];
      value = std::string(text, std::to_chars(text, text + sizeof text, event.value).ptr);
    }
    char time[32];
    const std::string at(time, std::to_chars(time, time + sizeof time, event.at.count()).ptr);
    out += base::cat(at, ",", to_string(event.kind), ",", event.target, ",", value, "\n");
  }
  return out;
}

}  // namespace espalier::exchange
