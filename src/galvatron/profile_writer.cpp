// SPDX-License-Identifier: Apache-2.0
#include "base/document.h"
#include "base/format.h"
#include "galvatron/profile_files.h"

namespace espalier::galvatron {
namespace {

std::string_view name_of(LayerPart part) {
  return part == LayerPart::attention ? "_attention" : part == LayerPart::mlp ? "_mlp" : "";
}

/// Writes {"name": {"1": MB, …}}.
void write_degrees(JsonWriter& json, std::string_view name, const std::map<std::int32_t, double>& values, double checkpoint = 0) {
  json.key(name).compact_next().begin_object();
  for (const auto& [degree, mb] : values) json.key(std::to_string(degree)).value(mb);
  if (checkpoint > 0) json.key("checkpoint").value(checkpoint);
  json.end_object();
}

void write_layers(JsonWriter& json, const MemoryProfile::Set& set, std::string_view suffix) {
  std::map<std::int32_t, std::map<std::int64_t, const LayerMemory*>> types;
  for (const auto& [key, memory] : set.layers) types[key.first][key.second] = &memory;
  for (const auto& [type, lengths] : types) {
    json.key(cat("layertype_", type, suffix)).begin_object();
    for (const auto& [sequence, memory] : lengths) {
      json.key(std::to_string(sequence)).begin_object().key("parameter_size").value(memory->parameter_mb);
      write_degrees(json, "tp_activation_per_bsz_dict", memory->activation_mb, memory->checkpoint_mb);
      json.end_object();
    }
    json.end_object();
  }
}

void write_others(JsonWriter& json, const std::map<std::int64_t, OtherMemory>& stages, const std::string& name) {
  if (stages.empty()) return;
  json.key(name).begin_object();
  for (const auto& [sequence, memory] : stages) {
    json.key(std::to_string(sequence)).begin_object();
    write_degrees(json, "model_states", memory.states_mb);
    write_degrees(json, "activation", memory.activation_mb);
    json.end_object();
  }
  json.end_object();
}

std::string closed(JsonWriter& json) {
  json.end_object();
  return json.text() + "\n";
}

}  // namespace

std::string to_json(const ComputationProfile& profile) {
  JsonWriter json;
  json.begin_object();
  for (const ForwardTime& time : profile.times)
    json.key(cat("layertype_", time.other ? "other_" : "", time.layer_type, "_bsz", time.batch, "_seq", time.sequence,
                 name_of(time.part)))
        .value(time.ms_per_sample);
  return closed(json);
}

std::string to_json(const MemoryProfile& profile) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [set, suffix] : {std::pair(&profile.plain, ""), std::pair(&profile.sequence_parallel, "_sp")}) {
    write_layers(json, *set, suffix);
    write_others(json, set->one_stage, cat("other_memory_pp_off", suffix));
    write_others(json, set->first_stage, cat("other_memory_pp_on_first", suffix));
    write_others(json, set->last_stage, cat("other_memory_pp_on_last", suffix));
  }
  return closed(json);
}

std::string to_json(const AllReduceBandwidth& table) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [group, rate] : table.gb_per_s)
    json.key(cat("allreduce_size_", group.first, "_consec_", group.second ? 1 : 0)).value(rate);
  return closed(json);
}

std::string to_json(const P2pBandwidth& table) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [stages, rate] : table.gb_per_s) json.key(cat("pp_size_", stages)).value(rate);
  return closed(json);
}

std::string to_json(const CollectiveTimes& times) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [size, ms] : times.all_reduce_ms)
    json.key(cat("allreduce_size_", size.first, "_", size.second, "MB_time")).value(ms);
  for (const auto& [size, ms] : times.all_to_all_ms)
    json.key(cat("all2all_size_", size.first, "_", size.second, "MB_time")).value(ms);
  return closed(json);
}

std::string overlap_json(double coefficient) {
  JsonWriter json;
  json.begin_object().key("overlap_coe").value(coefficient);
  return closed(json);
}

}  // namespace espalier::galvatron
