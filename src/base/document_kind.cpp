// SPDX-License-Identifier: Apache-2.0
#include "base/document_kind.h"

namespace espalier::base {
namespace {

/// Explains how to use a document of that kind.
std::string use_of(const std::string& kind, const std::string& where, const std::string& wanted) {
  if (kind == "a job file") return "espalier plan " + where + " -o DIR makes a plan of it";
  if (kind == "a model's config.json") return "espalier inspect model " + where + " reads it; a job names it: model: " + where;
  if (kind == "a cluster file") return "espalier inspect cluster " + where + " reads it; a job names it: cluster: " + where;
  if (kind.starts_with("a plan") && wanted.find("Galvatron") != std::string::npos)
    return "this is already an espalier plan; espalier export galvatron " + where + " writes Galvatron's form";
  if (kind.starts_with("a plan")) return "a plan is simulated, checked and explained: espalier simulate " + where;
  return "is this the right file?";
}

}  // namespace

std::string document_kind(const Node& root) {
  constexpr std::size_t kLongestSchema = 40;
  const Node* schema = root.find("schema");
  if (schema != nullptr && schema->text.starts_with("espalier.") && schema->text.size() < kLongestSchema) {
    const bool plan = schema->text.starts_with("espalier.plan/") || schema->text.starts_with("espalier.result/");
    return plan ? "a plan (" + schema->text + ")" : "a document of schema " + schema->text;
  }
  const auto has = [&root](const char* key) { return root.find(key) != nullptr; };
  if (has("model") && has("cluster")) return "a job file";
  if (has("model_type") || has("architectures")) return "a model's config.json";
  if (has("groups") || (has("nodes") && has("device"))) return "a cluster file";
  return "";
}

Error wrong_kind(const std::string& kind, const std::string& where, const std::string& wanted) {
  return Error{ErrorKind::bad_input, where + ":1:1", kind, wanted, use_of(kind, where, wanted)};
}

Error wrong_kind_of(std::string_view text, const std::string& where, const std::string& wanted, const Error& error) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 18;  // the files that people confuse are small
  if (text.size() > kMostBytes) return error;
  const auto document = read_yaml(text, where);
  const std::string kind = document ? document_kind(document->root) : "";
  const bool same = kind == wanted || (wanted.starts_with("a plan") && kind.starts_with("a plan"));
  return kind.empty() || same ? error : wrong_kind(kind, where, wanted);
}

}  // namespace espalier::base
