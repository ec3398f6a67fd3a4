// SPDX-License-Identifier: Apache-2.0
// Uses every feature of the installed library once, like a user's own program. docs/library.md shows it
// piece by piece.
//
// usage: consumer FOLDER     with the examples of the package: PREFIX/share/espalier
#include <espalier/adapt.h>
#include <espalier/calibrate.h>
#include <espalier/check.h>
#include <espalier/cluster_change.h>
#include <espalier/compare.h>
#include <espalier/configuration.h>
#include <espalier/documents.h>
#include <espalier/engines.h>
#include <espalier/exchange.h>
#include <espalier/explain.h>
#include <espalier/galvatron_profile.h>
#include <espalier/imported_cluster.h>
#include <espalier/imported_configuration.h>
#include <espalier/improve.h>
#include <espalier/inspect.h>
#include <espalier/job.h>
#include <espalier/measured_fabric.h>
#include <espalier/observation.h>
#include <espalier/planner.h>
#include <espalier/policy.h>
#include <espalier/report.h>
#include <espalier/schedule_grid.h>
#include <espalier/sweep.h>
#include <espalier/validate.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace {

/// Returns the value, or ends the program with the message of the error: where, what was found, what was
/// expected, a hint.
template <class T>
T value_or_exit(espalier::Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << result.error().message() << "\n";
  std::exit(1);
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << "\n";
  std::exit(1);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

espalier::Job load(const std::string& folder) {
  // begin load
  const std::vector<std::string> overrides{"training.global_batch=32"};  // like --set of the command line
  const espalier::Job job = value_or_exit(espalier::load_job_file(folder + "/examples/gpt2-on-4xrtx4090.yaml", overrides));
  std::cout << espalier::parameter_count(job.model) << " parameters on " << job.cluster.devices() << " devices\n";
  // end load
  return job;
}

espalier::PlannerResult plan_it(const espalier::Job& job) {
  // begin plan
  espalier::PlannerOptions options;
  options.threads = 2;  // never changes the answer
  const espalier::PlannerResult best = value_or_exit(espalier::plan(job, options));
  std::cout << best.brief(100);
  require(best.search.optimal, "the search is finished: no configuration of the space is faster");
  // end plan
  return best;
}

/// The links of the fabric lose a tenth of their bandwidth.
void plan_again(const espalier::Job& job) {
  // begin replan
  espalier::PlannerMemory memory;
  espalier::PlannerOptions options;
  options.memory = &memory;
  const espalier::PlannerResult before = value_or_exit(espalier::plan(job, options));
  espalier::Job changed = job;
  for (espalier::FabricLevel& level : changed.cluster.groups.front().intra)
    level.bandwidth = espalier::BytesPerSecond(0.9 * level.bandwidth.count());
  const espalier::PlannerResult after = value_or_exit(espalier::plan(changed, options));
  std::cout << before.search.bounded << " bounds at first, then " << after.search.bounded << "\n";
  require(after.search.optimal, "what was remembered proves nothing by itself: the answer is certified as any other");
  // end replan
}

void estimate_one(const espalier::Job& job, const espalier::PlannerResult& best) {
  // begin estimate
  espalier::Strategy strategy;
  strategy.tp = 2;
  strategy.dp = 0;  // 0: derived from the job
  espalier::Schedule schedule;
  schedule.microbatches = 0;
  espalier::complete_configuration(job, strategy, schedule);
  const espalier::PlannerResult mine = value_or_exit(espalier::estimate(job, strategy, schedule));
  std::cout << mine.plan.label() << ": " << mine.prediction.iteration_ns << " ns, fits: " << mine.prediction.fits << "\n";
  // end estimate
  espalier::ConfigurationWords words;
  words.tp = 2;
  const auto read = value_or_exit(espalier::read_configuration(words, job));
  require(read.strategy.tp == 2 && read.strategy.dp > 0, "words are a configuration");
  require(mine.prediction.iteration_ns >= best.prediction.iteration_ns, "nothing is faster than the best");
}

void simulate_it(const espalier::Job& job, const espalier::Plan& plan) {
  // begin simulate
  const espalier::SimulatedPlan simulated = value_or_exit(espalier::simulate_with_timeline(job, plan));
  for (const espalier::TimelineRank& rank : simulated.timeline.ranks) {
    std::int64_t computing_ns = 0;
    for (const espalier::TimelineSpan& span : rank.spans)
      if (span.stream == espalier::Stream::compute) computing_ns += span.end_ns - span.start_ns;
    std::int64_t peak = 0;
    for (const espalier::MemorySample& sample : rank.memory) peak = std::max(peak, sample.activation_bytes);
    std::cout << "stage " << rank.stage << ", " << rank.represents << " devices: " << computing_ns << " ns of compute, "
              << rank.static_bytes + peak << " bytes of tensors at most\n";
  }
  const std::string trace = espalier::to_trace(simulated.timeline);  // for Perfetto and chrome://tracing
  // end simulate
  require(trace.find("traceEvents") != std::string::npos, "a timeline is a trace");
}

void check_it(const espalier::Job& job, const espalier::PlannerResult& best) {
  // begin check
  const std::string json = espalier::to_json(best);
  const espalier::PlannerResult claimed = value_or_exit(espalier::result_from_json(json, "result.json"));
  const espalier::CheckReport report = value_or_exit(espalier::report::check_result(job, claimed, json));
  for (const espalier::Finding& finding : report.findings)
    if (!finding.ok) std::cout << finding.name << ": " << finding.text << "\n";
  require(report.ok(), "an independent check agrees with every figure");
  const espalier::CheckReport of_plan = value_or_exit(espalier::report::check_plan(job, best.plan));
  // end check
  require(of_plan.ok(), "the plan by itself holds, too");
}

void explain_and_compare(const espalier::Job& job, const espalier::PlannerResult& best) {
  // begin explain
  for (const std::string& sentence : espalier::report::bottlenecks(best)) std::cout << "- " << sentence << "\n";
  std::cout << espalier::report::explain(best, 100);
  // end explain
  // begin report
  const std::string data = value_or_exit(espalier::report::page_data(job, best, nullptr, {}));
  const std::string page = espalier::report::page(data, best.brief(100));  // write_file("report.html", page)
  // end report
  require(page.find("<title>Espalier report</title>") != std::string::npos, "the report is a page");
  // begin grid
  const espalier::SimulatedPlan simulated = value_or_exit(espalier::simulate_with_timeline(job, best.plan));
  std::cout << espalier::report::schedule_grid(simulated.result, simulated.timeline, {100, true});
  // end grid
  // begin compare
  espalier::Strategy other = best.plan.strategy();
  other.overlap = {};  // no communication is overlapped
  const auto slower = value_or_exit(espalier::estimate(job, other, best.plan.only_pipeline().schedule));
  std::cout << espalier::report::compare({{"the best", best}, {"no overlap", slower}}, 100);
  // end compare
}

void inspect_inputs(const espalier::Job& job, const std::string& folder) {
  // begin inspect
  std::cout << espalier::report::inspect_model(job.model, 100) << espalier::report::inspect_cluster(job.cluster, 100);
  const auto runs = value_or_exit(espalier::read_run_records_file(folder + "/examples/calibrate/runs.jsonl"));
  const espalier::RunRecord& run = runs.records.front();
  std::cout << espalier::report::inspect_run(run, espalier::map_run(run), 100);
  // end inspect
}

void validate_and_calibrate(const std::string& folder) {
  // begin validate
  const auto runs = value_or_exit(espalier::read_run_records_file(folder + "/examples/calibrate/runs.jsonl"));
  const espalier::Validation before = espalier::validate_runs(runs);
  std::cout << espalier::to_text(before, 3, 100);
  // end validate
  // begin calibrate
  espalier::CalibrationInputs inputs;
  inputs.device = "h100-sxm";
  inputs.records = {{"runs.jsonl", text_of(folder + "/examples/calibrate/runs.jsonl")}};
  const espalier::CalibrationResult fitted = value_or_exit(espalier::fit_calibration(inputs));
  std::cout << espalier::to_text(fitted, 100);
  espalier::ValidationOptions options;
  options.calibration = value_or_exit(espalier::read_calibration(fitted.yaml, "mine.yaml"));
  const espalier::Validation after = espalier::validate_runs(runs, options);
  // end calibrate
  require(after.all.time.median_ape < before.all.time.median_ape, "a fit to runs predicts these runs better");
}

void list_engines(const espalier::Job& job, const espalier::Plan& plan) {
  // begin engines
  for (const espalier::EngineDescription& engine : espalier::engines())
    std::cout << engine.name << ": " << (engine.known_rules ? std::to_string(engine.rules.size()) : "unknown") << " rules\n";
  for (const std::string& name : espalier::engines_that_run(job, plan)) std::cout << name << " can run the plan\n";
  // end engines
  require(!espalier::engines().empty(), "there are engines");
}

void exchange_files(const espalier::Job& job, const espalier::Plan& plan) {
  // begin exchange
  for (const espalier::exchange::Exporter& format : espalier::exchange::exporters())
    std::cout << format.name << ": " << format.writes << "\n";
  const std::string text = value_or_exit(espalier::exchange::find_exporter("plan")->write({&job, &plan}));
  espalier::exchange::ImportRequest request;
  request.job = &job;
  request.files = {{"plan", "plan.json", text}};
  const espalier::exchange::ImportedPlan back = value_or_exit(espalier::exchange::find_importer("plan")->read(request));
  // end exchange
  require(back.plan == plan, "a plan is what was written");
  require(!espalier::exchange::galvatron_profile(job, {}).ok(), "Galvatron's profile files are of what was measured");
}

void improve_what_runs(const std::string& cluster) {
  // begin improve
  const std::string flags =
      "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --vocab-size 50257 --seq-length 1024 --max-position-embeddings "
      "1024 "
      "--micro-batch-size 1 --global-batch-size 32 --bf16 --tensor-model-parallel-size 4 --sequence-parallel";
  const espalier::exchange::ConfigurationFormat* format = espalier::exchange::find_configuration_format("megatron-args");
  espalier::exchange::ConfigurationRequest request;
  request.name = "launch.sh";
  request.text = flags;
  request.devices = 4;  // as many as the flags are for
  const auto configuration = value_or_exit(format->read(request));
  // The model is in the flags.
  const espalier::Job job = value_or_exit(espalier::exchange::job_of(configuration, {"", cluster, {}}));
  const auto [strategy, schedule] = espalier::exchange::completed_configuration(job, configuration);
  const espalier::adapt::PresentConfiguration present{strategy, schedule, espalier::exchange::plan_of(job, configuration),
                                                      strategy.zero, strategy.overlap};
  const espalier::adapt::Improvement better = value_or_exit(espalier::adapt::improve(job, present, {}));
  std::cout << espalier::adapt::to_text(better, 100);
  // end improve
  require(better.best && better.gain > 0, "on four devices GPT-2 needs no tensor parallelism");
}

void clusters_of_others(const std::string& folder) {
  // begin cluster
  const std::string matrix =
      "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV18\tNV18\tNV18\nGPU1\tNV18\t X \tNV18\tNV18\n"
      "GPU2\tNV18\tNV18\t X \tNV18\nGPU3\tNV18\tNV18\tNV18\t X \n";
  espalier::exchange::ClusterRequest request;
  request.name = "topo.txt";
  request.text = matrix;
  request.device = "h100-sxm-80gb";
  request.nodes = 2;
  const auto found = value_or_exit(espalier::exchange::find_cluster_format("nvidia-smi-topo")->read(request));
  std::cout << value_or_exit(espalier::exchange::cluster_file(found.cluster, found.notes));  // loadable
  const espalier::NamedText table{"all_reduce_perf-1node.txt", text_of(folder + "/examples/calibrate/all_reduce_perf-1node.txt")};
  const espalier::TestedNodes tested = value_or_exit(espalier::tested_nodes({table}));
  const auto usual = value_or_exit(espalier::exchange::usual_cluster("h100-sxm-80gb", tested.nodes, tested.devices_per_node));
  for (const std::string& note : value_or_exit(espalier::measured_fabric(usual, {table})).notes) std::cout << note << "\n";
  // end cluster
  require(found.cluster.devices() == 8, "two nodes of four devices");
}

void sweep_a_job(const std::string& path) {
  // begin sweep
  espalier::report::Sweep sweep{{{"training.global_batch", {"16", "32"}}}, {}};
  for (const std::vector<std::string>& values : espalier::report::combinations(sweep.axes)) {
    const auto job = espalier::load_job_file(path, {sweep.axes[0].path + "=" + values[0]});
    sweep.points.push_back({values, job ? espalier::plan(*job, {}) : espalier::Result<espalier::PlannerResult>(job.error())});
  }
  std::cout << espalier::report::to_text(sweep, 100) << espalier::report::to_csv(sweep);
  // end sweep
  require(sweep.points.size() == 2 && sweep.points[0].result && sweep.points[1].result, "both batches have a plan");
}

void write_what_can_be_said(const espalier::Job& job, const espalier::Plan& plan) {
  // begin closest
  const espalier::exchange::Exporter& format = *espalier::exchange::find_exporter("torchtitan");
  // The part of the plan that torchtitan can express:
  const auto closest = espalier::exchange::closest_plan(format, job, plan);
  if (closest) {
    for (const std::string& lost : closest->lost) std::cout << "not as planned: " << lost << "\n";
    std::cout << value_or_exit(format.write({&job, &closest->plan, espalier::exchange::Launcher::sbatch, closest->lost}));
  }
  // end closest
  require(closest || !closest.error().found.empty(), "a plan that cannot be said names what is in the way");
}

void change_a_cluster(const espalier::Job& job) {
  // begin changes
  espalier::Cluster cluster = job.cluster;
  const espalier::exchange::TraceFormat* counts = espalier::exchange::find_trace_format("counts");
  cluster.events = value_or_exit(counts->read({"spot.csv", "time_s,nodes\n0,1\n60,0\n90,1\n"})).events;
  for (const espalier::Seconds at : espalier::change_times(cluster))
    std::cout << at.count() << " s: " << espalier::state_at(cluster, at).away.size() << " nodes away\n";
  const espalier::TokenBucket bucket{"node:0", espalier::GBps(1.25), espalier::GBps(0.15625), espalier::Bytes(562'500'000'000)};
  std::cout << "full rate for " << espalier::full_rate_lasts(bucket, espalier::full_bucket(bucket)).count() << " s\n";
  // end changes
  require(espalier::state_at(cluster, espalier::Seconds(60)).away.size() == 1, "a node that left is away");
}

void adapt_to_changes(const espalier::Job& job, const espalier::Plan& plan) {
  // begin adapt
  espalier::adapt::Disturbance what;
  what.slow = {{"rank:3", 1.5}};
  const espalier::adapt::WhatIf ladder = value_or_exit(espalier::adapt::what_if(job, plan, what, {}));
  std::cout << espalier::adapt::to_text(ladder);
  const espalier::adapt::Observation seen =
      value_or_exit(espalier::adapt::load_observation(R"({"schema": "espalier.observation/1", "lost": []})", "obs.json"));
  std::cout << espalier::adapt::to_text(value_or_exit(espalier::adapt::replan(job, plan, seen, {})));
  espalier::Job spot = job;
  spot.cluster.events = espalier::preemptions(0, 1, espalier::Seconds(7200), espalier::Seconds(1800), espalier::Seconds(300), 1);
  std::cout << espalier::adapt::to_text(value_or_exit(espalier::adapt::plan_over_time(spot, {})));
  // end adapt
  require(ladder.if_stay_ns && *ladder.if_stay_ns > ladder.before_ns, "a slow rank slows the plan down");
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "usage: consumer PREFIX/share/espalier\n";
    return 2;
  }
  const std::string folder = words[1];
  const espalier::Job job = load(folder);
  const espalier::PlannerResult best = plan_it(job);
  plan_again(job);
  estimate_one(job, best);
  simulate_it(job, best.plan);
  check_it(job, best);
  explain_and_compare(job, best);
  inspect_inputs(job, folder);
  validate_and_calibrate(folder);
  list_engines(job, best.plan);
  exchange_files(job, best.plan);
  write_what_can_be_said(job, best.plan);
  const std::string cluster = "consumer-cluster.yaml";
  std::ofstream(cluster) << "{nodes: 1, devices_per_node: 4, device: a100-sxm-80gb}\n";
  improve_what_runs(cluster);
  clusters_of_others(folder);
  sweep_a_job(folder + "/examples/gpt2-on-4xrtx4090.yaml");
  change_a_cluster(job);
  adapt_to_changes(job, best.plan);
  std::cout << "every call answered\n";
}
