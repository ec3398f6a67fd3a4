// SPDX-License-Identifier: Apache-2.0
#include "cli/adapting_run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/step_watch.h"
#include "espalier/documents.h"
#include "espalier/observation.h"
#include "espalier/planner.h"
#include "plan/process_groups.h"

namespace espalier::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Path = std::filesystem::path;

constexpr double kNarrow = 0.9;  // share of a link's first rate, below which it has changed
constexpr auto kLookRound = std::chrono::milliseconds(20);

double seconds_between(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }

/// Holds what ranks reported about themselves and their links (runtime/steering.h), by device of the plan.
struct Look {
  std::vector<adapt::RankSeen> ranks;
  std::map<std::pair<std::int64_t, std::int64_t>, double> rates;  ///< bytes per second, from and to
};

/// Returns the smaller of the best rate out of a device and the best rate into it. This is the rate of its own link,
/// whatever the other devices are like.
double way_of(const Look& look, std::int64_t device) {
  double out = 0, in = 0;
  for (const auto& [pair, rate] : look.rates) {
    if (pair.first == device) out = std::max(out, rate);
    if (pair.second == device) in = std::max(in, rate);
  }
  return std::min(out, in);
}

/// Holds a running plan, and where it runs.
struct Running {
  Plan plan;
  Job job;
  std::vector<std::int64_t> places;  ///< by device of its cluster: device of the first plan's cluster
};

/// Holds one change of plans, with its predicted and measured times.
struct PlanMove {
  std::int64_t after = 0;  ///< updates
  std::string action, label, why;
  /// These are predicted: a step without the move, one after the move, the pause, the whole run.
  double stay_s = 0, step_s = 0, pause_s = 0, total_s = 0;
  double measured_step_s = 0, measured_pause_s = 0;
};

class AdaptingRun {
 public:
  AdaptingRun(Context& context, const AdaptFlags& adapt, const ChangeFlags& change, RankOptions options, std::string program,
              const std::optional<launch::RankPlace>& place)
      : context_(context),
        adapt_(adapt),
        change_(change),
        options_(std::move(options)),
        program_(std::move(program)),
        place_(place),
        watch_(adapt.factor) {
    options_.steering = adapt_.folder;
    if (options_.checkpoint.empty()) options_.checkpoint = (Path(adapt_.folder) / "checkpoints").string();
  }
  Status run(Running first);
  void report() const;

 private:
  [[nodiscard]] bool watches() const { return !place_ || place_->rank == 0; }
  [[nodiscard]] std::string file(const std::string& name) const { return (Path(adapt_.folder) / name).string(); }
  [[nodiscard]] std::vector<std::int64_t> devices() const;
  Status clear_folder();
  Status run_ranks();
  Status publish();
  Status wait_for_next(bool& done);
  Status adopt_published();
  void heard(const std::string& line);
  void stepped(const TrainedStep& step);
  void seen(const std::string& line);
  void decide();
  /// Returns why the move is rejected; empty where the ranks are asked to leave.
  [[nodiscard]] std::string propose(const adapt::Change& change, const adapt::WhatIf& ladder);
  void ask(const std::string& word);
  [[nodiscard]] adapt::Observation observed() const;
  [[nodiscard]] std::vector<adapt::LinkSeen> narrowed() const;
  [[nodiscard]] double left_s() const;

  Context& context_;
  AdaptFlags adapt_;
  ChangeFlags change_;
  RankOptions options_;
  std::string program_;
  std::optional<launch::RankPlace> place_;
  StepWatch watch_;
  ScratchFolder scratch_;
  Running running_;
  std::optional<Running> next_;
  std::int64_t generation_ = 0;
  std::vector<TrainedStep> steps_;  ///< steps of all generations
  std::size_t first_step_ = 0;      ///< first of them in this generation
  std::vector<PlanMove> moves_;
  Look first_look_, look_;
  bool looked_ = false, left_ = false, deciding_ = false;
  Clock::time_point began_ = Clock::now(), launched_, last_step_;
  double start_up_s_ = 0;
};

