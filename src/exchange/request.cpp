// SPDX-License-Identifier: Apache-2.0
#include "exchange/request.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "planner/prediction.h"

namespace espalier::exchange {
namespace {

template <class Rows>
bool has(const Rows& rows, const std::string& name) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
}

template <class Rows>
std::string names_of(const Rows& rows) {
  std::string out;
  for (const auto& row : rows) out.append(out.empty() ? "" : ", ").append(row.name);
  return out.empty() ? "none" : out;
}

}  // namespace

const ImportFile* file_of(const ImportRequest& request, std::string_view role) {
  const auto at = std::find_if(request.files.begin(), request.files.end(), [&](const ImportFile& f) { return f.role == role; });
  return at == request.files.end() ? nullptr : &*at;
}

const ImportFile& required_file(const ImportRequest& request, std::string_view role) {
  const ImportFile* file = file_of(request, role);
  ESPALIER_CHECK(file != nullptr);  // refused() accepts no request without it
  return *file;
}

Status refused(const Importer& format, const ImportRequest& request) {
  const std::string where = base::cat("import ", format.name);
  if (format.needs_job && request.job == nullptr)
    return Error{ErrorKind::usage, where, "no job", "the model, cluster and training of the plan", ""};
  for (const FileRole& role : format.files)
    if (role.required && file_of(request, role.name) == nullptr)
      return Error{ErrorKind::usage, where, base::cat("no file for \"", role.name, "\""), role.what, ""};
  for (const ImportFile& file : request.files)
    if (!has(format.files, file.role))
      return Error{ErrorKind::usage, where, base::cat("a file for \"", file.role, "\""),
                   base::cat("one of ", names_of(format.files)), ""};
  for (const auto& [name, value] : request.options)
    if (!has(format.options, name))
      return Error{ErrorKind::usage, where, base::cat("the option \"", name, "\""),
                   base::cat("one of ", names_of(format.options)), ""};
  return {};
}

std::string option_of(const Importer& format, const ImportRequest& request, const std::string& name) {
  const auto said = request.options.find(name);
  if (said != request.options.end()) return said->second;
  for (const FormatOption& option : format.options)
    if (option.name == name) return option.value;
  ESPALIER_CHECK(false);  // no row lists this option: an error of the importer, not of the user
}

Result<std::int64_t> count_of(const Importer& format, const ImportRequest& request, const std::string& name) {
  const std::string text = option_of(format, request, name);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= kMost) return value;
  return Error{ErrorKind::usage, base::cat("import ", format.name, " ", name), base::cat("\"", text, "\""),
               base::cat("a number from 0 to ", kMost), ""};
}

Status embed_job(const Job& job, Plan& plan) {
  const auto engine = planner::engine_of(job);
  if (!engine) return engine.error();
  ESPALIER_CHECK(plan.training == job.training);  // the embedded inputs must match those of the import
  plan.engine = (*engine)->name;
  planner::stamp_inputs(job, plan);
  return {};
}

}  // namespace espalier::exchange
