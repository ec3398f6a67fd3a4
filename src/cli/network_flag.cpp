// SPDX-License-Identifier: Apache-2.0
// Implements --network, the timing of messages.
#include "cli/command.h"

namespace espalier::cli {

void add_network_flag(Command& command, std::string& network) {
  network = "closed";
  command
      .add_option("--network", network,
                  "closed: each message takes as long as it would alone; flow: all messages in flight share the links")
      ->one_of({"closed", "flow"})
      ->type_name("MODEL");
}

NetworkKind network_of(const std::string& flag) { return flag == "flow" ? NetworkKind::flow : NetworkKind::closed; }

}  // namespace espalier::cli
