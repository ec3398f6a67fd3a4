// SPDX-License-Identifier: Apache-2.0
#include "report/change_json.h"

#include <cmath>

#include "espalier/observation.h"
#include "report/digest.h"

namespace espalier::report {
namespace {

void write_links(base::JsonWriter& w, const std::vector<adapt::LinkLoad>& links) {
  w.key("bytes_per_link").begin_object();
  for (const adapt::LinkLoad& link : links) w.key(link.link).value(link.bytes);
  w.end_object();
}

void write_named(base::JsonWriter& w, const char* key, const char* value,
                 const std::vector<std::pair<std::string, double>>& list) {
  w.key(key).compact_next().begin_array();
  for (const auto& [name, number] : list) {
    w.begin_object();
    w.key("target").value(name);
    w.key(value).value(number);
    w.end_object();
  }
  w.end_array();
}

}  // namespace

void write_nodes(base::JsonWriter& w, const std::vector<std::int64_t>& nodes) {
  w.compact_next().begin_array();
  for (const std::int64_t node : nodes) w.value(node);
  w.end_array();
}

void write_nanoseconds(base::JsonWriter& w, const std::optional<std::int64_t>& ns) {
  if (ns)
    w.seconds(*ns);
  else
    w.null();
}

void write_seconds(base::JsonWriter& w, const std::optional<double>& seconds) {
  if (seconds && std::isfinite(*seconds))
    w.seconds(static_cast<std::int64_t>(std::llround(*seconds * 1e9)));
  else
    w.null();
}

void write_change(base::JsonWriter& w, const adapt::Change& c, const std::optional<std::int64_t>& if_stay_ns,
                  const std::function<void()>& more) {
  w.begin_object();
  w.key("schema").value("espalier.change/1");
  w.key("action").value(to_string(c.action));
  w.key("possible").value(c.possible);
  w.key("what").value(c.what);
  w.key("iteration_s");
  write_nanoseconds(w, c.possible && c.iteration_ns > 0 ? std::optional(c.iteration_ns) : std::nullopt);
  w.key("upper_bound").value(c.upper_bound);
  w.key("pause_s");
  write_seconds(w, c.possible ? std::optional(c.move.pause_s()) : std::nullopt);
  w.key("gain_s_per_step");
  write_nanoseconds(w, c.possible && if_stay_ns ? std::optional(c.gain_ns) : std::nullopt);
  w.key("break_even_s");
  write_seconds(w, c.break_even_s);
  w.key("if_stay_s");
  write_nanoseconds(w, if_stay_ns);
  w.key("move").begin_object();
  w.key("kept_bytes").value(c.move.kept_bytes);
  w.key("peer_bytes").value(c.move.peer_bytes);
  w.key("storage_bytes").value(c.move.storage_bytes);
  w.key("lost_bytes").value(c.move.lost_bytes);
  for (const auto& [name, seconds] : {std::pair{"transfer_s", c.move.transfer_s},
                                      {"storage_s", c.move.storage_s},
                                      {"rollback_s", c.move.rollback_s},
                                      {"restart_s", c.move.restart_s},
                                      {"warm_up_s", c.move.warm_up_s}}) {
    w.key(name);
    write_seconds(w, seconds);
  }
  w.end_object();
  write_links(w, c.move.links);
  w.key("nodes");
  write_nodes(w, c.nodes);
  w.key("plan");
  if (c.plan)
    w.raw(to_json(*c.plan));
  else
    w.null();
  if (c.priced_as) w.key("priced_as").raw(to_json(*c.priced_as));
  if (more) more();
  w.end_object();
}

void write_asked(base::JsonWriter& w, const Plan& running, const adapt::Disturbance& what, const adapt::MoveOptions& prices) {
  w.key("running").raw(to_json(running));
  w.key("change").begin_object();
  w.key("lost").compact_next().begin_array();
  for (const std::string& name : what.lost) w.value(name);
  w.end_array();
  write_named(w, "slow", "factor", what.slow);
  write_named(w, "links", "factor", what.links);
  write_named(w, "added", "nodes", {what.added.begin(), what.added.end()});
  w.end_object();
  w.key("prices").begin_object();
  w.key("restart_s");
  write_seconds(w, prices.restart_s);
  w.key("warm_up_s");
  write_seconds(w, prices.warm_up_s);
  w.key("storage_bytes_per_s").value(prices.storage_per_device);
  w.key("checkpoint_age_s");
  write_seconds(w, prices.checkpoint_age_s);
  w.end_object();
}

}  // namespace espalier::report

