// SPDX-License-Identifier: Apache-2.0
// data/framework_defaults.yaml as values: what a published run leaves unsaid, by device, model and framework.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::job {

struct DeviceDefault {
  std::vector<std::string> match;
  double memory_gb = 0;       ///< nominal size the record must state; 0: any
  bool pcie = false;          ///< needs the word PCIe in the record
  bool silent = false;        ///< holds also where the record states no size
  bool other_memory = false;  ///< the record's device has another memory than `device`: what fits is not compared
  std::string device, intra_bandwidth, source;
};

struct ArchitectureDefault {
  std::vector<std::string> match;
  std::string unsupported;  ///< why such a model cannot be described by a record; empty: it can
  DecoderShape shape;       ///< flags (and head_dim, where it is not hidden / heads); the sizes come from the record
  std::string config;       ///< the model's published config.json, where dimensions alone do not describe it; empty:
                            ///< they do
  std::string source;
};

/// What is known of the cluster of a source, whose records do not say it.
struct ClusterDefault {
  std::vector<std::string> sources;
  std::string name;  ///< of networks: an entry of data/calibration/fabrics.yaml, fitted to collectives of it; of hosts:
                     ///< one of
                     ///< data/devices.yaml
  std::string source;
};

struct FrameworkDefault {
  struct Value {
    std::string value, source;
  };
  /// A recipe that the framework's authors publish for one model: its defaults come before the framework's own. It
  /// holds where each list of words that it gives (of the model, the device, the table, the precision of the record) is
  /// mentioned.
  struct Recipe {
    std::vector<std::string> model, gpu, table, precision;
    std::map<std::string, Value> defaults;
    std::vector<std::string> options;  ///< of the engine, which a record that does not state its own recipe ran with
    std::string source;                ///< of the options
  };
  /// A state of the engine that all runs of some sources were in where all of the bounds hold; 0 and -1 bound nothing.
  struct State {
    std::string option;  ///< of the engine
    std::vector<std::string> sources;
    std::int64_t devices_from = 0, tp_from = 0, microbatches_from = 0, replicas_from = 0, zero = -1;
    std::int64_t tp_to = 0, stages_from = 0, stages_to = 0;
    std::string source;
  };
  std::vector<std::string> match, gpu;
  std::vector<State> states;
  std::vector<std::string> with;  ///< any of these must occur too: in the framework, its precision or its compile flag
  std::string engine;
  std::map<std::string, Value> defaults;
  std::vector<Recipe> recipes;
  std::vector<std::string> unsupported_recompute;
  std::string unsupported_recompute_reason;
  /// Samples are packed in bins of their length: batches stated with `binned_from` tokens a sample have `binned_to` in
  /// the mean.
  std::int64_t binned_from = 0, binned_to = 0;
  std::string binned_source;
  /// Tokens of a sequence, where several share a sample. 0: not known.
  std::int64_t packed_tokens = 0;
  std::string packed_source;
  /// Of encoders trained on masked tokens: share of the tokens that reach the head. 0: all.
  double masked_share = 0;
  std::string masked_source;
  Overlap overlap;
  std::string overlap_source;
  std::string memory_rank, memory_kind, memory_source;
  double memory_unit_bytes = 0;
};

struct RunDefaults {
  std::vector<DeviceDefault> devices;
  std::vector<ClusterDefault> networks;
  std::vector<ClusterDefault> hosts;
  std::vector<ArchitectureDefault> architectures;
  std::vector<FrameworkDefault> frameworks;
};

Result<RunDefaults> read_run_defaults(std::string_view yaml, const std::string& where);
/// The ones that ship with Espalier.
const RunDefaults& run_defaults();

/// Whether any of `words` occurs in `text`, letter case ignored.
bool mentions(std::string_view text, const std::vector<std::string>& words);

}  // namespace espalier::job
