// SPDX-License-Identifier: Apache-2.0
#include "report/change_claims.h"

#include <algorithm>
#include <cmath>

#include "base/document.h"
#include "base/format.h"
#include "report/digest.h"
#include "report/nanoseconds.h"

namespace espalier::report {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMostNodes = std::int64_t{1} << 40;

std::optional<std::int64_t> read_time(Reader& r, const char* key) {
  if (!r.has(key)) return std::nullopt;
  return to_ns(r.required_real(key, -kLongestSeconds, kLongestSeconds));
}

Result<Plan> read_plan(Reader& r, const char* key) {
  const Node* node = r.find(key);
  auto plan = plan_from_json(node == nullptr ? "null" : base::to_json(*node), r.path() + "." + key);
  if (!plan) return plan.error();
  if (Status status = unsupported(*plan); !status.ok()) return status.error();
  return plan;
}

void read_move(Reader& r, check::MoveClaims& out) {
  Reader move = r.child("move", true);
  out.kept = move.required_int("kept_bytes", 0, kMostBytes);
  out.peer = move.required_int("peer_bytes", 0, kMostBytes);
  out.storage = move.required_int("storage_bytes", 0, kMostBytes);
  out.lost = move.required_int("lost_bytes", 0, kMostBytes);
  const auto time = [&](const char* key) { return to_ns(move.required_real(key, 0, kLongestSeconds)); };
  out.transfer_ns = time("transfer_s");
  out.storage_ns = time("storage_s");
  out.rollback_ns = time("rollback_s");
  out.restart_ns = time("restart_s");
  out.warm_up_ns = time("warm_up_s");
  move.finish();
  Reader links = r.child("bytes_per_link", true);
  for (const auto& [name, bytes] : links.node().members) out.links.emplace_back(name, links.required_int(name, 0, kMostBytes));
}

ClaimedChange read_change(Reader& r, Status& refused) {
  ClaimedChange out;
  const std::string schema = r.required_string("schema");
  if (r.sink().ok() && schema != "espalier.change/1") r.fail("schema", "", "\"espalier.change/1\"");
  std::vector<std::string_view> words;
  for (const adapt::ActionKind kind : adapt::kActions) words.push_back(to_string(kind));
  r.required_string("action");
  out.action = adapt::kActions[r.optional_choice("action", words, 0)];
  out.possible = r.optional_bool("possible", false);
  out.what = r.optional_string("what", "");
  out.upper_bound = r.optional_bool("upper_bound", false);
  out.iteration_ns = read_time(r, "iteration_s");
  out.pause_ns = read_time(r, "pause_s");
  out.gain_ns = read_time(r, "gain_s_per_step");
  out.break_even_ns = read_time(r, "break_even_s");
  out.if_stay_ns = read_time(r, "if_stay_s");
  read_move(r, out.move);
  out.nodes = r.optional_int_list("nodes", 0, kMostNodes);
  for (const char* key : {"plan", "priced_as"}) {
    if (!r.has(key) || !r.sink().ok()) continue;
    auto plan = read_plan(r, key);
    if (!plan && refused.ok()) refused = plan.error();
    if (!plan) continue;
    out.plan = std::move(*plan);
    out.priced_as = std::string_view(key) == "priced_as";
  }
  return out;
}

void read_named(Reader& what, const char* key, const char* value, std::vector<std::pair<std::string, double>>& out) {
  what.each(key, false, [&](Reader& row) {
    const std::string name = row.required_string("target");
    out.emplace_back(name, row.required_real(value, 0, kLongestSeconds));
  });
}

/// Reads the inputs: the running plan, the disturbance, and the prices of moves.
void read_asked(Reader& r, ClaimedAnswer& out, Status& refused) {
  if (auto running = read_plan(r, "running"); running.ok())
    out.running = std::move(*running);
  else if (refused.ok())
    refused = running.error();
  Reader change = r.child("change", true);
  if (const Node* lost = change.find("lost"))
    for (const Node& name : lost->items) out.happened.lost.push_back(name.text);
  read_named(change, "slow", "factor", out.happened.slow);
  read_named(change, "links", "factor", out.happened.links);
  std::vector<std::pair<std::string, double>> added;
  read_named(change, "added", "nodes", added);
  for (const auto& [group, nodes] : added) out.happened.added.emplace_back(group, static_cast<std::int64_t>(nodes));
  Reader prices = r.child("prices", true);
  out.prices.restart_s = prices.required_real("restart_s", 0, kLongestSeconds);
  out.prices.warm_up_s = prices.required_real("warm_up_s", 0, kLongestSeconds);
  out.prices.storage_per_device = prices.required_real("storage_bytes_per_s", 1, 1e15);
  out.prices.checkpoint_age_s = prices.required_real("checkpoint_age_s", 0, kLongestSeconds);
}

void read_classes(Reader& r, ClaimedAnswer& out, Status& refused) {
  out.most = r.required_int("most", 1, 8);
  out.losses = r.required_int("losses", 0, kMostNodes);
  out.covered = r.required_int("covered", 0, kMostNodes);
  r.each("classes", true, [&](Reader& row) {
    ClaimedClass c;
    c.nodes = row.optional_int_list("nodes", 0, kMostNodes);
    c.losses = row.required_int("losses", 0, kMostNodes);
    Reader change = row.child("action", true);
    c.change = read_change(change, refused);
    out.classes.push_back(std::move(c));
  });
}

/// Reads the observation of replan, which has its own names.
adapt::Disturbance read_observed(Reader& observed) {
  adapt::Disturbance out;
  for (const auto& [key, list] : {std::pair{"slow", &out.slow}, {"links", &out.links}}) {
    Reader named = observed.child(key, false);
    for (const auto& [name, node] : named.node().members) list->emplace_back(name, named.required_real(name, 0, kLongestSeconds));
  }
  if (const Node* lost = observed.find("lost"))
    for (const Node& name : lost->items) out.lost.push_back(name.text);
  return out;
}

/// Returns keys whose values follow from no other part of the document.
std::vector<std::string> free_keys(const Node& root, const ClaimedAnswer& claimed) {
  std::vector<std::string> keys =
      present_keys(root, {"notes", "horizon_s", "plans", "observed.tokens_ratio", "observed.step_s", "observed.notes"});
  if (!claimed.classes.empty()) keys.insert(keys.end(), {"classes[].holds", "classes[]: no other action is better"});
  for (const ClaimedChange& c : claimed.changes)
    if (c.action == adapt::ActionKind::reshape && (claimed.changes.size() > 1))
      keys.emplace_back(c.possible ? "reshape: no other plan is faster" : "reshape: why it is not possible");
  return keys;
}

void read_seal(const Node& root, Reader& r, ClaimedAnswer& out) {
  if (r.has("made_by")) {
    Reader made_by = r.child("made_by", true);
    out.made_by = MadeBy{made_by.optional_string("version", ""), made_by.optional_string("calibration", "")};
  }
  const std::vector<std::string> keys = free_keys(root, out);
  if (out.made_by || has_digest(root))
    out.digest = check_digest(root, keys);
  else
    out.not_verified = keys;
}

std::string schema_of(const Node& root) {
  const Node* schema = root.find("schema");
  return schema == nullptr ? "" : schema->text;
}

bool known(const std::string& schema) {
  return schema == "espalier.what-if/1" || schema == "espalier.change/1" || schema == "espalier.survival/1";
}

}  // namespace

