// SPDX-License-Identifier: Apache-2.0
// Measured training runs, as `validate` and `calibrate` read them: one JSON object per line
// (docs/file-formats.md, "Measured runs").
//
// The format is shared with other tools: unknown keys are ignored and any field may be null. Known fields must have
// their type. A number may be written as text ("8") and a flag as 0 or 1, but a word in place of a number makes its
// line unreadable. Numbers that one configuration cannot have (a list per stage) set `irregular`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier {

/// Describes the trained model, as far as the record states it.
struct RunModel {
  std::string name;
  std::optional<std::int64_t> layers, hidden, ffn, heads, kv_heads, vocab, experts, topk, head_dim;
  std::optional<double> params;
  std::string config;  ///< path of a config.json for the model, relative to the folder of the runs file
};

/// Describes the devices. `count` is the number of all devices, `per_node` that of one machine. Memory is in GB, as
/// written in the source.
struct RunDevices {
  std::string type;
  std::optional<double> mem_gb;
  std::optional<std::int64_t> count, per_node;
};

/// Holds the measurements: seconds of one optimizer step, tokens per second and device, and peak memory.
struct RunMeasurement {
  std::optional<double> iteration_s, tokens_per_s_per_gpu, peak_mem_gb;
  std::optional<std::int64_t> peak_mem_bytes;  ///< exact, if the source has it (extra.peak_mem_bytes)
  std::string memory_rank;                     ///< "fullest", "first", "last" or empty
  std::string memory_kind;  ///< how the peak was taken, in words (memory_kind, extra.mem_kind, extra.peak_mem_kind)
  std::string memory_unit;  ///< "GB", "GiB" or empty (extra.mem_unit)
};

/// Lists the techniques apart from the degrees, by the names of `techniques`.
struct RunTechniques {
  bool lora = false;     ///< only adapters are trained
  bool compile = false;  ///< torch.compile
  bool hsdp = false;     ///< sharded inside a node, replicated across nodes
  bool deepep = false;   ///< a token dispatcher that exists only between expert-parallel ranks
  bool offload = false;  ///< activations or states are kept in host memory
  bool packed = false;   ///< several short samples in one sequence, each attending only to itself
  /// Lists the options of the engine (data/engines.yaml) that are on according to the record, without options that
  /// the engine lacks.
  std::vector<std::string> options;
  std::string unknown;  ///< the first name in the list that is not one of these
};

/// Describes the adapters of a run that trains nothing else (`adapter`).
struct RunAdapter {
  std::optional<std::int64_t> rank;
  std::vector<std::string> targets;
  std::string source;  ///< where rank and targets are from, if the publication does not state them
};

/// Describes devices of one kind in a run on unequal nodes: `nodes` of `per_node` devices, or `count` if the nodes
/// are not stated.
struct RunDeviceGroup {
  std::string kind, where;
  std::optional<std::int64_t> nodes, per_node, count;
};

/// Describes the network of a run by its rates, for one node and one direction. A matrix is a file next to the runs
/// file that holds the rates between places; `matrix_case` is the record's case in it, counted from 0.
struct RunNetwork {
  std::optional<double> inter_gbps, intra_gbps, delay_ms;
  std::string matrix;  ///< path of the matrix; empty: none
  std::optional<std::int64_t> matrix_case;
  bool given = false;  ///< the record has a network, whether or not its rates could be read
  [[nodiscard]] bool stated() const { return inter_gbps || !matrix.empty(); }
};

/// Holds the times of one replica of a stage for a micro-batch.
struct RunReplica {
  std::optional<double> forward_s, backward_s;
  std::optional<std::int64_t> tp = std::nullopt;  ///< its own tensor degree
};

/// Describes a stage: its layers (a range of the framework's own list, end exclusive), and its replicas if they were
/// measured.
struct RunStage {
  std::vector<std::int64_t> layer_range;
  std::optional<std::int64_t> layers;
  std::vector<RunReplica> replicas;
};

/// Holds the additional fields of a run on unequal devices or links.
struct RunMixture {
  std::vector<RunDeviceGroup> groups;
  RunNetwork network;
  std::vector<RunStage> stages;
  std::string placement;                     ///< in words: "default", "scheduled", "random, seeded"
  std::optional<std::int64_t> seed;          ///< seed of a random placement
  std::optional<std::int64_t> microbatches;  ///< micro-batches of each replica (extra.microbatches_per_replica)
  double update_s = 0;                       ///< update and gradient clipping (extra.mean_other_ops_s)
  std::string exchange;                      ///< how replicas exchange gradients, in words (extra.dp_mode)
  /// Returns whether every replica of every stage has measured durations.
  [[nodiscard]] bool measured_durations() const;
};

/// Holds one record. Fields that it lacks are empty.
struct RunRecord {
  std::int64_t line = 0;
  std::string id, source, table;
  RunModel model;
  std::optional<std::int64_t> seq;
  RunDevices gpu;
  std::string intra, inter;  ///< interconnect in words
  std::optional<std::int64_t> tp, pp, dp, cp, ep, etp, vpp, zero_stage, microbatch, global_batch;
  std::optional<std::int64_t> shard;  ///< ZeRO shard group, if positive (extra.zero1_size, extra.fsdp_size)
  std::optional<bool> sp, fsdp;
  std::string sp_kind;  ///< sp as a word: "megatron", "ulysses"
  std::string recompute, precision, schedule, framework, status, tokenizer;
  RunTechniques techniques;
  RunAdapter adapter;
  std::string release;         ///< release of the framework, as its version
  bool recipe_stated = false;  ///< extra.recipe: the record itself states which options of its engine were on
  /// Counts the blocks whose activations wait in host memory (extra.recipe.cpu_offloading_num_layers).
  std::optional<std::int64_t> offloaded_blocks;
  /// Holds the share of the operators that are recomputed, if it is neither all nor none
  /// (extra.recompute_op_fraction).
  std::optional<double> recomputed_share;
  RunMeasurement measured;
  RunMixture mixture;
  std::map<std::string, std::string> arguments;  ///< extra.args: the framework's own command line, flags as "true"
  std::string irregular;                         ///< a field that holds one value per stage or several sequences
};

/// Holds a JSONL text as read. A line that is not a record does not affect other lines: `unreadable` holds its error
/// and its place.
struct RunFile {
  std::vector<RunRecord> records;
  std::vector<Error> unreadable;
};

/// Reads the records and skips blank lines. Fails only for a text that is too long to read line by line.
Result<RunFile> read_run_records(std::string_view jsonl, const std::string& where);
/// Reads a file of records. Also fails for a file without any line.
Result<RunFile> read_run_records_file(const std::string& path);
/// Reads a text in which every line must be a record; fails with the first unreadable line.
Result<std::vector<RunRecord>> read_all_run_records(std::string_view jsonl, const std::string& where);

}  // namespace espalier
