// SPDX-License-Identifier: Apache-2.0
#include "espalier/documents.h"

#include <filesystem>
#include <fstream>

#include "base/document.h"
#include "base/document_kind.h"
#include "base/format.h"
#include "report/search_json.h"
#include "sim/trace.h"

namespace espalier::report {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string& path, const std::string& why) {
  return Error{ErrorKind::usage, path, base::cat("cannot write: ", why), "a writable path",
               "name another file or folder, or free some space"};
}

}  // namespace

std::string file_or_in_folder(const std::string& path, const std::string& name) {
  std::error_code ignored;
  return path.ends_with('/') || fs::is_directory(path, ignored) ? (fs::path(path) / name).string() : path;
}

Status write_file(const std::string& path, std::string_view bytes) {
  std::error_code code;
  if (fs::is_directory(path, code))
    return Error{ErrorKind::usage, path, "a folder", "the name of a file",
                 base::cat("name a file in it: ", (fs::path(path) / "NAME").string())};
  if (const fs::path parent = fs::path(path).parent_path(); !parent.empty() && !fs::exists(parent, code))
    return Error{ErrorKind::usage, path, base::cat("no folder ", parent.string()), "a folder that exists",
                 base::cat("mkdir -p ", parent.string())};
  // Devices and pipes (/dev/stdout) cannot be replaced, only written to.
  const bool special = fs::exists(path, code) && !fs::is_regular_file(path, code);
  const std::string beside = special ? path : path + ".part";
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) {
      file.close();
      if (!special) fs::remove(beside, code);
      return cannot_write(path, "the file cannot be opened or the disk is full");
    }
  }
  if (special) return {};
  fs::rename(beside, path, code);
  if (code) return cannot_write(path, code.message());
  return {};
}

Status write_trace_file(const std::string& path, const std::string& trace) {
  return write_file(path, path.ends_with(".gz") ? sim::gzip(trace) : trace);
}

Result<std::vector<std::string>> write_answer(const std::string& folder, const PlannerResult& result, const std::string& trace,
                                              PlanSchema schema) {
  if (Status status = unwritable(result.plan, schema); !status.ok()) return status.error();
  std::error_code code;
  fs::create_directories(folder, code);
  if (code || !fs::is_directory(folder)) return cannot_write(folder, code ? code.message() : "not a folder");
  std::vector<std::string> written;
  const auto write = [&](const char* name, std::string_view bytes) -> Status {
    written.push_back((fs::path(folder) / name).string());
    return write_file(written.back(), bytes);
  };
  if (Status status = write("plan.json", to_json(result.plan, schema) + "\n"); !status.ok()) return status.error();
  if (Status status = write("result.json", to_json(result, false, schema) + "\n"); !status.ok()) return status.error();
  if (!trace.empty()) {
    if (Status status = write("timeline.json.gz", sim::gzip(trace)); !status.ok()) return status.error();
  }
  return written;
}

Result<PlanDocument> read_plan_document(std::string_view text, const std::string& where) {
  const auto document = base::read_json(text, where);
  const std::string wanted = "a plan.json or result.json";
  if (!document) return base::wrong_kind_of(text, where, wanted, document.error());
  const base::Node* schema = document->root.find("schema");
  PlanDocument out;
  if (schema != nullptr && result_version_of(schema->text)) {
    auto result = result_from_json(text, where);
    if (!result) return result.error();
    out.plan = result->plan;
    out.result = std::make_unique<PlannerResult>(std::move(*result));
    return out;
  }
  auto plan = plan_from_json(text, where);
  if (!plan) return base::wrong_kind_of(text, where, wanted, plan.error());
  out.plan = std::move(*plan);
  return out;
}

}  // namespace espalier::report
