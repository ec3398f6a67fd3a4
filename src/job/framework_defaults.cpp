// SPDX-License-Identifier: Apache-2.0
#include "job/framework_defaults.h"

#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "base/shipped.h"
#include "data/framework_defaults_yaml.h"

namespace espalier::job {
namespace {

std::vector<std::string> read_words(Reader& r, std::string_view key) {
  std::vector<std::string> out;
  const Node* node = r.find(key);
  if (!node || node->kind == NodeKind::null) return out;
  if (node->kind != NodeKind::sequence) r.fail(key, std::string(to_string(node->kind)), "a list of words");
  for (const Node& item : node->items) out.push_back(base::lower(item.text));
  return out;
}

DeviceDefault read_device(Reader& r) {
  DeviceDefault d;
  d.match = read_words(r, "match");
  d.memory_gb = r.optional_real("memory_gb", 0, 1e6, 0);
  d.pcie = r.optional_choice("bus", {"any", "pcie"}, 0) == 1;
  d.silent = r.optional_bool("silent", false);
  d.other_memory = r.optional_bool("other_memory", false);
  d.device = r.required_string("device");
  d.intra_bandwidth = r.optional_string("intra_bandwidth", "");
  d.source = r.required_string("source");
  r.finish();
  return d;
}

/// Reads an entry; `key` is the kind of thing that its name denotes.
ClusterDefault read_cluster_default(Reader& r, std::string_view key) {
  ClusterDefault d;
  d.sources = read_words(r, "sources");
  d.name = r.required_string(key);
  d.source = r.required_string("source");
  r.finish();
  return d;
}

ArchitectureDefault read_architecture(Reader& r) {
  ArchitectureDefault a;
  a.match = read_words(r, "match");
  a.unsupported = r.optional_string("unsupported", "");
  if (!a.unsupported.empty()) {
    r.finish();
    return a;
  }
  a.config = r.optional_string("config", "");
  a.shape.gated = r.optional_bool("gated", false);
  a.shape.rms_norm = r.optional_bool("rms_norm", false);
  a.shape.biases = r.optional_bool("biases", true);
  a.shape.tied = r.optional_bool("tied", true);
  const std::size_t positions = r.optional_choice("positions", {"learned", "rotary", "none"}, 0);
  a.shape.learned_positions = positions == 0;
  a.shape.rotary = positions == 1;
  a.shape.max_positions = r.optional_int("max_positions", 0, 1 << 30, 0);
  a.shape.head_dim = r.optional_int("head_dim", 0, 1 << 20, 0);
  a.shape.dropout = r.optional_bool("dropout", false);
  a.shape.encoder_only = r.optional_bool("encoder_only", false);
  a.source = r.required_string("source");
  r.finish();
  return a;
}

Overlap read_overlap(Reader& r) {
  Overlap o;
  for (const std::string& word : read_words(r, "overlap")) {
    if (word == "grad")
      o.grad_reduce = true;
    else if (word == "param")
      o.param_gather = true;
    else if (word == "p2p")
      o.p2p = true;
    else if (word == "tp")
      o.tp = true;
    else
      r.fail("overlap", word, "grad, param, p2p or tp");
  }
  return o;
}

void read_default_values(Reader r, std::map<std::string, FrameworkDefault::Value>& out) {
  for (const char* field :
       {"precision", "recompute", "zero_stage", "vocab", "per_node", "schedule", "sp", "tp", "pp", "etp", "seq", "microbatch",
        "vpp", "ep", "attention_if_deterministic", "offloaded_blocks", "optimizer_bytes", "master_bytes"}) {
    if (!r.has(field)) continue;
    Reader value = r.child(field, true);
    const Node* node = value.find("value");
    if (!node) value.fail("value", "nothing", "a value");
    out[field] = {node ? node->text : "", value.required_string("source")};
    value.finish();
  }
  r.finish();
}

FrameworkDefault read_framework(Reader& r) {
  FrameworkDefault f;
  f.match = read_words(r, "match");
  f.gpu = read_words(r, "gpu");
  f.with = read_words(r, "with");
  f.engine = r.required_string("engine");
  read_default_values(r.child("defaults", false), f.defaults);
  r.each("recipes", false, [&](Reader& recipe) {
    FrameworkDefault::Recipe out;
    out.model = read_words(recipe, "model");
    out.gpu = read_words(recipe, "gpu");
    out.table = read_words(recipe, "table");
    out.precision = read_words(recipe, "precision");
    read_default_values(recipe.child("defaults", false), out.defaults);
    out.era = base::read_era(recipe);
    out.states_options = recipe.has("options");
    out.options = read_words(recipe, "options");
    if (out.states_options) out.source = recipe.required_string("source");
    recipe.finish();
    f.recipes.push_back(std::move(out));
  });
  r.each("states", false, [&](Reader& state) {
    FrameworkDefault::State out;
    out.option = state.required_string("option");
    out.sources = read_words(state, "sources");
    out.devices_from = state.optional_int("devices_from", 0, 1 << 20, 0);
    out.tp_from = state.optional_int("tp_from", 0, 1 << 20, 0);
    out.microbatches_from = state.optional_int("microbatches_from", 0, 1 << 20, 0);
    out.replicas_from = state.optional_int("replicas_from", 0, 1 << 20, 0);
    out.tp_to = state.optional_int("tp_to", 0, 1 << 20, 0);
    out.stages_from = state.optional_int("stages_from", 0, 1 << 20, 0);
    out.stages_to = state.optional_int("stages_to", 0, 1 << 20, 0);
    out.zero = state.optional_int("zero", -1, 3, -1);
    out.source = state.required_string("source");
    state.finish();
    f.states.push_back(std::move(out));
  });
  f.unsupported_recompute = read_words(r, "unsupported_recompute");
  f.unsupported_recompute_reason = r.optional_string("unsupported_recompute_reason", "");
  if (r.has("binned")) {
    Reader binned = r.child("binned", true);
    f.binned_from = binned.required_int("from", 1, 1 << 20);
    f.binned_to = binned.required_int("mean", 1, 1 << 20);
    f.binned_source = binned.required_string("source");
    binned.finish();
  }
  if (r.has("packed")) {
    Reader packed = r.child("packed", true);
    f.packed_tokens = packed.required_int("tokens", 1, 1 << 20);
    f.packed_source = packed.required_string("source");
    packed.finish();
  }
  if (r.has("masked")) {
    Reader masked = r.child("masked", true);
    f.masked_share = masked.required_real("share", 0.001, 1);
    f.masked_source = masked.required_string("source");
    masked.finish();
  }
  f.overlap = read_overlap(r);
  f.overlap_source = r.required_string("overlap_source");
  Reader memory = r.child("memory", true);
  f.memory_rank = memory.required_string("rank");
  f.memory_kind = memory.required_string("kind");
  f.memory_unit_bytes = memory.required_string("unit") == "GiB" ? 1073741824.0 : 1e9;
  memory.finish();
  f.memory_source = r.required_string("memory_source");
  r.finish();
  return f;
}

}  // namespace

bool mentions(std::string_view text, const std::vector<std::string>& words) {
  const std::string low = base::lower(text);
  return std::any_of(words.begin(), words.end(), [&](const std::string& w) { return low.find(w) != std::string::npos; });
}

Result<RunDefaults> read_run_defaults(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader r = Reader::root(*document, sink);
  RunDefaults out;
  if (r.required_string("schema") != "espalier.framework-defaults/1")
    r.fail("schema", "another", "espalier.framework-defaults/1");
  r.each("devices", true, [&](Reader& d) { out.devices.push_back(read_device(d)); });
  r.each("networks", false, [&](Reader& n) { out.networks.push_back(read_cluster_default(n, "cluster")); });
  r.each("hosts", false, [&](Reader& h) { out.hosts.push_back(read_cluster_default(h, "host")); });
  r.each("architectures", true, [&](Reader& a) { out.architectures.push_back(read_architecture(a)); });
  r.each("frameworks", true, [&](Reader& f) { out.frameworks.push_back(read_framework(f)); });
  r.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

const RunDefaults& run_defaults() {
  static const RunDefaults defaults = base::shipped(
      read_run_defaults(embedded::framework_defaults_yaml, "framework_defaults.yaml"), "data/framework_defaults.yaml");
  return defaults;
}

}  // namespace espalier::job
