// SPDX-License-Identifier: Apache-2.0
#include "cli/search_hooks.h"

namespace espalier::cli {

PlannerOptions hooked(Context& context, const PlannerOptions& options) {
  PlannerOptions out = options;
  out.interrupted = context.surroundings.interrupted;
  if (context.surroundings.terminal && !context.quiet) {
    out.progress = [&context](const std::string& line) { context.err << "\r\033[K" << line << std::flush; };
  } else if (context.verbose > 0) {
    out.progress = [&context](const std::string& line) { context.err << line << "\n"; };
  }
  return out;
}

int exit_code_of(const Context& context, const SearchSummary& search) {
  if (search.reason == SearchEnd::interrupted || context.interrupted()) return kInterrupted;
  return search.reason == SearchEnd::node_limit || search.reason == SearchEnd::time_limit ? kLimit : kOk;
}

void clear_progress(Context& context) {
  if (context.surroundings.terminal && !context.quiet) context.err << "\r\033[K" << std::flush;
}

}  // namespace espalier::cli
