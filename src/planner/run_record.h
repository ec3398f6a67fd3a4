// SPDX-License-Identifier: Apache-2.0
// One measured training run, as `validate` reads it: a JSON object a line (docs/file-formats.md, "Measured runs").
//
// The format is shared with others: unknown keys are ignored and any field may be null. Known fields must have their type: a
// number may be written as text ("8") and a flag as 0 or 1, but a word where a number belongs is an error with its line. Numbers
// that one configuration cannot have (a list per stage) set `irregular`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier {

struct RunModel {
  std::string name;
  std::optional<std::int64_t> layers, hidden, ffn, heads, kv_heads, vocab, experts, topk, head_dim;
  std::optional<double> params;
};

struct RunDevices {
  std::string type;
  std::optional<double> mem_gb;
  std::optional<std::int64_t> count, per_node;
};

struct RunMeasurement {
  std::optional<double> iteration_s, tokens_per_s_per_gpu, peak_mem_gb;
  std::optional<std::int64_t> peak_mem_bytes;  ///< exact, where the source has it (extra.peak_mem_bytes)
  std::string memory_rank;                     ///< "fullest", "first", "last" or empty
};

struct RunRecord {
  std::int64_t line = 0;
  std::string id, source;
  RunModel model;
  std::optional<std::int64_t> seq;
  RunDevices gpu;
  std::string intra, inter;  ///< interconnect in words
  std::optional<std::int64_t> tp, pp, dp, cp, ep, etp, vpp, zero_stage, microbatch, global_batch;
  std::optional<std::int64_t> shard;  ///< ranks of the ZeRO shard group (extra.zero1_size, extra.fsdp_size), when positive
  std::optional<bool> sp, fsdp;
  std::string sp_kind;  ///< sp as a word: "megatron", "ulysses"
  std::string recompute, precision, schedule, framework, status, tokenizer;
  std::string table, notes;      ///< heading and remarks of the source, read for what is trained (LoRA)
  std::optional<bool> compiled;  ///< extra.compile, extra.torch_compile
  std::optional<double>
      recomputed_share;  ///< extra.recompute_op_fraction: operators that are computed again, when not all or none
  RunMeasurement measured;
  std::map<std::string, std::string> arguments;  ///< extra.args: the framework's own command line, flags as "true"
  std::string irregular;                         ///< a field that holds one value per stage or several sequences
};

/// All records of a JSONL text. Blank lines are skipped. The first malformed line ends the reading with its position.
Result<std::vector<RunRecord>> read_run_records(std::string_view jsonl, const std::string& where);
Result<std::vector<RunRecord>> read_run_records_file(const std::string& path);

}  // namespace espalier
