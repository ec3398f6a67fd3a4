// SPDX-License-Identifier: Apache-2.0
// Holds data/framework_defaults.yaml: values that published runs leave out, by device, model and framework.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/era.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::job {

struct DeviceDefault {
  std::vector<std::string> match;
  double memory_gb = 0;       ///< nominal size that the record must state; 0: any
  bool pcie = false;          ///< needs the word PCIe in the record
  bool silent = false;        ///< also applies where the record states no size
  bool other_memory = false;  ///< the record's device has another memory than `device`: the fit is not compared
  std::string device, intra_bandwidth, source;
};

struct ArchitectureDefault {
  std::vector<std::string> match;
  std::string unsupported;  ///< why such a model cannot be described by a record; empty: it can
  /// It holds flags (and head_dim, where that is not hidden / heads). The sizes come from the record.
  DecoderShape shape;
  /// This is the model's published config.json, where dimensions alone do not describe it; empty where they do.
  std::string config;
  std::string source;
};

/// Holds facts about a source's cluster that its records do not state.
struct ClusterDefault {
  std::vector<std::string> sources;
  /// For networks, this names an entry of data/calibration/fabrics.yaml, fitted to their collectives. For hosts, it
  /// names one of data/devices.yaml.
  std::string name;
  std::string source;
};

struct FrameworkDefault {
  struct Value {
    std::string value, source;
  };
  /// Holds a recipe that the framework's authors publish for one model: its defaults come before the framework's own.
  /// It applies where each given list of words (for the model, the device, the table, the precision of the record) is
  /// mentioned, and since a release of the framework. Among recipes that apply, the newest at or below the record's
  /// release counts (base/era.h).
  struct Recipe {
    std::vector<std::string> model, gpu, table, precision;
    std::map<std::string, Value> defaults;
    base::Era era;
    std::vector<std::string> options;  ///< engine options of a record that does not state its own recipe
    bool states_options = false;       ///< even none
    std::string source;                ///< source of the options
  };
  /// Describes a state of the engine in all runs of some sources, where all of the bounds hold. 0 and -1 bound
  /// nothing.
  struct State {
    std::string option;  ///< option of the engine
    std::vector<std::string> sources;
    std::int64_t devices_from = 0, tp_from = 0, microbatches_from = 0, replicas_from = 0, zero = -1;
    std::int64_t tp_to = 0, stages_from = 0, stages_to = 0;
    std::string source;
  };
  std::vector<std::string> match, gpu;
  std::vector<State> states;
  /// Any of these must also occur in the framework, its precision or its compile flag.
  std::vector<std::string> with;
  std::string engine;
  std::map<std::string, Value> defaults;
  std::vector<Recipe> recipes;
  std::vector<std::string> unsupported_recompute;
  std::string unsupported_recompute_reason;
  /// Samples are packed in bins by their length: batches stated with `binned_from` tokens per sample have `binned_to`
  /// on average.
  std::int64_t binned_from = 0, binned_to = 0;
  std::string binned_source;
  /// Counts the tokens of a sequence, where several share a sample; 0 where that is unknown.
  std::int64_t packed_tokens = 0;
  std::string packed_source;
  /// For encoders trained on masked tokens, this is the share of the tokens that reach the head. 0 means all.
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
/// Returns the defaults that Espalier ships.
const RunDefaults& run_defaults();

/// Returns whether any of `words` occurs in `text`, letter case ignored.
bool mentions(std::string_view text, const std::vector<std::string>& words);

}  // namespace espalier::job
