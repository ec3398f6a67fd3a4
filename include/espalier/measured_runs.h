// SPDX-License-Identifier: Apache-2.0
// Measured training runs, as `validate` and `calibrate` read them: one JSON object a line (docs/file-formats.md,
// "Measured runs").
//
// The format is shared with others: unknown keys are ignored and any field may be null. Known fields must have their
// type: a number may be written as text ("8") and a flag as 0 or 1, but a word where a number belongs makes its line
// unreadable. Numbers that one configuration cannot have (a list per stage) set `irregular`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier {

/// What was trained, as far as the record says.
struct RunModel {
  std::string name;
  std::optional<std::int64_t> layers, hidden, ffn, heads, kv_heads, vocab, experts, topk, head_dim;
  std::optional<double> params;
  std::string config;  ///< a config.json that describes the model, relative to the folder of the runs file; its path
};

/// Where it was trained. `count` are all devices, `per_node` those of one machine; memory is in GB as the source writes
/// it.
struct RunDevices {
  std::string type;
  std::optional<double> mem_gb;
  std::optional<std::int64_t> count, per_node;
};

/// What was measured: seconds of one optimizer step, tokens a second and device, the peak of memory.
struct RunMeasurement {
  std::optional<double> iteration_s, tokens_per_s_per_gpu, peak_mem_gb;
  std::optional<std::int64_t> peak_mem_bytes;  ///< exact, where the source has it (extra.peak_mem_bytes)
  std::string memory_rank;                     ///< "fullest", "first", "last" or empty
  std::string memory_kind;  ///< how the peak was taken, in words (memory_kind, extra.mem_kind, extra.peak_mem_kind)
  std::string memory_unit;  ///< "GB", "GiB" or empty (extra.mem_unit)
};

/// What was done beside the degrees: the names of `techniques`. Where a published record has no such list,
/// src/runs/remarks.h says what its text and its `extra` are read for.
struct RunTechniques {
  bool lora = false;     ///< adapters alone are trained
  bool compile = false;  ///< torch.compile
  bool hsdp = false;     ///< sharded inside a node, replicated across nodes
  bool deepep = false;   ///< a dispatcher of tokens that exists only between expert-parallel ranks
  bool offload = false;  ///< activations or states are kept in host memory
  bool packed = false;   ///< several short samples in one sequence, each attending to itself
  std::vector<std::string>
      options;          ///< options of the engine (data/engines.yaml) that the record says are on; those that it lacks
                        ///< are left
                        ///< out
  std::string unknown;  ///< the first name of the list that is none of these
};

/// Devices of one kind, of a run on unequal nodes: `nodes` of `per_node` devices; `count` where the nodes are not
/// stated.
struct RunDeviceGroup {
  std::string kind, where;
  std::optional<std::int64_t> nodes, per_node, count;
};

/// The network of a run as rates: of one node, one direction. A matrix is a file beside the runs file that holds the
/// rates between places; `place` is the record's case in it, counted from 0.
struct RunNetwork {
  std::optional<double> inter_gbps, intra_gbps, delay_ms;
  std::string matrix;  ///< its path; empty: none
  std::optional<std::int64_t> matrix_case;
  bool given = false;  ///< the record has a network, whether or not its rates could be read
  [[nodiscard]] bool stated() const { return inter_gbps || !matrix.empty(); }
};

/// What one replica of a stage took for a micro-batch.
struct RunReplica {
  std::optional<double> forward_s, backward_s;
  std::optional<std::int64_t> tp = std::nullopt;  ///< its own tensor degree
};

/// A stage: which layers it holds (a range of the framework's own list, end exclusive), and its replicas where they
/// were measured.
struct RunStage {
  std::vector<std::int64_t> layer_range;
  std::optional<std::int64_t> layers;
  std::vector<RunReplica> replicas;
};

/// What a record of a run on unequal devices or links holds beside the usual fields.
struct RunMixture {
  std::vector<RunDeviceGroup> groups;
  RunNetwork network;
  std::vector<RunStage> stages;
  std::string placement;                     ///< in words: "default", "scheduled", "random, seeded"
  std::optional<std::int64_t> seed;          ///< of a random placement
  std::optional<std::int64_t> microbatches;  ///< of each replica (extra.microbatches_per_replica)
  double update_s = 0;                       ///< the update and the clipping of gradients (extra.mean_other_ops_s)
  std::string exchange;                      ///< how replicas exchange gradients, in words (extra.dp_mode)
  /// Whether every replica of every stage has measured durations.
  [[nodiscard]] bool measured_durations() const;
};

/// One record. What it does not hold is empty.
struct RunRecord {
  std::int64_t line = 0;
  std::string id, source, table;
  RunModel model;
  std::optional<std::int64_t> seq;
  RunDevices gpu;
  std::string intra, inter;  ///< interconnect in words
  std::optional<std::int64_t> tp, pp, dp, cp, ep, etp, vpp, zero_stage, microbatch, global_batch;
  std::optional<std::int64_t> shard;  ///< ranks of the ZeRO shard group (extra.zero1_size, extra.fsdp_size), when
                                      ///< positive
  std::optional<bool> sp, fsdp;
  std::string sp_kind;  ///< sp as a word: "megatron", "ulysses"
  std::string recompute, precision, schedule, framework, status, tokenizer;
  RunTechniques techniques;
  bool recipe_stated = false;  ///< extra.recipe: the record says itself which options of its engine were on
  std::optional<std::int64_t>
      offloaded_blocks;  ///< whose activations wait in host memory (extra.recipe.cpu_offloading_num_layers)
  /// Share of the operators that are computed again, when not all or none (extra.recompute_op_fraction).
  std::optional<double> recomputed_share;
  RunMeasurement measured;
  RunMixture mixture;
  std::map<std::string, std::string> arguments;  ///< extra.args: the framework's own command line, flags as "true"
  std::string irregular;                         ///< a field that holds one value per stage or several sequences
};

/// A JSONL text as read. A line that is no record costs that line only: what is wrong with it stands in `unreadable`,
/// with its place.
struct RunFile {
  std::vector<RunRecord> records;
  std::vector<Error> unreadable;
};

/// Blank lines are skipped. An error only for a text that is too long to be judged line by line.
Result<RunFile> read_run_records(std::string_view jsonl, const std::string& where);
/// An error also for a file without any line.
Result<RunFile> read_run_records_file(const std::string& path);
/// All records of a text that must be whole: its first unreadable line is the error.
Result<std::vector<RunRecord>> read_all_run_records(std::string_view jsonl, const std::string& where);

}  // namespace espalier
