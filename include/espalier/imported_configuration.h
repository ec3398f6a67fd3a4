// SPDX-License-Identifier: Apache-2.0
// Configurations that people already have, in the form their training framework reads: what they say of a plan, and
// which of their keys said it.
//
//   const espalier::ConfigurationFormat* format = espalier::find_configuration_format("megatron-args");
//   auto configuration = format->read({"launch.sh", text, 64});                        // for 64 devices
//   auto job = espalier::job_of(*configuration, {"", "cluster.yaml", {}});             // the model is in the flags
//   auto plan = espalier::plan_of(*job, *configuration);                               // ready for simulate() and improve()
//
// Nothing is guessed silently: every key is listed as read, defaulted, known and not modelled, without effect or not
// understood, and a key that may change the plan and is not understood refuses the file by its name
// (ConfigurationRequest::ignored takes it out).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier {

/// What an import made of one key.
struct ImportedKey {
  enum class Kind : std::uint8_t {
    read,            ///< it says something of the job or the plan
    defaulted,       ///< absent; the framework's default was taken
    without_effect,  ///< known to change neither time nor memory of a step, or switched off
    not_understood,  ///< not known here
    not_modelled,    ///< known to change time or memory in a way that is not predicted
  };
  Kind kind = Kind::read;
  std::string key, value;
  std::string meaning;       ///< "tp 8"; of those that are not read: why
  std::int64_t line = 0;     ///< of the file; 0: not in it
  std::string written = {};  ///< the key as the file spells it, "--tensor-model-parallel-size"; empty: as `key`
};
std::string_view to_string(
    ImportedKey::Kind kind);  ///< "read", "defaulted", "without effect", "not understood", "known, not modelled"

struct ConfigurationRequest {
  std::string name, text;            ///< what messages call the file, and its bytes
  std::int64_t devices = 1;          ///< of the cluster that it is run on
  std::vector<std::string> ignored;  ///< keys that are taken out before the file is read
  // What some formats leave to the training script; 0 and empty: not said. A file that says otherwise is an error.
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;
  std::string recompute;  ///< "none", "selective", "full", or modules of a block: "layernorm,act"
  /// The text of a file that this one names; null: none can be read.
  std::function<Result<std::string>(const std::string& path)> file;
  /// What a file leaves to the training script by "auto": "fp32", "bf16", "fp16", "fp8"; empty: not said.
  std::string precision = {};
  /// Values that a launch script leaves open: variables and positional parameters ("1"), by name.
  std::map<std::string, std::string> variables = {};
  /// Files that a launch script sources, name and text.
  std::vector<std::pair<std::string, std::string>> with = {};
  std::int64_t nodes = 0, devices_per_node = 0;  ///< of the cluster; 0: not known
  /// The model given with the file; unknown: it may yet be given to job_of().
  enum class ModelState : std::uint8_t { unknown, absent, given } model_state = ModelState::unknown;
  std::int64_t model_layers = 0;                                       ///< of the model; 0: not known
  std::vector<std::pair<std::string, std::string>> model_fields = {};  ///< of its config.json, dotted
};

/// A job without model and cluster, and how it is run.
struct ImportedConfiguration {
  std::string name;          ///< of the file
  std::string engine;        ///< "megatron-core+bf16-gradients"
  std::string model;         ///< a config.json made of the flags; empty: they do not say the model
  std::string why_no_model;  ///< where `model` is empty
  /// Sizes that the file states whether or not a model is given: key of the file, value.
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  std::int64_t sequence_length = 0, global_batch = 0;
  std::string precision = "bf16", optimizer = "adam";
  /// Zeros are completed (espalier/configuration.h); etp 0: the tensor degree, where the model has experts.
  Strategy strategy;
  Schedule schedule;
  bool usual_overlap = false;        ///< what the engine overlaps unless told otherwise, as far as it can here
  std::int32_t recompute_every = 0;  ///< every so many blocks one is recomputed; 0: as strategy.recompute says
  std::vector<std::int32_t> blocks;  ///< of each chunk, in the order of the pipeline; empty: as the engine splits them
  /// torchtitan's split of the blocks, which needs their number; none: as `blocks` says.
  struct EndWeights {
    std::int64_t first, last;       ///< layers that the first and the last stage have less
    std::int64_t layers_per_stage;  ///< 0: as many stages as the schedule says
  };
  std::optional<EndWeights> end_weights = {};
  std::vector<ImportedKey> keys;
  std::vector<std::string> notes = {};  ///< what a user must be told whatever the answer is
};

struct ConfigurationFormat {
  std::string name;   ///< "megatron-args", "torchtitan", "deepspeed", "accelerate"
  std::string reads;  ///< for people
  /// bad_input: a key is wrong, contradicts another, or may change the plan and is not understood.
  Result<ImportedConfiguration> (*read)(const ConfigurationRequest& request) = nullptr;
};
const std::vector<ConfigurationFormat>& configuration_formats();
/// nullptr where there is none.
const ConfigurationFormat* find_configuration_format(std::string_view name);

/// What a configuration does not hold.
struct ConfigurationInputs {
  std::string model;                   ///< path of a config.json; empty: the configuration's own
  std::string cluster;                 ///< path of a cluster file
  std::vector<std::string> overrides;  ///< as of a job: "training.tokens=1e12"
};
/// Devices of the cluster, for ConfigurationRequest::devices.
Result<std::int64_t> devices_of(const ConfigurationInputs& inputs);
/// Facts about the cluster and the model of a request: devices, nodes, layers, fields of config.json.
Status take_inputs(const ConfigurationInputs& inputs, ConfigurationRequest& request);
/// The job of the configuration. bad_input: the model has other sizes than the file states, or there is none.
Result<Job> job_of(const ImportedConfiguration& configuration, const ConfigurationInputs& inputs);
/// The configuration's own strategy, with what the engine overlaps unless told otherwise.
Strategy asked_strategy(const Job& job, const ImportedConfiguration& configuration);
/// Strategy and schedule with all that follows from the job filled in, legal or not.
std::pair<Strategy, Schedule> completed_configuration(const Job& job, const ImportedConfiguration& configuration);
/// The plan that the configuration runs. check_failed: it breaks rules of the space or of the engine, all of which are
/// named.
Result<Plan> plan_of(const Job& job, const ImportedConfiguration& configuration);

}  // namespace espalier
