// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_profile.h"

#include <charconv>

#include "base/document.h"

namespace espalier::reference {
namespace {

using base::Document;
using base::ErrorSink;

constexpr double kMostMb = 1e6, kMostMs = 1e6;
constexpr std::array<std::int32_t, 5> kDegrees = {1, 2, 4, 8, 16};

V1OtherMemory read_other(Reader& r, std::string_view states, std::string_view activation) {
  return {r.required_real(states, 0, kMostMb), r.required_real(activation, 0, kMostMb)};
}

void read_memory(Reader& r, V1Profile& profile, V1LayerType& type) {
  type.parameter_mb = r.required_real("parameter_size", 0, kMostMb);
  Reader activation = r.child("tp_activation_per_bsz_dict", true);
  for (const std::int32_t tp : kDegrees) {
    if (const std::string key = std::to_string(tp); tp <= profile.devices)
      type.activation_mb[tp] = activation.required_real(key, 0, kMostMb);
  }
  activation.finish();
  if (!profile.two_nodes()) {
    profile.whole = read_other(r, "other_model_states", "other_activation_per_bsz");
  } else {
    Reader off = r.child("other_memory_pp_off", true);
    profile.whole = read_other(off, "model_states", "activation");
    Reader on = r.child("other_memory_pp_on", true);
    Reader first = on.child("first_stage", true), last = on.child("last_stage", true);
    profile.first = read_other(first, "model_states", "activation");
    profile.last = read_other(last, "model_states", "activation");
    profile.peak_reduction_mb = r.required_real("peak_reduction_with_chunks", 0, kMostMb);
    r.ignore({"microbatch", "model_type"});
  }
  r.finish();
}

/// Parses "2_4_1" → {2, 4, 1}, the key of a group of 4 neighbouring ranks in one of 2 stages.
bool read_group(std::string_view key, std::array<std::int32_t, 3>& group) {
  const char* at = key.data();
  const char* const end = at + key.size();
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '_')) return false;
    const auto [rest, error] = std::from_chars(at, end, group[i]);
    if (error != std::errc() || group[i] < 0 || group[i] > 1024) return false;
    at = rest;
  }
  return at == end;
}

void read_all_reduce(Reader& r, V1Profile& profile) {
  Reader table = r.child("comm_coe_dict", true);
  for (const auto& [key, node] : table.node().members) {
    std::array<std::int32_t, 3> group{};
    if (!read_group(key, group)) table.fail(key, "key \"" + key + "\"", "<stages>_<group size>_<1: consecutive, 0: strided>");
    profile.all_reduce[group] = table.required_real(key, 0, kMostMs);
  }
}

void read_time(Reader& r, V1Profile& profile, V1LayerType& type) {
  type.forward_ms = r.required_real("forward_computation_time", 0, kMostMs);
  type.backward_factor = r.required_real("bct_fct_coe", 0, 100);
  type.extra_ms = r.required_real("extra_overhead", 0, kMostMs);
  type.sequence = static_cast<std::int32_t>(r.required_int("sequence_length", 1, 1 << 24));
  type.hidden = static_cast<std::int32_t>(r.required_int("hidden_size", 1, 1 << 20));
  type.decoder = r.optional_choice("layer_type", {"enc", "dec"}, 0) == 1;
  profile.comm_slowdown = r.required_real("dp_overlap_coe", 1, 100);
  profile.compute_slowdown = r.required_real("bct_overlap_coe", 1, 100);
  read_all_reduce(r, profile);
  if (profile.two_nodes()) {
    Reader p2p = r.child("p2p_comm_coe_dict", true);
    for (const std::int32_t pp : kDegrees) {
      if (pp > 1) profile.p2p[pp] = p2p.required_real("pp_deg_" + std::to_string(pp), 0, kMostMs);
    }
    p2p.finish();
  }
  r.ignore({"parameter_size", "microbatch", "layer_num"});
  r.finish();
}

/// Calls read(reader, profile, layer type) for the one mapping or for each of a list; returns how many.
template <class Read>
std::size_t read_types(Reader& r, std::string_view key, V1Profile& profile, const Read& read) {
  const Node* node = r.find(key);
  const bool list = node && node->kind == NodeKind::sequence;
  const std::size_t count = list ? node->items.size() : 1;
  if (profile.layer_types.size() < count) profile.layer_types.resize(count);
  if (!list) {
    Reader one = r.child(key, true);
    read(one, profile, profile.layer_types.front());
    return 1;
  }
  std::size_t i = 0;
  r.each(key, true, [&](Reader& item) { read(item, profile, profile.layer_types[i++]); });
  return count;
}

bool is_degree(const Node& node) { return node.kind == NodeKind::integer && node.integer >= 1 && node.integer <= 1024; }

