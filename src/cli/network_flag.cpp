// SPDX-License-Identifier: Apache-2.0
// --network: what the messages of the answer take. The closed form is always there; the flow-level network is added to it.
#include "cli/command.h"

namespace espalier::cli {

void add_network_flag(Command& command, std::string& network) {
  network = "closed";
  command
      .add_option("--network", network,
                  "closed: each message as if alone; flow: also with the links shared by all that is in flight")
      ->one_of({"closed", "flow"})
      ->type_name("MODEL");
}

Status network_refused(const std::string& network, const Job& job) {
  if (network != "flow" || job.cluster.devices() <= kMostFlowDevices) return std::nullopt;
  return Error{ErrorKind::bad_input, "--network flow", std::to_string(job.cluster.devices()) + " devices",
               "at most " + std::to_string(kMostFlowDevices), "the closed form (--network closed) has no limit"};
}

Status add_network(const std::string& network, const Job& job, PlannerResult& result) {
  if (network != "flow") return std::nullopt;
  auto flow = simulate_flow(job, result.plan);
  if (!flow) return flow.error();
  result.prediction.network = std::move(*flow);
  return std::nullopt;
}

}  // namespace espalier::cli
