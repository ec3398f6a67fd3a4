// SPDX-License-Identifier: Apache-2.0
// Reads an existing configuration of a training framework, and reports what each key means for the plan.
//
//   const auto* format = espalier::exchange::find_configuration_format("megatron-args");
//   auto configuration = format->read({"launch.sh", text, 64});   // for 64 devices
//   auto job = espalier::exchange::job_of(*configuration, {"", "cluster.yaml", {}});   // the model is in the flags
//   auto plan = espalier::exchange::plan_of(*job, *configuration);   // for simulate() and improve().
//
// Nothing is guessed silently. Every key is listed as read, defaulted, known and not modelled, without effect, or not
// understood. If a key is not understood and may change the plan, the file is rejected and the error names the key
// (ConfigurationRequest::ignored removes it).
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

namespace espalier::exchange {

/// Describes how an import interpreted one key.
struct ImportedKey {
  enum class Kind : std::uint8_t {
    read,            ///< it sets a part of the job or the plan
    defaulted,       ///< absent; the framework's default applies
    without_effect,  ///< known to change neither time nor memory of a step, or switched off
    not_understood,  ///< unknown to Espalier
    not_modelled,    ///< known to change time or memory in a way that is not predicted
  };
  Kind kind = Kind::read;
  std::string key, value;
  std::string meaning;       ///< "tp 8"; for keys that are not read: why
  std::int64_t line = 0;     ///< line in the file; 0: not in it
  std::string written = {};  ///< spelling in the file, "--tensor-model-parallel-size"; empty: as `key`
};
std::string_view to_string(
    ImportedKey::Kind kind);  ///< "read", "defaulted", "without effect", "not understood", "known, not modelled"

/// Holds the file to read, and facts that the file may not state.
struct ConfigurationRequest {
  std::string name, text;            ///< name in messages, and contents
  std::int64_t devices = 1;          ///< devices of the cluster that runs the configuration
  std::vector<std::string> ignored;  ///< keys to remove before the file is read
  // Some formats leave these values to the training script; none and empty: not stated. A file that
  // states another value is an error.
  std::optional<std::int64_t> sequence_length, global_batch, micro_batch;
  std::string recompute;  ///< "none", "selective", "full", or modules of a block: "layernorm,act"
  /// Returns the text of a file that this one names; null when no such file can be read.
  std::function<Result<std::string>(const std::string& path)> file;
  /// Gives the precision that a file leaves to the training script by "auto"; none: not stated.
  std::optional<Precision> precision = {};
  /// Maps the variables and positional parameters ("1") that a launch script leaves open to their values.
  std::map<std::string, std::string> variables = {};
  /// Holds the files that a launch script sources, by name and text.
  std::vector<std::pair<std::string, std::string>> with = {};
  /// Holds the nodes of the cluster, and the devices of a node; none: unknown.
  std::optional<std::int64_t> nodes = {}, devices_per_node = {};
  /// Records whether a model accompanies the file. With `unknown`, job_of() may still receive one.
  enum class ModelState : std::uint8_t { unknown, absent, given } model_state = ModelState::unknown;
  std::optional<std::int64_t> model_layers = {};                       ///< layers of the model; none: unknown
  std::vector<std::pair<std::string, std::string>> model_fields = {};  ///< dotted fields of the model's config.json
};

/// Holds a job without model and cluster, and its configuration.
struct ImportedConfiguration {
  std::string name;          ///< name of the file
  std::string engine;        ///< "megatron-core+bf16-gradients"
  std::string model;         ///< a config.json built from the flags; empty: they do not describe the model
  std::string why_no_model;  ///< why `model` is empty
  /// Lists the sizes that the file states whether or not a model is given: key in the file, and value.
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  std::int64_t sequence_length = 0, global_batch = 0;
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adam;
  /// Zeros are filled in later (espalier/configuration.h). Where the model has experts, etp 0 is the tensor degree.
  Strategy strategy;
  Schedule schedule;
  bool usual_overlap = false;                   ///< adds the engine's default overlap, as far as it applies here
  std::optional<std::int32_t> recompute_every;  ///< every n-th block is recomputed; none: as in strategy.recompute
  std::vector<std::int32_t> blocks;             ///< blocks by chunk, in pipeline order; empty: the engine's own split
  /// Describes torchtitan's split of the blocks, which depends on their number. None: as in `blocks`.
  struct EndWeights {
    std::int64_t first, last;                      ///< layers by which the first and the last stage are smaller
    std::optional<std::int64_t> layers_per_stage;  ///< none: the schedule determines the number of stages
  };
  std::optional<EndWeights> end_weights = {};
  std::vector<ImportedKey> keys;
  std::vector<std::string> notes = {};  ///< facts that a user must see with every answer
};

/// Describes a format of configurations.
struct ConfigurationFormat {
  std::string name;   ///< "megatron-args", "torchtitan", "deepspeed", "accelerate"
  std::string reads;  ///< shown to users
  /// Fails with bad_input when a key is wrong, contradicts another one, or is not understood and may change the plan.
  Result<ImportedConfiguration> (*read)(const ConfigurationRequest& request) = nullptr;
};
const std::vector<ConfigurationFormat>& configuration_formats();
/// Returns the format of this name, or null.
const ConfigurationFormat* find_configuration_format(std::string_view name);

/// Holds the inputs that a configuration lacks.
struct ConfigurationInputs {
  std::string model;                   ///< path of a config.json; empty: the configuration's own
  std::string cluster;                 ///< path of a cluster file
  std::vector<std::string> overrides;  ///< as for a job: "training.tokens=1e12"
};
/// Returns the number of devices of the cluster, for ConfigurationRequest::devices.
Result<std::int64_t> devices_of(const ConfigurationInputs& inputs);
/// Copies facts about the cluster and the model into a request: devices, nodes, layers, fields of config.json.
Status take_inputs(const ConfigurationInputs& inputs, ConfigurationRequest& request);
/// Returns the job of the configuration. Fails with bad_input when the model has other sizes than
/// the file states, or is missing.
Result<Job> job_of(const ImportedConfiguration& configuration, const ConfigurationInputs& inputs);
/// Returns the configuration's own strategy, including the engine's default overlap.
Strategy asked_strategy(const Job& job, const ImportedConfiguration& configuration);
/// Returns strategy and schedule with all fields filled in that follow from the job, legal or not.
std::pair<Strategy, Schedule> completed_configuration(const Job& job, const ImportedConfiguration& configuration);
/// Returns the plan that the configuration runs. Fails with check_failed, naming every rule of the space or
/// of the engine that it breaks.
Result<Plan> plan_of(const Job& job, const ImportedConfiguration& configuration);

}  // namespace espalier::exchange
