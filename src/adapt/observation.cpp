// SPDX-License-Identifier: Apache-2.0
// Reads espalier.observation/1 and derives a diagnosis from it.
#include "espalier/observation.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/document.h"
#include "base/format.h"
#include "plan/process_groups.h"
#include "plan/step_tokens.h"

namespace espalier::adapt {
namespace {

constexpr double kMostSeconds = 1e9;
constexpr double kMostTokens = 1e15;
constexpr double kMostGbps = 1e9;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Returns the stage of each device, counted over the plan's pipelines; −1 if it is not used.
std::vector<std::int64_t> stage_of_devices(const Plan& plan, std::int64_t devices) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(devices), -1);
  std::int64_t number = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) {
      for (const std::int64_t device : devices_of(stage.devices))
        if (device < devices) out[static_cast<std::size_t>(device)] = number;
      ++number;
    }
  return out;
}

void read_steps(const Job& job, const Observation& seen, Diagnosis& out) {
  if (seen.steps.empty()) return;
  const double nominal = real_tokens_of_step(job.training);
  double time = 0, tokens = 0;
  for (const StepSeen& step : seen.steps) {
    const double own = step.tokens.value_or(nominal);
    time += step.iteration_s * nominal / own;
    tokens += own;
  }
  const auto n = static_cast<double>(seen.steps.size());
  out.step_s = time / n;
  out.tokens_ratio = tokens / n / nominal;
  if (std::abs(out.tokens_ratio - 1) > 0.01)
    out.notes.push_back(
        cat("steps of ", base::percent(out.tokens_ratio), " of the plan's tokens: treated as steps with all tokens"));
}

Status read_ranks(const Job& job, const Plan& plan, const Observation& seen, double least, Diagnosis& out) {
  const std::vector<std::int64_t> stages = stage_of_devices(plan, job.cluster.devices());
  std::map<std::int64_t, std::vector<double>> by_stage;
  for (const RankSeen& rank : seen.ranks) {
    if (rank.rank >= job.cluster.devices())
      return Error{ErrorKind::bad_input, "$.ranks", cat("rank ", rank.rank), cat("below ", job.cluster.devices()), ""};
    by_stage[stages[static_cast<std::size_t>(rank.rank)]].push_back(rank.forward_s + rank.backward_s);
  }
  for (const RankSeen& rank : seen.ranks) {
    const std::vector<double>& peers = by_stage[stages[static_cast<std::size_t>(rank.rank)]];
    if (peers.size() < 3) continue;  // two ranks do not show which one is slow
    const double usual = median(peers);
    const double factor = usual > 0 ? (rank.forward_s + rank.backward_s) / usual : 1;
    if (factor >= least) out.what.slow.emplace_back(cat("rank:", rank.rank), factor);
  }
  if (!seen.ranks.empty() && std::all_of(by_stage.begin(), by_stage.end(), [](const auto& s) { return s.second.size() < 3; }))
    out.notes.emplace_back("fewer than three ranks of each stage were observed: no rank can be identified as slow");
  return {};
}

/// Returns the bandwidth of a node or link that the cluster states.
double nominal_gbps(const Cluster& cluster, const ClusterTarget& target) {
  if (target.kind == ClusterTarget::Kind::link)
    return cluster.links[static_cast<std::size_t>(target.index)].bandwidth.count() * 8e-9;
  const std::size_t g =
      target.kind == ClusterTarget::Kind::node ? cluster.group_of_node(target.index) : cluster.group_of(target.index);
  const NodeGroup& group = cluster.groups[g];
  const std::vector<FabricLevel>& between = cluster.homogeneous() ? cluster.inter : group.inter;
  if (between.empty()) return 0;
  const double device = between.front().bandwidth.count() * between.front().efficiency * 8e-9;
  return target.kind == ClusterTarget::Kind::node ? device * static_cast<double>(group.devices_per_node) : device;
}

Status read_links(const Job& job, const Observation& seen, double least, Diagnosis& out) {
  for (const LinkSeen& link : seen.links) {
    const auto target = target_called(job.cluster, link.link, "$.links");
    if (!target) return target.error();
    if (target->kind == ClusterTarget::Kind::group)
      return Error{ErrorKind::bad_input, "$.links", "\"" + link.link + "\"", "a link \"a-b\", a node or a device", ""};
    const double nominal = nominal_gbps(job.cluster, *target);
    if (nominal <= 0 || link.gbps * least > nominal) continue;
    const double factor = link.gbps / nominal;
    out.what.links.emplace_back(link.link, factor < kLostBelow ? 0.0 : factor);
    if (factor < kLostBelow) out.notes.push_back(cat("no traffic passes ", link.link, ": treated as lost"));
  }
  return {};
}

}  // namespace