/// Returns the devices of the plan, ascending: world rank → device.
std::vector<std::int64_t> AdaptingRun::devices() const {
  std::vector<std::int64_t> out;
  for (const Pipeline& pipeline : running_.plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const std::int64_t device : devices_of(stage.devices)) out.push_back(device);
  std::sort(out.begin(), out.end());
  return out;
}

Status AdaptingRun::clear_folder() {
  std::error_code failed;
  std::filesystem::create_directories(adapt_.folder, failed);
  if (failed) return Error{ErrorKind::bad_input, adapt_.folder, failed.message(), "a folder that can be created", ""};
  for (const auto& entry : std::filesystem::directory_iterator(adapt_.folder, failed)) {
    const std::string name = entry.path().filename().string();
    const auto begins = [&name](const char* with) { return name.rfind(with, 0) == 0; };
    if (name == "request" || name == "done" || begins("plan-") || begins("devices-") || begins("observation-"))
      std::filesystem::remove(entry.path(), failed);
  }
  return {};
}

void AdaptingRun::ask(const std::string& word) {
  if (Status status = report::write_file(file("request"), word + "\n"); !status.ok()) note(context_, status.error().message());
}

// ---- ranks --------------------------------------------------------------------------------------------------------

Status AdaptingRun::run_ranks() {
  const std::string path = (scratch_.path() / cat("plan-", generation_, ".json")).string();
  if (Status status = report::write_file(path, to_json(running_.plan)); !status.ok()) return status;
  const std::vector<std::int64_t> all = devices();
  const auto world = static_cast<std::int64_t>(all.size());
  const std::string rendezvous = place_ ? cat("tcp:", place_->address, ":", place_->port + generation_)
                                        : cat("file:", (scratch_.path() / cat("port-", generation_)).string());
  launch::LocalRun run;
  run.program = program_;
  run.interrupted = [this] { return context_.interrupted(); };
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::int64_t place = running_.places[static_cast<std::size_t>(all[rank])];
    if (!place_ || place == place_->rank)
      run.arguments.push_back(words_of(options_, path, static_cast<int>(rank), world, rendezvous));
  }
  if (run.arguments.empty()) return {};  // the plan leaves this host out
  left_ = looked_ = deciding_ = false;
  first_step_ = steps_.size();
  if (watches()) {
    ask("look");
    run.line = [this](const std::string& line) { heard(line); };
  }
  launched_ = Clock::now();
  return launch::run_local(run);
}

Status AdaptingRun::run(Running first) {
  running_ = std::move(first);
  if (watches())
    if (Status status = clear_folder(); !status.ok()) return status;
  for (;;) {
    if (Status status = run_ranks(); !status.ok()) return status;
    bool done = false;
    if (watches()) {
      done = !left_;
      if (done && next_) {
        note(context_, "all steps finished before the ranks could switch plans: the plan was kept");
        moves_.pop_back();
        next_.reset();
      }
      if (Status status = done ? report::write_file(file("done"), "done\n") : publish(); !status.ok()) return status;
    } else if (Status status = wait_for_next(done); !status.ok()) {
      return status;
    }
    if (done) return {};
    ++generation_;
    options_.resume = true;
  }
}

/// Makes the next plan the present one, here and for all hosts. Its places are written before it.
Status AdaptingRun::publish() {
  running_ = std::move(*next_);
  next_.reset();
  watch_ = StepWatch(adapt_.factor);
  std::string places;
  for (const std::int64_t place : running_.places) places += cat(place, "\n");
  if (Status status = report::write_file(file(cat("devices-", generation_ + 1, ".txt")), places); !status.ok()) return status;
  return report::write_file(file(cat("plan-", generation_ + 1, ".json")), to_json(running_.plan));
}

