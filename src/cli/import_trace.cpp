// SPDX-License-Identifier: Apache-2.0
// Implements espalier import trace --format NAME FILE -o events.csv: it converts a spot trace to the events of a
// cluster file.
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "cli/import_command.h"
#include "espalier/exchange.h"

namespace espalier::cli {
namespace {

struct TraceFlags {
  std::string path, format, out;
  std::int64_t first_node = 0;
  std::int64_t devices_per_node = 1;
};

std::int64_t count_of(const exchange::ImportedTrace& trace, ClusterEventKind kind) {
  std::int64_t count = 0;
  for (const ClusterEvent& event : trace.events) count += event.kind == kind ? 1 : 0;
  return count;
}

std::string summary_json(const exchange::ImportedTrace& trace) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.trace/1");
  w.key("nodes").value(trace.nodes);
  w.key("joins").value(count_of(trace, ClusterEventKind::join));
  w.key("leaves").value(count_of(trace, ClusterEventKind::leave));
  w.key("length_s").value(trace.events.empty() ? 0.0 : trace.events.back().at.count());
  w.key("notes").begin_array();
  for (const std::string& sentence : trace.notes) w.value(sentence);
  w.end_array();
  w.end_object();
  return w.text();
}

int run_trace(Context& context, const TraceFlags& flags) {
  const auto text = flags.path == "-" ? read_input(context, flags.path) : base::read_file(flags.path);
  if (!text) return fail(context, text.error());
  const exchange::TraceRequest request{input_name(flags.path), *text, flags.first_node, flags.devices_per_node};
  const auto trace = exchange::find_trace_format(flags.format)->read(request);
  if (!trace) return fail(context, trace.error());
  for (const std::string& sentence : trace->notes) note(context, sentence);
  const std::string source = base::cat(std::filesystem::path(flags.path).filename().string(), ", read as ", flags.format, "; ",
                                       trace->nodes, trace->nodes == 1 ? " node" : " nodes", " at once");
  const std::string csv = exchange::events_csv(trace->events, source);
  const std::string out = flags.out.empty() ? "" : report::file_or_in_folder(flags.out, "events.csv");
  if (!out.empty())
    if (Status status = report::write_file(out, csv); !status.ok()) return fail(context, status.error());
  if (context.json)
    print_json(context, summary_json(*trace));
  else if (flags.out.empty())
    context.out << csv;
  if (!flags.out.empty())
    note(context, base::cat("wrote ", out, "; the cluster needs ", trace->nodes, " nodes from node:", flags.first_node, " on"));
  return kOk;
}

}  // namespace

void add_import_trace(Command& command, Context& context) {
  Command* part =
      command.add_subcommand("trace", "convert a trace of nodes that join and leave into the events of a cluster file");
  auto flags = std::make_shared<TraceFlags>();
  std::vector<std::string> names;
  std::string help = "format of FILE:";
  for (const exchange::TraceFormat& format : exchange::trace_formats()) {
    names.push_back(format.name);
    help += base::cat(names.size() == 1 ? " " : "; ", format.name, ": ", format.reads);
  }
  part->add_option("file", flags->path, "the trace; - for stdin")->required()->type_name("FILE");
  part->add_option("--format", flags->format, help)->required()->one_of(names);
  part->add_option("-o,--out", flags->out, "write the events here instead of to stdout")->type_name("FILE");
  part->add_option("--first-node", flags->first_node, "number of the trace's first node in the cluster")->non_negative();
  part->add_option("--devices-per-node", flags->devices_per_node, "devices per node, for formats that count devices: sailor")
      ->positive();
  add_common_flags(*part, context);
  part->callback([&context, flags] { context.exit_code = run_trace(context, *flags); });
}

}  // namespace espalier::cli
