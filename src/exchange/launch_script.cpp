// SPDX-License-Identifier: Apache-2.0
#include "exchange/launch_script.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/format.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr std::size_t kComment = 68;  // column where reasons begin

std::string line_of(const LaunchFlag& flag) {
  std::string out = cat("  ", flag.name);
  if (!flag.value.empty()) out += " " + quoted(flag.value);
  if (flag.reason.empty()) return out + "\n";
  out.resize(std::max(out.size() + 2, kComment), ' ');
  return cat(out, "# ", flag.reason, "\n");
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::isalnum(c) != 0 ? static_cast<char>(std::toupper(c)) : '_'; });
  return text;
}

}  // namespace

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/' || c == ',' || c == ':' || c == '=' || c == '+' ||
           c == '@';
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string to_text(const LaunchScript& script, const Job& job, const Plan& plan) {
  const NodeGroup& group = job.cluster.groups.front();
  ESPALIER_CHECK(script.environment.size() == script.environment_reasons.size());
  ESPALIER_CHECK(job.cluster.devices() % group.devices_per_node == 0);
  std::string out =
      cat("#!/usr/bin/env bash\n# ", plan.label(), "\n# ", plan.model_name, " on ", job.cluster.devices(), " ", group.device.name,
          "; flags of ", script.engine, ". Written by espalier export; plan ", content_hash(plan),
          ".\n# Start it on every node with NODE_RANK and MASTER_ADDR set; what the plan does not decide follows as "
          "arguments.\nset -euo pipefail\n\n");
  for (std::size_t k = 0; k < script.environment.size(); ++k) {
    const auto& [name, value] = script.environment[k];
    out += cat("export ", name, "=", quoted(value),
               script.environment_reasons[k].empty() ? "" : cat("  # ", script.environment_reasons[k]), "\n");
  }
  if (!script.environment.empty()) out += "\n";
  std::string all;
  for (const auto& [heading, flags] : script.groups) {
    if (flags.empty()) continue;
    const std::string name = upper(heading);
    out += cat(name, "=(\n");
    for (const LaunchFlag& flag : flags) out += line_of(flag);
    out += ")\n";
    all += cat(" \"${", name, "[@]}\"");
  }
  return cat(out, "\nexec torchrun --nnodes ", job.cluster.devices() / group.devices_per_node, " --nproc-per-node ",
             group.devices_per_node,
             " --node-rank \"${NODE_RANK:-0}\" --master-addr \"${MASTER_ADDR:-127.0.0.1}\" --master-port "
             "\"${MASTER_PORT:-29500}\" \\\n  ",
             script.program, all, " \"$@\"\n");
}

}  // namespace espalier::exchange
