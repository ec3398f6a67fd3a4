// SPDX-License-Identifier: Apache-2.0
// How map_run (runs/mapping.h) goes through a record: framework, cluster, model, then the configuration. Each part has
// a file of its own (mapping.cpp, map_cluster.cpp, map_model.cpp, map_strategy.cpp); this header is for them alone.
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
  /// The framework's default for `field`, noted; nullptr when there is none.
  const job::FrameworkDefault::Value* framework_default(const char* field);
  static std::int64_t parse_count(const std::string& s);
  /// The record's count, or the framework's, or a skip.
  std::int64_t count(const std::optional<std::int64_t>& value, const char* field);
  std::int32_t degree(const std::optional<std::int64_t>& value, const char* field);
  /// CP, EP: a record that does not name the technique does not use it.
  std::int32_t unused_degree(const std::optional<std::int64_t>& value, const char* field);
  void check_status();
  void choose_framework();
  /// Which rank's peak was measured, how and in what unit: the record's words, else the framework's habit.
  void choose_memory();
  void switch_options_on();
  /// Megatron-LM whose attention keeps its scores: by flag, or where determinism rules fused kernels out. Says whether.
  bool choose_attention();
  void map_state();
  [[nodiscard]] bool holds(const job::FrameworkDefault::State& state) const;
  /// Bytes of states, and activations in host memory, that the record or its recipe state.
  void map_memory();
  /// A peak that may be anything is not compared; the step time is.
  void unknown_memory(const char* what, const std::string& words);
  const job::DeviceDefault* choose_device() { return choose_device(r_.gpu.type, r_.gpu.mem_gb); }
  const job::DeviceDefault* choose_device(const std::string& type, const std::optional<double>& memory_gb);
  /// Devices of a node: the record's, or of the device's usual node.
  std::int64_t devices_per_node(const job::DeviceDefault& device);
  void map_cluster();
  /// Where the record states its nodes and their network as figures (map_mixed.cpp).
  void map_mixed_cluster();
  /// A kind of device as records of mixed runs write it: "V100-16GB".
  const job::DeviceDefault* choose_kind(const std::string& kind);
  /// One group of the cluster file; `one`: it is the whole cluster.
  void write_group(base::JsonWriter& w, const RunDeviceGroup& group, const std::string& site);
  void write_rates(base::JsonWriter& w, double gbits, double delay_ms);
  void write_groups(base::JsonWriter& w);
  /// Reads the case of the matrix file, if the record names one.
  void read_case();
  /// Groups of the regions of the case, and links between them.
  void write_regions(base::JsonWriter& w);
  /// What of a mixed run differs from the uniform plan (map_placement.cpp).
  void place_run();
  void place_ranks(Plan& plan);
  void place_layers(Plan& plan);
  /// A card on PCIe is another device than the module of that name on NVLink, where the catalogue has the module alone.
  void check_links();
  void write_network(base::JsonWriter& w, std::int64_t per_node);
  /// That of the source's cluster, where collectives of it were published.
  bool write_measured_network(base::JsonWriter& w);
  void write_host(base::JsonWriter& w);
  std::int64_t device_count();
  void map_model();
  /// A model whose dimensions do not describe it: its published configuration, if the record does not contradict it.
  void load_published(const job::ArchitectureDefault& architecture);
  /// `model: {config: FILE}`.
  void map_config();
  void take_model(Result<Model> model, const char* contradiction);
  /// A name that says nothing, or none: the sizes decide between the two kinds of decoders that are trained.
  void map_sizes();
  void fill_sizes(DecoderShape& s);
  /// With a stated parameter count, tied or separate embeddings are what comes closer to it.
  void build_model(DecoderShape s);
  void map_training();
  /// Sequences that share samples attend to themselves.
  void map_packed();
  /// The head of an encoder that is trained on masked tokens sees those alone.
  void map_masked_tokens();
  void map_degrees();
  void map_sequence_parallel();
  void map_experts();
  /// A dispatcher that exists only between expert-parallel ranks says more than an ep of 1: the recipe's degree.
  void split_experts_that_fit();
  std::int32_t expert_degree();
  /// Chunks a stage: the record's, or the recipe's ("blocks": one block a chunk) where the micro-batches allow it.
  std::int64_t chunks_per_stage();
  void map_schedule();
  void map_zero();
  /// Recomputation chosen operator by operator: as many blocks of every chunk as the share of its operators comes to.
  void recompute_share(double share);
  void map_recompute();
  /// "every 2nd block", "1/2 of the blocks" -> 2.
  static std::optional<RecomputeModules> named_modules(const std::string& kind);
  [[nodiscard]] bool attention_alone() const;
  static std::optional<std::int64_t> every_nth(const std::string& kind);
  void map_overlap();
  /// A copy of the engine's model that is the run's own.
  EngineModel& own_engine();
  /// Tensor groups between nodes (map_bytes.cpp).
  void map_tensor_groups();
  /// Of master copies in host memory (map_bytes.cpp).
  void map_update_in_host_memory();
  /// ZeRO 3 that was measured to be faster than its network can carry what it moves is skipped by name.
  void check_bytes_of_zero3();
  void finish();
  /// The record's id, safe inside a JSON string.
  [[nodiscard]] std::string content_name() const;

  const RunRecord& r_;
  const job::RunDefaults& all_;
  std::optional<MegatronArguments> arguments_;
  std::optional<NetworkCase> case_;  ///< of the matrix file
  const job::FrameworkDefault* framework_ = nullptr;
  MappedRun run_;
  std::optional<RunSkip> skip_;
};

}  // namespace espalier::runs
