// SPDX-License-Identifier: Apache-2.0
// Generates random jobs that users could have: small and middle-sized models of several families on one group of
// equal nodes or on two to four groups.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "job_text.h"
#include "random.h"

namespace espalier::bench {

using property::Random;

inline const std::vector<std::string>& devices_of(bool bf16) {
  static const std::vector<std::string> newer = {"h100-sxm-80gb", "a100-sxm-80gb", "a100-sxm-40gb", "l40s", "l4",
                                                 "rtx-4090",      "a10g",          "h200-sxm",      "a40"};
  static const std::vector<std::string> all = {"h100-sxm-80gb", "a100-sxm-80gb", "a100-sxm-40gb", "l40s", "l4", "rtx-4090", "t4",
                                               "v100-sxm-32gb", "v100-sxm-16gb", "titan-rtx",     "a10g"};
  return bf16 ? newer : all;
}

inline std::string llama_text(Random& random, bool large) {
  const std::int64_t heads = large ? 32 : random.of<std::int64_t>({8, 16, 32}),
                     hidden = heads * random.of<std::int64_t>({64, 128});
  return cat("{model_type: llama, hidden_size: ", hidden, ", intermediate_size: ", hidden * random.between(2, 4),
             ", num_hidden_layers: ", large ? random.between(12, 32) : random.between(3, 16), ", num_attention_heads: ", heads,
             ", num_key_value_heads: ", random.one_in(2) ? heads : heads / 4,
             ", vocab_size: ", random.of<std::int64_t>({8192, 32000, 50304, 128256}),
             ", tie_word_embeddings: ", random.one_in(2) ? "true" : "false", "}");
}

inline std::string gpt_text(Random& random) {
  const std::int64_t heads = random.of<std::int64_t>({8, 12, 16});
  return cat("{model_type: gpt2, n_embd: ", heads * 64, ", n_head: ", heads, ", n_layer: ", random.between(4, 24),
             ", n_positions: 2048, vocab_size: 50257}");
}

inline std::string experts_text(Random& random) {
  const std::int64_t heads = random.of<std::int64_t>({8, 16}), hidden = heads * 64;
  return cat("{hidden: ", hidden, ", vocabulary: 32000, repeat: ", random.between(1, 4), ", blocks: [",
             random.one_in(2) ? cat("{heads: ", heads, ", ffn: ", 4 * hidden, "}, ") : "", "{heads: ", heads,
             ", kv_heads: ", heads / 2, ", experts: ", random.of<std::int64_t>({4, 8}), ", top_k: 2, ffn: ", 2 * hidden, "}]}");
}

inline std::string state_space_text(Random& random) {
  return cat(
      "{hidden: ", random.of<std::int64_t>({1024, 2048}), ", vocabulary: 50304, repeat: ", random.between(1, 4),
      ", blocks: [{count: ", random.between(1, 2),
      ", mixer: mamba2, mamba_n_heads: 64, mamba_n_groups: 4, mamba_d_state: 64, ffn: 4096}, {heads: 16, kv_heads: 8, ffn: "
      "4096}]}");
}

inline std::string t5_text(Random& random) {
  const std::int64_t heads = random.of<std::int64_t>({8, 16});
  return cat("{model_type: t5, d_model: ", heads * 64, ", d_kv: 64, d_ff: ", heads * 256, ", num_layers: ", random.between(2, 8),
             ", num_decoder_layers: ", random.between(2, 8), ", num_heads: ", heads,
             ", vocab_size: 32128, feed_forward_proj: relu}");
}

inline std::string image_text(Random& random) {
  const std::int64_t heads = random.of<std::int64_t>({8, 12, 16});
  return cat("{model_type: vit, hidden_size: ", heads * 64, ", num_attention_heads: ", heads,
             ", intermediate_size: ", heads * 256, ", num_hidden_layers: ", random.between(6, 24),
             ", image_size: 224, patch_size: 16}");
}

inline void draw_model(Random& random, JobText& job, bool large) {
  job.sequence = std::to_string(random.of<std::int64_t>({512, 1024, 2048, 4096}));
  switch (random.below(10)) {
    case 0: job.model = experts_text(random); break;
    case 1: job.model = state_space_text(random); break;
    case 2:
      job.model = t5_text(random);
      job.sequence =
          cat("{encoder: ", random.of<std::int64_t>({256, 512}), ", decoder: ", random.of<std::int64_t>({128, 256}), "}");
      break;
    case 3:
      job.model = image_text(random);
      job.sequence.clear();
      break;
    case 4:
    case 5:
      job.model = gpt_text(random);
      job.sequence = std::to_string(random.of<std::int64_t>({512, 1024, 2048}));
      break;
    default:
      job.model = llama_text(random, large);
      if (random.one_in(7)) {
        job.sequence = "1024";
        job.lengths =
            cat("{histogram: [[128, 3], [300, 2], [1024, 1]], packing: ", random.one_in(2) ? "packed" : "balanced", "}");
      }
  }
  job.batch = random.one_in(4) ? random.between(8, 96) : random.of<std::int64_t>({8, 12, 16, 24, 32, 48, 64, 96});
  const bool bf16 = random.one_in(2);
  job.precision = bf16 ? "bf16" : "fp16";
}

/// `explicit_links`: states every figure of the network, so that each can be changed alone.
inline GroupText random_group(Random& random, const std::string& name, const std::string& device, bool explicit_links) {
  GroupText g;
  g.name = name;
  g.device = device;
  g.nodes = random.between(1, 8);
  g.per_node = random.of<std::int64_t>({1, 2, 4, 8});
  if (explicit_links || random.one_in(2)) {
    g.intra_GBps = random.of<double>({12, 24, 50, 100, 300, 450});
    g.intra_us = random.of<double>({2, 5, 10});
  }
  g.inter_Gbps = random.of<double>({1, 10, 25, 50, 100, 200, 400});
  g.inter_us = random.of<double>({2, 5, 20});
  g.nics = random.of<std::int64_t>({1, 1, 2, 4});
  return g;
}

inline void draw_speed(Random& random, GroupText& g) {
  const std::int64_t devices = g.nodes * g.per_node;
  g.speed[random.below(devices)] = static_cast<double>(random.between(4, 9)) / 10;
  if (random.one_in(3)) g.speed[random.below(devices)] = static_cast<double>(random.between(4, 9)) / 10;
}

/// Draws the links that join the groups: every kind of sharing, complete or as a chain, between groups or two sites.
inline void draw_join(Random& random, JobText& job) {
  job.join_Gbps = random.of<double>({1, 5, 10, 25, 50, 100, 100, 200, 400, 400});
  job.join_us = random.of<double>({2, 5, 5, 50, 1000, 10000});
  const std::int64_t how = random.below(10);
  job.join = how < 4 ? Join::inter_group : how < 5 ? Join::none : how < 8 ? Join::links : Join::matrix;
  if (job.join == Join::none || job.join == Join::inter_group) return;
  job.matrix_sharing = random.of<std::string>({"", "line", "node", "node_pair"});
  const bool chain = random.one_in(3);
  const auto link = [&](const std::string& from, const std::string& to) {
    job.links.push_back({from, to, random.of<std::string>({"", "line", "node", "node_pair"}),
                         random.of<double>({1, 5, 10, 25, 100, 200, 400}), random.of<double>({5, 5, 50, 1000, 10000})});
  };
  if (random.one_in(4)) {
    for (std::size_t g = 0; g < job.groups.size(); ++g) job.groups[g].site = g == 0 ? "east" : "west";
    return link("east", "west");
  }
  for (std::size_t a = 0; a < job.groups.size(); ++a)
    for (std::size_t b = a + 1; b < job.groups.size(); ++b)
      if (!chain || b == a + 1) link(job.groups[a].name, job.groups[b].name);
}

inline void draw_memory(Random& random, JobText& job) {
  if (random.one_in(3)) job.limit_GiB = random.of<double>({3, 4, 6, 8, 12, 16});
  if (random.one_in(2)) job.margin = 0;
}

/// Returns the approximate peak in TFLOP/s, used to draw groups of similar total speed.
inline double about_tflops(const std::string& device) {
  static const std::map<std::string, double> peaks = {
      {"h100-sxm-80gb", 989}, {"h200-sxm", 989}, {"a100-sxm-80gb", 312}, {"a100-sxm-40gb", 312},
      {"l40s", 362},          {"l4", 121},       {"rtx-4090", 165},      {"a10g", 70},
      {"a40", 150},           {"t4", 65},        {"v100-sxm-32gb", 125}, {"v100-sxm-16gb", 125},
      {"titan-rtx", 130}};
  return peaks.at(device);
}

/// Returns true if no group is more than six times as fast as another.
inline bool balanced(const JobText& job) {
  double least = 1e30, most = 0;
  for (const GroupText& g : job.groups) {
    const double worth = about_tflops(g.device) * static_cast<double>(g.nodes * g.per_node);
    least = std::min(least, worth);
    most = std::max(most, worth);
  }
  return most <= 6 * least;
}

/// Adds long sequences, many samples and fast links, so that all groups are worth using.
inline void make_busy(Random& random, JobText& job) {
  job.batch = std::max<std::int64_t>(job.batch, 32);
  if (job.sequence == "512") job.sequence = "2048";
  job.join_Gbps = std::max(job.join_Gbps, 100.0);
  job.join_us = std::min(job.join_us, 50.0);
  for (LinkText& l : job.links) {
    l.Gbps = std::max(l.Gbps, random.of<double>({50, 100, 400}));
    l.us = std::min(l.us, 50.0);
  }
  for (GroupText& g : job.groups) g.inter_Gbps = std::max(g.inter_Gbps, random.of<double>({25, 100, 400}));
}

enum class Size : std::uint8_t {
  tiny,    ///< at most 8 devices, where most searches finish with a proof
  middle,  ///< at most 64, mostly at most 24
  large,   ///< above 64
};

/// Returns a job on two to four groups.
inline JobText random_groups_job(Random& random, Size size, bool explicit_links) {
  const bool large = size == Size::large;
  JobText job;
  draw_model(random, job, large);
  const std::vector<std::string>& kinds = devices_of(job.precision == "bf16");
  const bool equal = random.one_in(4), busy = random.one_in(2);
  do {
    const std::int64_t count = random.one_in(2) ? 2 : random.between(2, 4);
    const std::string one = random.of(kinds);
    job.groups.clear();
    for (std::int64_t g = 0; g < count; ++g)
      job.groups.push_back(
          random_group(random, std::string(1, static_cast<char>('a' + g)), equal ? one : random.of(kinds), explicit_links));
  } while ((busy && !balanced(job)) || (large ? job.total() <= 64
                                              : job.total() > (size == Size::tiny ? 8
                                                               : random.one_in(4) ? 64
                                                                                  : 24)));
  if (large) job.batch = std::max<std::int64_t>(job.batch, 48);
  draw_join(random, job);
  if (busy) make_busy(random, job);
  draw_memory(random, job);
  if (random.one_in(6))
    draw_speed(random, job.groups[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(job.groups.size())))]);
  if (random.one_in(8)) job.devices = "all";
  if (random.one_in(8)) job.devices = "any";
  if (random.one_in(10)) job.schedules = "[1f1b, zb-h1]";
  job.flow = job.total() <= 16 && random.one_in(4);
  return job;
}

/// Returns a job on one group of equal nodes.
inline JobText random_single_job(Random& random, bool any) {
  JobText job;
  draw_model(random, job, false);
  do job.groups = {random_group(random, "a", random.of(devices_of(job.precision == "bf16")), true)};
  while (job.total() > (random.one_in(4) ? 32 : 16) || job.total() < 2);
  draw_memory(random, job);
  if (any) job.devices = "any";
  return job;
}

}  // namespace espalier::bench