Status AdaptingRun::wait_for_next(bool& done) {
  const auto begin = Clock::now();
  std::error_code none;
  const auto ended = [&] { return done = std::filesystem::exists(file("done"), none); };
  while (!std::filesystem::exists(file(cat("plan-", generation_ + 1, ".json")), none)) {
    if (ended()) return {};
    if (context_.interrupted()) return Error{ErrorKind::limit, "run", "an interrupt", "an uninterrupted run", ""};
    // A host that the plan leaves out waits as long as the others train.
    const std::vector<std::int64_t> all = devices();
    const bool takes_part = std::any_of(
        all.begin(), all.end(), [this](std::int64_t d) { return running_.places[static_cast<std::size_t>(d)] == place_->rank; });
    if (takes_part && seconds_between(begin, Clock::now()) > options_.timeout)
      return Error{ErrorKind::limit, adapt_.folder, "neither a next plan nor an end marker",
                   "one of them, written by the host of rank 0 into a folder that all hosts share", ""};
    std::this_thread::sleep_for(kLookRound);
  }
  return adopt_published();
}

Status AdaptingRun::adopt_published() {
  const std::string path = file(cat("plan-", generation_ + 1, ".json"));
  const auto text = base::read_file(path);
  if (!text) return text.error();
  auto plan = plan_from_json(*text, path);
  if (!plan) return plan.error();
  running_.plan = std::move(*plan);
  running_.places.clear();
  std::ifstream places(file(cat("devices-", generation_ + 1, ".txt")));
  for (std::int64_t place = 0; places >> place;) running_.places.push_back(place);
  const std::vector<std::int64_t> all = devices();
  if (!all.empty() && all.back() < static_cast<std::int64_t>(running_.places.size())) return {};
  return Error{ErrorKind::bad_input, path, cat(running_.places.size(), " places"), "one for every device of the plan", ""};
}

// ---- messages of rank 0 -------------------------------------------------------------------------------------------

void AdaptingRun::heard(const std::string& line) {
  if (line.rfind("note ", 0) == 0) return note(context_, line.substr(5));
  if (line.rfind("seen ", 0) == 0) return seen(line.substr(5));
  if (line.rfind("left ", 0) == 0) {
    left_ = true;
    if (!moves_.empty()) moves_.back().after = std::strtoll(line.c_str() + 5, nullptr, 10);
    return;
  }
  if (const auto step = step_line(line)) stepped(*step);
}

void AdaptingRun::stepped(const TrainedStep& step) {
  const auto now = Clock::now();
  if (steps_.size() == first_step_) {
    start_up_s_ = seconds_between(launched_, now) - step.seconds;
    if (!moves_.empty()) moves_.back().measured_pause_s = seconds_between(last_step_, now) - step.seconds;
  }
  last_step_ = now;
  steps_.push_back(step);
  if (!context_.json && !context_.quiet) {
    const Training& t = running_.plan.training;
    context_.out << step_text(step, options_.steps, static_cast<double>(t.global_batch * t.sequence.main)) << std::endl;
  }
  if (!watch_.changed(step.seconds) || deciding_ || !looked_) return;
  deciding_ = true;
  note(context_, cat("steps take ", base::fixed(step.seconds * 1e3, 1), " ms, usually ", base::fixed(watch_.usual_s() * 1e3, 1),
                     " ms: investigating"));
  ask("look");
}

void AdaptingRun::seen(const std::string& line) {
  std::istringstream words(line);
  std::string what;
  words >> what;
  adapt::RankSeen rank;
  std::int64_t from = 0, to = 0;
  double rate = 0;
  if (what == "rank" && words >> rank.rank >> rank.forward_s >> rank.backward_s) look_.ranks.push_back(rank);
  if (what == "rate" && words >> from >> to >> rate) look_.rates[{from, to}] = rate;
  if (what != "end") return;
  if (!looked_) first_look_ = look_;
  looked_ = true;
  if (deciding_) decide();
  look_ = Look();
}

// ---- reaction -----------------------------------------------------------------------------------------------------

/// Returns links that are slower than at the first look. A link is named after its node where that has one device.
std::vector<adapt::LinkSeen> AdaptingRun::narrowed() const {
  std::vector<adapt::LinkSeen> out;
  for (const adapt::RankSeen& rank : look_.ranks) {
    const double before = way_of(first_look_, rank.rank), now = way_of(look_, rank.rank);
    if (before <= 0 || now >= kNarrow * before) continue;
    const bool alone = running_.job.cluster.groups.front().devices_per_node == 1;
    out.push_back({cat(alone ? "node:" : "rank:", rank.rank), now * 8e-9});
  }
  return out;
}

