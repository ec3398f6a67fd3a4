// SPDX-License-Identifier: Apache-2.0
// Writes the ladder as a table.
#include <cmath>

#include "base/format.h"
#include "espalier/adapt.h"
#include "espalier/observation.h"
#include "report/brief_text.h"

namespace espalier {
namespace {

std::string duration(double seconds) {
  if (seconds < 120) return cat(base::fixed(seconds, seconds < 10 ? 1 : 0), " s");
  if (seconds < 7200) return cat(base::fixed(seconds / 60, seconds < 1200 ? 1 : 0), " min");
  if (seconds < 48 * 3600.0) return cat(base::fixed(seconds / 3600, 1), " h");
  return cat(base::fixed(seconds / 86400, 1), " days");
}

std::string after(const adapt::Change& c) {
  if (c.action == adapt::ActionKind::stay) return "";
  return c.break_even_s ? duration(*c.break_even_s) : "never";
}

std::string from_where(const adapt::Move& m) {
  if (m.storage_bytes > 0) return cat(base::gib(m.storage_bytes), " of the last checkpoint");
  return m.peer_bytes > 0 ? base::gib(m.peer_bytes) : "nothing";
}

std::string pause_of(const adapt::Move& m) {
  std::string out = duration(m.pause_s());
  if (m.rollback_s > 0) out += cat(" (", duration(m.rollback_s), " of work lost)");
  return out;
}

}  // namespace

std::string adapt::to_text(const WhatIf& answer) {
  const adapt::Change& best = answer.actions[answer.recommended];
  std::string out = best.possible ? cat(to_string(best.action), ": ", best.what, ", ") : "nothing can be done: ";
  if (best.possible) {
    out += cat(base::seconds(best.iteration_ns), " per step");
    out += answer.if_stay_ns
               ? cat(" (", base::seconds(*answer.if_stay_ns), " without a change, ", base::seconds(answer.before_ns), " before)")
               : cat(" (", base::seconds(answer.before_ns), " before; it cannot stay)");
  }
  out += "\n\n";
  std::vector<std::vector<std::string>> rows{{"action", "step", "pause", "moves", "pays off after", "what"}};
  for (const adapt::Change& c : answer.actions) {
    if (!c.possible) {
      rows.push_back({std::string(to_string(c.action)), "–", "", "", "", c.what});
      continue;
    }
    rows.push_back({std::string(to_string(c.action)), cat(c.upper_bound ? "≤ " : "", base::seconds(c.iteration_ns)),
                    c.action == adapt::ActionKind::stay ? "" : pause_of(c.move),
                    c.action == adapt::ActionKind::stay ? "" : from_where(c.move), after(c), c.what});
  }
  out += report::table(rows, {5});
  for (std::size_t a = 0; a + 1 < answer.actions.size(); ++a)
    for (std::size_t b = a + 1; b < answer.actions.size(); ++b)
      if (const auto h = answer.break_even(a, b); h && *h > 0)
        out += cat("  ", to_string(answer.actions[b].action), " beats ", to_string(answer.actions[a].action),
                   " if the change lasts more than ", duration(*h), "\n");
  out += std::isinf(answer.horizon_s) ? "  recommended for a permanent change\n"
                                      : cat("  recommended for a change of ", duration(answer.horizon_s), "\n");
  for (const std::string& note : answer.notes) out += cat("  ", note, "\n");
  return out;
}

std::string adapt::to_text(const Survival& answer) {
  std::string out =
      cat(answer.covered, " of ", answer.losses, " losses of up to ", answer.most, answer.most == 1 ? " node" : " nodes",
          " have a plan: ", answer.classes.size(), " classes, ", answer.plans, " plans\n\n");
  std::vector<std::vector<std::string>> rows{{"lost", "losses", "step", "pause", "moves", "action", "what"}};
  for (const adapt::LossClass& c : answer.classes) {
    const adapt::Change& a = c.action;
    if (a.possible)
      rows.push_back({c.holds, std::to_string(c.losses), base::seconds(a.iteration_ns), pause_of(a.move), from_where(a.move),
                      std::string(to_string(a.action)), a.what});
    else
      rows.push_back({c.holds, std::to_string(c.losses), "–", "", "", "none", a.what});
  }
  return out + report::table(rows, {5, 6});
}

std::string adapt::to_text(const Replan& answer) {
  const adapt::Disturbance& what = answer.diagnosis.what;
  std::string out;
  for (const auto& [name, factor] : what.slow)
    out += cat("  ", name, " takes ", base::fixed(factor, 2), " times as long as its peers\n");
  for (const auto& [name, factor] : what.links) out += cat("  ", name, " reaches ", base::percent(factor), " of its bandwidth\n");
  for (const std::string& name : what.lost) out += cat("  ", name, " is lost\n");
  for (const std::string& note : answer.diagnosis.notes) out += cat("  ", note, "\n");
  if (!answer.ladder) return cat("stay: no fault of the cluster was observed\n", out);
  return cat(to_text(*answer.ladder), "\nseen:\n", out);
}

}  // namespace espalier
