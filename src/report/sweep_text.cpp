// SPDX-License-Identifier: Apache-2.0
// Writes a sweep as a table, as espalier.sweep/1 and as CSV.
#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "espalier/sweep.h"
#include "espalier/text.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

bool has_cost(const Sweep& sweep) {
  return std::any_of(sweep.points.begin(), sweep.points.end(),
                     [](const SweepPoint& p) { return p.result && p.result->prediction.cost.has_value(); });
}

std::string interval_text(const Prediction& p) {
  const auto text = [](double seconds) { return base::seconds(static_cast<std::int64_t>(seconds * 1e9)); };
  const std::string low = text(p.confidence.low_s), high = text(p.confidence.high_s);
  const auto unit = [](const std::string& s) { return s.substr(s.find(' ') == std::string::npos ? s.size() : s.find(' ')); };
  return cat(unit(low) == unit(high) ? low.substr(0, low.size() - unit(low).size()) : low, " – ", high);
}

std::vector<std::string> cells(const SweepPoint& point, bool cost) {
  std::vector<std::string> row = point.values;
  if (!point.result) {
    row.insert(row.end(), cost ? 8 : 7, "–");
    row.push_back(point.result.error().message());
    return row;
  }
  const Prediction& p = point.result->prediction;
  for (std::string& text :
       std::vector<std::string>{base::seconds(p.iteration_ns), interval_text(p), base::count(p.tokens_per_s_per_device),
                                base::percent(p.mfu), base::gib(p.peak_memory_bytes), p.days > 0 ? base::fixed(p.days, 1) : "–",
                                p.device_hours > 0 ? base::count(p.device_hours) : "–"})
    row.push_back(std::move(text));
  if (cost)
    row.push_back(!p.cost                 ? "–"
                  : p.cost->whole_run > 0 ? cat(base::fixed(p.cost->whole_run, 0), " ", p.cost->currency)
                                          : cat(base::fixed(p.cost->per_step, 4), " ", p.cost->currency, " per step"));
  row.push_back(point.result->plan.label());
  return row;
}

std::string joined_values(const std::vector<std::string>& values) { return base::joined(values, ","); }

/// Returns a field, quoted where it holds a comma, a quote or a line end.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

std::string seconds_text(std::int64_t ns) {
  base::JsonWriter w;
  w.seconds(ns);
  return w.text();
}

std::string csv_row(const SweepPoint& point) {
  std::string out;
  for (const std::string& value : point.values) out += cat(field(value), ",");
  if (!point.result) return cat(out, ",,,,,,,,,,,,,,", field(point.result.error().message()), "\n");
  const PlannerResult& r = *point.result;
  const Prediction& p = r.prediction;
  const auto number = [](double value) { return value > 0 ? base::six_digits(value) : std::string(); };
  out += cat(seconds_text(p.iteration_ns), ",", base::six_digits(p.confidence.low_s), ",", base::six_digits(p.confidence.high_s),
             ",", base::six_digits(p.confidence.level), ",", base::six_digits(p.tokens_per_s_per_device), ",",
             base::six_digits(p.mfu), ",", p.peak_memory_bytes, ",", p.memory_limit_bytes, ",", number(p.days), ",",
             number(p.device_hours), ",");
  if (p.cost)
    out += cat(base::six_digits(p.cost->per_step), ",", number(p.cost->whole_run), ",", field(p.cost->currency), ",");
  else
    out += ",,,";
  return cat(out, field(r.plan.label()), ",\n");
}

}  // namespace

std::vector<std::vector<std::string>> combinations(const std::vector<SweepAxis>& axes) {
  std::vector<std::vector<std::string>> out{{}};
  for (const SweepAxis& axis : axes) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& values : out)
      for (const std::string& value : axis.values) {
        longer.push_back(values);
        longer.back().push_back(value);
      }
    out = std::move(longer);
  }
  return out;
}

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Returns the rows without the columns that are empty in every row.
Rows without_empty(const Rows& rows) {
  Rows out(rows.size());
  for (std::size_t c = 0; c < rows.front().size(); ++c) {
    if (std::all_of(rows.begin() + 1, rows.end(), [c](const auto& row) { return row[c] == "–"; })) continue;
    for (std::size_t r = 0; r < rows.size(); ++r) out[r].push_back(rows[r][c]);
  }
  return out;
}

/// Writes the figures, and the plan of each row below them.
std::string in_two_tables(const Rows& rows, std::size_t axes, std::size_t width) {
  Rows figures = rows, plans(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    plans[r].assign(rows[r].begin(), rows[r].begin() + static_cast<std::ptrdiff_t>(axes));
    plans[r].push_back(rows[r].back());
    figures[r].pop_back();
  }
  for (std::size_t a = 0; a < axes; ++a) figures[0][a] = plans[0][a] = rows[0][a].substr(rows[0][a].rfind('.') + 1);
  return cat(lay_out(table(figures, {}, ""), width), "\n", lay_out(table(plans, {axes}, ""), width));
}

bool fits(const std::string& text, std::size_t width) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (base::display_width(std::string_view(text).substr(at, end - at)) > width) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

std::string to_text(const Sweep& sweep, std::size_t width) {
  const bool cost = has_cost(sweep);
  std::vector<std::vector<std::string>> rows(1);
  for (const SweepAxis& axis : sweep.axes) rows.front().push_back(axis.path);
  for (const char* name : {"step", "interval", "tokens/s/GPU", "MFU", "memory", "days", "GPU-hours"})
    rows.front().emplace_back(name);
  if (cost) rows.front().emplace_back("cost");
  rows.front().emplace_back("plan");
  for (const SweepPoint& point : sweep.points) rows.push_back(cells(point, cost));
  if (rows.size() > 1) rows = without_empty(rows);
  const std::string wide = lay_out(table(rows, {rows.front().size() - 1}, ""), 0);
  return width == 0 || fits(wide, width) ? wide : in_two_tables(rows, sweep.axes.size(), width);
}

std::string to_json(const Sweep& sweep, PlanSchema schema) {
  base::JsonWriter w;
  std::vector<std::string> paths;
  for (const SweepAxis& axis : sweep.axes) paths.push_back(axis.path);
  w.begin_object();
  w.key("schema").value("espalier.sweep/1");
  w.key("over").value(joined_values(paths));
  w.key("axes").begin_array();
  for (const SweepAxis& axis : sweep.axes) {
    w.compact_next().begin_object().key("path").value(axis.path).key("values").begin_array();
    for (const std::string& value : axis.values) w.value(value);
    w.end_array().end_object();
  }
  w.end_array();
  w.key("points").begin_array();
  for (const SweepPoint& point : sweep.points) {
    w.begin_object();
    w.key("value").value(joined_values(point.values));
    w.key("values").compact_next().begin_array();
    for (const std::string& value : point.values) w.value(value);
    w.end_array();
    if (point.result)
      w.key("result").raw(to_json(*point.result, false, schema));
    else
      w.key("error").value(point.result.error().message());
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

std::string to_csv(const Sweep& sweep) {
  std::string out;
  for (const SweepAxis& axis : sweep.axes) out += cat(field(axis.path), ",");
  out +=
      "iteration_s,iteration_s_low,iteration_s_high,level,tokens_per_s_per_gpu,mfu,peak_memory_bytes,memory_limit_bytes,days,gpu_"
      "hours,"
      "cost_per_step,cost_whole_run,currency,plan,error\n";
  for (const SweepPoint& point : sweep.points) out += csv_row(point);
  return out;
}

}  // namespace espalier::report