std::string to_json(const Observation& seen) {
  base::JsonWriter json;
  json.begin_object().key("schema").value("espalier.observation/1").key("time_s").value(seen.time_s);
  if (!seen.plan.empty()) json.key("plan").value(seen.plan);
  json.key("steps").begin_array();
  for (const StepSeen& step : seen.steps) {
    json.compact_next().begin_object().key("iteration_s").value(step.iteration_s);
    if (step.tokens) json.key("tokens").value(*step.tokens);
    json.end_object();
  }
  json.end_array().key("ranks").begin_array();
  for (const RankSeen& rank : seen.ranks)
    json.compact_next()
        .begin_object()
        .key("rank")
        .value(rank.rank)
        .key("forward_s")
        .value(rank.forward_s)
        .key("backward_s")
        .value(rank.backward_s)
        .end_object();
  json.end_array().key("links").begin_array();
  for (const LinkSeen& link : seen.links)
    json.compact_next().begin_object().key("link").value(link.link).key("gbps").value(link.gbps).end_object();
  json.end_array().key("lost").begin_array();
  for (const std::string& lost : seen.lost) json.value(lost);
  json.end_array().end_object();
  return json.text() + "\n";
}

Result<Observation> load_observation(std::string_view text, const std::string& where) {
  const auto document = base::read_json(text, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  Observation out;
  if (const std::string schema = root.required_string("schema"); sink.ok() && schema != "espalier.observation/1")
    root.fail("schema", "", "espalier.observation/1");
  out.time_s = root.optional_real("time_s", -kMostSeconds * 10, kMostSeconds * 10, 0);
  out.plan = root.optional_string("plan", "");
  root.each("steps", false, [&](base::Reader& r) {
    StepSeen step;
    step.iteration_s = r.required_real("iteration_s", 1e-9, kMostSeconds);
    if (const double tokens = r.optional_real("tokens", 0, kMostTokens, 0); tokens > 0) step.tokens = tokens;
    r.finish();
    out.steps.push_back(step);
  });
  root.each("ranks", false, [&](base::Reader& r) {
    RankSeen rank;
    rank.rank = r.required_int("rank", 0, std::int64_t{1} << 30);
    rank.forward_s = r.required_real("forward_s", 0, kMostSeconds);
    rank.backward_s = r.optional_real("backward_s", 0, kMostSeconds, 0);
    r.finish();
    out.ranks.push_back(rank);
  });
  root.each("links", false, [&](base::Reader& r) {
    LinkSeen link;
    link.link = r.required_string("link");
    link.gbps = r.required_real("gbps", 0, kMostGbps);
    r.finish();
    out.links.push_back(link);
  });
  if (const base::Node* lost = root.find("lost"); lost != nullptr && lost->kind != base::NodeKind::null) {
    const bool words =
        lost->kind == base::NodeKind::sequence &&
        std::all_of(lost->items.begin(), lost->items.end(), [](const base::Node& n) { return n.kind == base::NodeKind::string; });
    if (!words) root.fail("lost", "", "a list of nodes such as [\"node:3\"]");
    if (words)
      for (const base::Node& node : lost->items) out.lost.push_back(node.text);
  }
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

Result<Diagnosis> diagnose(const Job& job, const Plan& plan, const Observation& seen, double least) {
  if (!seen.plan.empty() && seen.plan != content_hash(plan))
    return Error{ErrorKind::bad_input, "$.plan", seen.plan, cat(content_hash(plan), ", the hash of the plan"),
                 "observations of another plan do not apply to this one"};
  Diagnosis out;
  for (const std::string& name : seen.lost) {
    const auto target = target_called(job.cluster, name, "$.lost");
    if (!target) return target.error();
    if (target->kind != ClusterTarget::Kind::node)
      return Error{ErrorKind::bad_input, "$.lost", "\"" + name + "\"", "a node such as \"node:3\"", ""};
    out.what.lost.push_back(name);
  }
  read_steps(job, seen, out);
  if (Status status = read_ranks(job, plan, seen, least, out); !status.ok()) return status.error();
  if (Status status = read_links(job, seen, least, out); !status.ok()) return status.error();
  return out;
}

Result<Replan> replan(const Job& job, const Plan& plan, const Observation& seen, const ChangeOptions& options) {
  auto diagnosis = diagnose(job, plan, seen);
  if (!diagnosis) return diagnosis.error();
  Replan out;
  out.diagnosis = std::move(*diagnosis);
  if (out.diagnosis.what.empty()) return out;
  auto ladder = what_if(job, plan, out.diagnosis.what, options);
  if (!ladder) return ladder.error();
  if (out.diagnosis.step_s && ladder->if_stay_ns) {
    const double predicted = static_cast<double>(*ladder->if_stay_ns) * 1e-9;
    out.diagnosis.notes.push_back(cat("a step took ", base::fixed(*out.diagnosis.step_s, 3),
                                      " s; the prediction for the observed cluster is ", base::fixed(predicted, 3), " s"));
  }
  out.ladder = std::move(*ladder);
  return out;
}

}  // namespace espalier::adapt