namespace espalier {
namespace {

std::string written_what_if(const adapt::WhatIf& answer, const Plan& plan, const std::string& digest) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.what-if/1");
  report::write_made_by(w, this_build());
  w.key("plan").value(content_hash(plan));
  w.key("iteration_s").seconds(answer.before_ns);
  w.key("if_stay_s");
  report::write_nanoseconds(w, answer.if_stay_ns);
  w.key("horizon_s");
  report::write_seconds(w, answer.horizon_s);
  w.key("recommended").value(to_string(answer.actions[answer.recommended].action));
  w.key("actions").begin_array();
  for (const adapt::Change& change : answer.actions) report::write_change(w, change, answer.if_stay_ns);
  w.end_array();
  w.key("notes").begin_array();
  for (const std::string& note : answer.notes) w.value(note);
  w.end_array();
  report::write_asked(w, plan, answer.what, answer.prices);
  report::write_digest(w, digest);
  w.end_object();
  return w.text();
}

std::string written_survival(const adapt::Survival& answer, const Plan& plan, const std::string& digest) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.survival/1");
  report::write_made_by(w, this_build());
  w.key("plan").value(content_hash(plan));
  w.key("most").value(answer.most);
  w.key("losses").value(answer.losses);
  w.key("covered").value(answer.covered);
  w.key("plans").value(static_cast<std::int64_t>(answer.plans));
  w.key("classes").begin_array();
  for (const adapt::LossClass& c : answer.classes) {
    w.begin_object();
    w.key("nodes");
    report::write_nodes(w, c.nodes);
    w.key("losses").value(c.losses);
    w.key("holds").value(c.holds);
    w.key("action");
    report::write_change(w, c.action, std::nullopt);
    w.end_object();
  }
  w.end_array();
  report::write_asked(w, plan, {}, answer.prices);
  report::write_digest(w, digest);
  w.end_object();
  return w.text();
}

void write_seen(base::JsonWriter& w, const adapt::Diagnosis& seen, const Plan& plan) {
  w.key("observed").begin_object();
  w.key("plan").value(content_hash(plan));
  w.key("slow").begin_object();
  for (const auto& [name, factor] : seen.what.slow) w.key(name).value(factor);
  w.end_object();
  w.key("links").begin_object();
  for (const auto& [name, factor] : seen.what.links) w.key(name).value(factor);
  w.end_object();
  w.key("lost").compact_next().begin_array();
  for (const std::string& name : seen.what.lost) w.value(name);
  w.end_array();
  w.key("tokens_ratio").value(seen.tokens_ratio);
  w.key("step_s");
  report::write_seconds(w, seen.step_s);
  w.key("notes").begin_array();
  for (const std::string& note : seen.notes) w.value(note);
  w.end_array();
  w.end_object();
}

std::string written_replan(const adapt::Replan& answer, const Plan& plan, const std::string& digest) {
  base::JsonWriter w;
  const auto end = [&] {
    report::write_made_by(w, this_build());
    report::write_digest(w, digest);
  };
  if (!answer.ladder) {
    adapt::Change nothing;
    nothing.possible = true;
    nothing.what = report::kNothingWrong;
    report::write_change(w, nothing, std::nullopt, [&] {
      write_seen(w, answer.diagnosis, plan);
      report::write_asked(w, plan, {}, {});
      end();
    });
    return w.text();
  }
  const adapt::WhatIf& ladder = *answer.ladder;
  report::write_change(w, ladder.actions[ladder.recommended], ladder.if_stay_ns, [&] {
    write_seen(w, answer.diagnosis, plan);
    w.key("others").begin_array();
    for (const adapt::Change& change : ladder.actions)
      if (&change != &ladder.actions[ladder.recommended]) report::write_change(w, change, ladder.if_stay_ns);
    w.end_array();
    w.key("horizon_s");
    report::write_seconds(w, ladder.horizon_s);
    report::write_asked(w, plan, ladder.what, ladder.prices);
    end();
  });
  return w.text();
}

}  // namespace

std::string adapt::to_json(const WhatIf& answer, const Plan& plan) {
  return report::sealed([&](const std::string& digest) { return written_what_if(answer, plan, digest); });
}

std::string adapt::to_json(const Survival& answer, const Plan& plan) {
  return report::sealed([&](const std::string& digest) { return written_survival(answer, plan, digest); });
}

std::string adapt::to_json(const Replan& answer, const Plan& plan) {
  return report::sealed([&](const std::string& digest) { return written_replan(answer, plan, digest); });
}

}  // namespace espalier