adapt::Observation AdaptingRun::observed() const {
  adapt::Observation out;
  out.time_s = seconds_between(began_, Clock::now());
  out.plan = content_hash(running_.plan);
  const std::size_t count = std::min(StepWatch::kInRow, steps_.size());
  for (auto step = steps_.end() - static_cast<std::ptrdiff_t>(count); step != steps_.end(); ++step)
    out.steps.push_back({step->seconds, std::nullopt});
  for (const adapt::RankSeen& rank : look_.ranks)
    if (rank.forward_s > 0) out.ranks.push_back(rank);
  out.links = narrowed();
  return out;
}

double AdaptingRun::left_s() const {
  return static_cast<double>(options_.steps - steps_.back().step - 1) * steps_.back().seconds;
}

void AdaptingRun::decide() {
  deciding_ = false;
  const auto stay = [this](const std::string& why) {
    note(context_, cat("keeping the plan: ", why));
    watch_.accept();
  };
  auto options = change_options(context_, change_);
  if (!options) return stay(options.error().message());
  if (change_.horizon.empty()) options->horizon_s = left_s();
  if (change_.restart.empty()) options->move.restart_s = start_up_s_;
  if (change_.checkpoint_age.empty()) options->move.checkpoint_age_s = 0;  // ranks leave with one
  const adapt::Observation observation = observed();
  if (Status status = report::write_file(file(cat("observation-", moves_.size() + 1, ".json")), to_json(observation));
      !status.ok())
    return stay(status.error().message());
  const auto answer = adapt::replan(running_.job, running_.plan, observation, *options);
  if (!answer) return stay(answer.error().message());
  for (const std::string& text : answer->diagnosis.notes) note(context_, text);
  if (!answer->ladder) return stay("no slow device or link was observed");
  const adapt::Change& change = answer->ladder->actions[answer->ladder->recommended];
  if (!change.possible || !change.plan) return stay(cat(to_string(change.action), ", ", change.what));
  if (const std::string why = propose(change, *answer->ladder); !why.empty()) stay(why);
}

/// Prepares the recommended plan, on the places of the nodes that it keeps.
std::string AdaptingRun::propose(const adapt::Change& change, const adapt::WhatIf& ladder) {
  const std::int64_t each = running_.job.cluster.groups.front().devices_per_node;
  for (const NodeGroup& group : running_.job.cluster.groups)
    if (group.devices_per_node != each) return "a run cannot move between nodes of different sizes";
  Running next;
  next.plan = *change.plan;
  auto job = job_of_plan(next.plan);
  if (!job) return job.error().message();
  next.job = std::move(*job);
  next.job.search = running_.job.search;
  for (const std::int64_t node : change.nodes)
    for (std::int64_t d = 0; d < each; ++d) next.places.push_back(running_.places[static_cast<std::size_t>(node * each + d)]);
  std::int64_t first = running_.job.cluster.devices();
  for (const Pipeline& pipeline : next.plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const std::int64_t device : devices_of(stage.devices)) first = std::min(first, device);
  if (place_ && next.places[static_cast<std::size_t>(first)] != place_->rank)
    return "the other plan does not use the host of rank 0";
  PlanMove moved;
  moved.after = steps_.back().step + 1;
  moved.action = to_string(change.action);
  moved.label = next.plan.label();
  moved.why = change.what;
  moved.stay_s = static_cast<double>(ladder.if_stay_ns.value_or(0)) * 1e-9;
  moved.step_s = static_cast<double>(change.iteration_ns) * 1e-9;
  moved.pause_s = change.move.pause_s();
  moved.total_s =
      seconds_between(began_, Clock::now()) + moved.pause_s + static_cast<double>(options_.steps - moved.after) * moved.step_s;
  note(context_, cat(moved.action, ": ", moved.label, "; a step ", base::fixed(moved.step_s * 1e3, 1), " ms instead of ",
                     base::fixed(moved.stay_s * 1e3, 1), " ms, after a pause of ", base::fixed(moved.pause_s, 2), " s"));
  moves_.push_back(std::move(moved));
  next_ = std::move(next);
  ask("leave");
  return "";
}