bool is_change_document(std::string_view text) {
  const auto document = base::read_json(text, "answer");
  return document.ok() && known(schema_of(document->root));
}

Result<ClaimedAnswer> read_claims(std::string_view text, const std::string& where) {
  const auto document = base::read_json(text, where);
  if (!document) return document.error();
  ClaimedAnswer out;
  out.schema = schema_of(document->root);
  if (!known(out.schema))
    return Error{ErrorKind::bad_input, where, cat("schema \"", out.schema, "\""),
                 "the --json output of what-if, replan or --survive", ""};
  base::ErrorSink sink;
  Status refused;
  Reader r = Reader::root(*document, sink);
  if (out.schema == "espalier.change/1") {
    out.changes.push_back(read_change(r, refused));
    r.each("others", false, [&](Reader& row) { out.changes.push_back(read_change(row, refused)); });
    Reader observed = r.child("observed", true);
    out.plan = observed.required_string("plan");
    out.observed = read_observed(observed);
    out.if_stay_ns = out.changes.front().if_stay_ns;
  } else {
    out.plan = r.required_string("plan");
    out.before_ns = read_time(r, "iteration_s");
    out.if_stay_ns = read_time(r, "if_stay_s");
    out.recommended = r.optional_string("recommended", "");
    r.each("actions", false, [&](Reader& row) { out.changes.push_back(read_change(row, refused)); });
  }
  if (out.schema == "espalier.survival/1") read_classes(r, out, refused);
  if (r.has("horizon_s")) out.horizon_s = r.required_real("horizon_s", 0, kLongestSeconds);
  if (sink.ok()) read_asked(r, out, refused);
  if (sink.ok()) read_seal(document->root, r, out);
  if (!sink.ok()) return sink.first().error();
  if (!refused.ok()) return refused.error();
  return out;
}

}  // namespace espalier::report