/// Reads [pp, tp, dp, {"tp": consecutive, "fsdp": sharded}].
void read_strategies(Reader& r, V1Profile& profile) {
  const Node* list = r.find("strategies");
  const auto fail = [&r] { r.fail("strategies", "", "a list of [pp, tp, dp, {tp, fsdp}] with pp*tp*dp = devices"); };
  if (!list || list->kind != NodeKind::sequence || list->items.empty()) return fail();
  for (const Node& item : list->items) {
    const std::vector<Node>& parts = item.items;
    if (item.kind != NodeKind::sequence || parts.size() != 4 || parts[3].kind != NodeKind::mapping) return fail();
    if (!is_degree(parts[0]) || !is_degree(parts[1]) || !is_degree(parts[2])) return fail();
    if (parts[0].integer * parts[1].integer * parts[2].integer != profile.devices) return fail();
    const auto flag = [&parts](std::string_view name) {
      const Node* node = parts[3].find(name);
      return node && node->kind == NodeKind::integer && node->integer == 1;
    };
    profile.strategies.push_back({static_cast<std::int32_t>(parts[0].integer), static_cast<std::int32_t>(parts[1].integer),
                                  static_cast<std::int32_t>(parts[2].integer), flag("fsdp"), flag("tp")});
  }
}

/// Checks that the table has the coefficient of every group that a strategy forms.
void check_groups(Reader& r, const V1Profile& profile) {
  for (const V1Strategy& s : profile.strategies) {
    const bool tp_consecutive = !s.ordered() || s.tp_consecutive, dp_consecutive = !s.ordered() || !s.tp_consecutive;
    for (const auto& [size, consecutive] : {std::pair{s.tp, tp_consecutive}, std::pair{s.dp, dp_consecutive}}) {
      if (size == 1 || profile.all_reduce.count({s.pp, size, consecutive ? 1 : 0}) > 0) continue;
      const std::string key = std::to_string(s.pp) + "_" + std::to_string(size) + (consecutive ? "_1" : "_0");
      r.fail("time", "no coefficient \"" + key + "\"", "one for each group of strategy " + to_string(s));
      return;
    }
  }
}

/// Parses "bert-1280@8": the part before '-' or '@' is the family, the part after '@' the devices.
bool read_name(const std::string& name, V1Profile& profile) {
  constexpr std::array<std::string_view, 4> families = {"bert", "vit", "t5", "swin"};
  profile.name = name;
  const std::size_t at = name.find('@');
  if (at == std::string::npos) return false;
  const std::string_view devices = std::string_view(name).substr(at + 1),
                         family = std::string_view(name).substr(0, name.find_first_of("-@"));
  if (devices != "8" && devices != "16") return false;
  profile.devices = devices == "8" ? 8 : 16;
  for (std::size_t i = 0; i < families.size(); ++i) {
    if (families[i] != family) continue;
    profile.family = static_cast<V1Family>(i);
    return true;
  }
  return false;
}

}  // namespace

std::string to_string(const V1Strategy& s) {
  std::string text = std::to_string(s.pp) + "-" + std::to_string(s.tp);
  if (s.ordered() && s.tp_consecutive) text += "*";
  text += "-" + std::to_string(s.dp);
  if (s.sharded) text += "f";
  if (s.ordered() && !s.tp_consecutive) text += "*";
  return text;
}

std::int32_t V1Profile::dummy_layers(std::int32_t layers) const {
  // The authors time 24 layers and divide; their 16-GPU scripts of BERT and ViT time the real number.
  const bool real = two_nodes() && (family == V1Family::bert || family == V1Family::vit);
  return real ? layers : 24;
}

Result<std::map<std::string, V1Profile>> read_v1_profiles(std::string_view json, const std::string& where) {
  auto document = base::read_json(json, where);
  if (!document) return document.error();
  ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  std::map<std::string, V1Profile> profiles;
  for (const auto& [name, node] : document->root.members) {
    V1Profile profile;
    if (!read_name(name, profile)) root.fail(name, "profile \"" + name + "\"", "bert, vit, t5 or swin, [-hidden], @8 or @16");
    Reader r = root.child(name, true);
    read_strategies(r, profile);
    const std::size_t memory_types = read_types(r, "memory", profile, read_memory);
    const std::size_t time_types = read_types(r, "time", profile, read_time);
    if (memory_types != time_types) r.fail("time", "", std::to_string(memory_types) + " layer types, as memory has");
    if (sink.ok()) check_groups(r, profile);
    if (!sink.ok()) return sink.first().error();
    profiles.emplace(name, std::move(profile));
  }
  if (!sink.ok()) return sink.first().error();
  return profiles;
}

}  // namespace espalier::reference
