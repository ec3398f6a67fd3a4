// SPDX-License-Identifier: Apache-2.0
#include "exchange/uniform_plan.h"

#include "base/format.h"

namespace espalier::exchange {

Error cannot_say(const std::string& engine, const std::string& found, const std::string& expected) {
  return {ErrorKind::check_failed, engine, found, expected,
          base::cat("espalier plan --set engine=", engine, " finds what it can run")};
}

Status not_uniform(const Plan& plan, const std::string& engine) {
  if (plan.pipelines.size() != 1) return cannot_say(engine, "several pipelines", "one");
  for (const Stage& stage : plan.only_pipeline().stages) {
    if (unequal_replicas(stage)) return cannot_say(engine, "replicas with unequal shares", "equal ones");
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (range.strategy != plan.strategy())
          return cannot_say(engine, "layers with strategies of their own", "one strategy for all layers");
  }
  return {};
}

}  // namespace espalier::exchange