// ---- the end ------------------------------------------------------------------------------------------------------

void AdaptingRun::report() const {
  const double total = seconds_between(began_, Clock::now());
  std::vector<PlanMove> moves = moves_;
  for (std::size_t m = 0; m < moves.size(); ++m) {
    std::vector<double> seconds;
    const std::int64_t until = m + 1 < moves.size() ? moves[m + 1].after : options_.steps;
    for (const TrainedStep& step : steps_)
      if (step.step > moves[m].after + 1 && step.step < until) seconds.push_back(step.seconds);
    std::sort(seconds.begin(), seconds.end());
    moves[m].measured_step_s = seconds.empty() ? 0 : seconds[seconds.size() / 2];
  }
  if (!context_.json) {
    std::string text =
        cat(steps_.size(), " steps in ", base::fixed(total, 1), " s, ", moves.size(), moves.size() == 1 ? " move\n" : " moves\n");
    for (const PlanMove& m : moves)
      text += cat("after step ", m.after, ": ", m.action, " to ", m.label, ": pause ", base::fixed(m.measured_pause_s, 2),
                  " s (predicted ", base::fixed(m.pause_s, 2), " s), a step ", base::fixed(m.measured_step_s * 1e3, 1),
                  " ms (predicted ", base::fixed(m.step_s * 1e3, 1), " ms; without the move ", base::fixed(m.stay_s * 1e3, 1),
                  " ms); predicted for the whole run: ", base::fixed(m.total_s, 1), " s\n");
    return print_answer(context_, text);
  }
  base::JsonWriter json;
  json.begin_object().key("total_s").value(total).key("moves").begin_array();
  for (const PlanMove& m : moves) {
    json.begin_object()
        .key("after_step")
        .value(m.after)
        .key("action")
        .value(m.action)
        .key("plan")
        .value(m.label)
        .key("what")
        .value(m.why);
    json.key("predicted")
        .compact_next()
        .begin_object()
        .key("step_s")
        .value(m.step_s)
        .key("stay_step_s")
        .value(m.stay_s)
        .key("pause_s")
        .value(m.pause_s);
    json.key("total_s").value(m.total_s).end_object();
    json.key("measured")
        .compact_next()
        .begin_object()
        .key("step_s")
        .value(m.measured_step_s)
        .key("pause_s")
        .value(m.measured_pause_s)
        .end_object()
        .end_object();
  }
  json.end_array().key("steps").begin_array();
  for (const TrainedStep& step : steps_)
    json.compact_next()
        .begin_object()
        .key("step")
        .value(step.step)
        .key("loss")
        .value(step.loss)
        .key("seconds")
        .value(step.seconds)
        .end_object();
  json.end_array().end_object();
  print_json(context_, json.text());
}

}  // namespace

int run_adapting(Context& context, const AdaptFlags& adapt, const ChangeFlags& change, RankOptions options,
                 const std::string& path, const std::string& program, const std::optional<launch::RankPlace>& place) {
  auto running = running_plan(context, path);
  if (!running) return fail(context, running.error());
  Running first{std::move(running->plan), std::move(running->job), {}};
  for (std::int64_t device = 0; device < first.job.cluster.devices(); ++device) first.places.push_back(device);
  setenv("OMP_NUM_THREADS", "1", 0);  // ranks share the cores of this machine
  setenv("MKL_NUM_THREADS", "1", 0);
  if (place && place->world != first.job.cluster.devices())
    return fail(context, Error{ErrorKind::usage, "run --adapt", cat(place->world, " ranks"),
                               cat("one rank for every device of the cluster, ", first.job.cluster.devices(),
                                   ": another plan may need them"),
                               ""});
  AdaptingRun run(context, adapt, change, std::move(options), program, place);
  if (Status status = run.run(std::move(first)); !status.ok())
    return context.interrupted() ? kInterrupted : fail(context, status.error());
  if (!place || place->rank == 0) run.report();
  return kOk;
}

}  // namespace espalier::cli
