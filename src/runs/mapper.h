// SPDX-License-Identifier: Apache-2.0
// Implements map_run (runs/mapping.h), which goes through a record: framework, cluster, model, then the
// configuration. Each part has its own file (mapping.cpp, map_cluster.cpp, map_model.cpp, map_strategy.cpp); only
// these include this header.
#pragma once

#include <optional>
#include <string>

#include "base/document.h"
#include "espalier/measured_runs.h"
#include "job/framework_defaults.h"
#include "runs/arguments.h"
#include "runs/mapping.h"
#include "runs/network_cases.h"

namespace espalier::runs {

/// Builds one run; the first reason to skip it wins.
class Mapper {
 public:
  Mapper(const RunRecord& record, const job::RunDefaults& defaults)
      : r_(record), all_(defaults), arguments_(megatron_arguments(record)) {}

  RunMapping map();

 private:
  void skip(std::string reason, std::string detail = "");
  void used(const char* field, std::string value, std::string source);
  /// Returns the framework's default for `field`, and notes it; nullptr where there is none.
  const job::FrameworkDefault::Value* framework_default(const char* field);
  static std::int64_t parse_count(const std::string& s);
  /// Returns the record's count, or the framework's; without either, it skips the record.
  std::int64_t count(const std::optional<std::int64_t>& value, const char* field);
  std::int32_t degree(const std::optional<std::int64_t>& value, const char* field);
  /// Returns CP or EP, where a record that does not name the technique does not use it.
  std::int32_t unused_degree(const std::optional<std::int64_t>& value, const char* field);
  void check_status();
  void choose_framework();
  /// Chooses which rank's peak was measured, how, and in what unit, from the record's words, else from the
  /// framework's habit.
  void choose_memory();
  void switch_options_on();
  /// Chooses Megatron-LM whose attention keeps its scores: by flag, or where determinism excludes fused kernels.
  /// Returns whether it did.
  bool choose_attention();
  void map_state();
  [[nodiscard]] bool holds(const job::FrameworkDefault::State& state) const;
  /// Sets bytes of states, and activations in host memory, that the record or its recipe states.
  void map_memory();
  /// Marks a peak of unknown kind, which is not compared; the step time is.
  void unknown_memory(const char* what, const std::string& words);
  const job::DeviceDefault* choose_device() { return choose_device(r_.gpu.type, r_.gpu.mem_gb); }
  const job::DeviceDefault* choose_device(const std::string& type, const std::optional<double>& memory_gb);
  /// Returns the devices of a node: the record's, or those of the device's usual node.
  std::int64_t devices_per_node(const job::DeviceDefault& device);
  void map_cluster();
  /// Maps the cluster where the record states its nodes and their network as figures (map_mixed.cpp).
  void map_mixed_cluster();
  /// Chooses the device for a kind as records of mixed runs write it: "V100-16GB".
  const job::DeviceDefault* choose_kind(const std::string& kind);
  /// Writes one group of the cluster file.
  void write_group(base::JsonWriter& w, const RunDeviceGroup& group, const std::string& site);
  void write_rates(base::JsonWriter& w, double gbits, double delay_ms);
  void write_groups(base::JsonWriter& w);
  /// Reads the case of the matrix file, if the record names one.
  void read_case();
  /// Writes groups of the regions of the case, and links between them.
  void write_regions(base::JsonWriter& w);
  /// Applies the differences between a mixed run and the uniform plan (map_placement.cpp).
  void place_run();
  void place_ranks(Plan& plan);
  void place_layers(Plan& plan);
  /// Rejects a card on PCIe where the catalogue only has the module of that name on NVLink, which is a different
  /// device.
  void check_links();
  void write_network(base::JsonWriter& w, std::int64_t per_node);
  /// Writes the network of the source's cluster, where measurements of its collectives were published.
  bool write_measured_network(base::JsonWriter& w);
  void write_host(base::JsonWriter& w);
  std::int64_t device_count();
  void map_model();
  /// Loads a published configuration for a model that dimensions do not describe, if the record does not contradict
  /// it.
  void load_published(const job::ArchitectureDefault& architecture);
  /// Maps `model: {config: FILE}`.
  void map_config();
  void take_model(Result<Model> model, const char* contradiction);
  /// Maps a model with a missing or unknown name. The sizes decide between the two usual kinds of decoders.
  void map_sizes();
  void fill_sizes(DecoderShape& s);
  /// Builds the model. With a stated parameter count, embeddings are tied or separate, whichever comes closer to it.
  void build_model(DecoderShape s);
  void map_training();
  void map_adapters();
  /// Maps the words about the trained weights; without words, the framework's default.
  void map_precision(std::string precision);
  /// Maps sequences that share samples, where each attends to itself.
  void map_packed();
  /// Maps encoders trained on masked tokens, whose head sees only those.
  void map_masked_tokens();
  void map_degrees();
  void map_sequence_parallel();
  void map_experts();
  /// The function split_experts_that_fit() switches off expert tensor parallelism where ep · etp does not divide the
  /// devices of a stage. The function expert_degree() returns the recipe's degree where the record has ep 1 but names
  /// a dispatcher that exists only between expert-parallel ranks.
  void split_experts_that_fit();
  std::int32_t expert_degree();
  /// Returns the chunks per stage: the record's, or the recipe's ("blocks": one block per chunk) where the
  /// micro-batches allow it.
  std::int64_t chunks_per_stage();
  void map_schedule();
  void map_zero();
  /// Maps recomputation chosen operator by operator to a number of blocks per chunk with the same share.
  void recompute_share(double share);
  void map_recompute();
  /// The function named_modules() returns the modules in "selective:layernorm,moe_act". The function every_nth()
  /// returns 2 for "every 2nd block" and "1/2 of the blocks".
  static std::optional<RecomputeModules> named_modules(const std::string& kind);
  [[nodiscard]] bool attention_alone() const;
  static std::optional<std::int64_t> every_nth(const std::string& kind);
  void map_overlap();
  /// Returns a copy of the engine's model that belongs to the run.
  EngineModel& own_engine();
  /// Maps tensor groups between nodes (map_bytes.cpp).
  void map_tensor_groups();
  /// Maps master copies in host memory (map_bytes.cpp).
  void map_update_in_host_memory();
  /// Skips, by name, ZeRO 3 runs that were measured to be faster than their network can carry.
  void check_bytes_of_zero3();
  void finish();
  /// Returns the record's id, safe inside a JSON string.
  [[nodiscard]] std::string content_name() const;

  const RunRecord& r_;
  const job::RunDefaults& all_;
  std::optional<MegatronArguments> arguments_;
  std::optional<NetworkCase> case_;  ///< case of the matrix file
  const job::FrameworkDefault* framework_ = nullptr;
  MappedRun run_;
  std::optional<RunSkip> skip_;
};

}  // namespace espalier::runs
