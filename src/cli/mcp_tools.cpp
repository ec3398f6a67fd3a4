// SPDX-License-Identifier: Apache-2.0
// The table, and the schemas built from it.
#include "cli/mcp_tools.h"

#include "base/format.h"
#include "espalier/imported_configuration.h"

namespace espalier::cli {
namespace {

using Type = ToolArgument::Type;

constexpr const char* kJobHelp =
    "a job: model, cluster and training, each inline or a path, and if needed engine and search. Example: model: "
    "models/llama-3-8b/config.json; cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}; training: "
    "{sequence_length: 8192, global_batch: 64}";

ToolArgument overrides() {
  return {"set", Type::texts, "--set", "values of the job to override, each \"path=value\": \"training.global_batch=128\""};
}

ToolArgument time_limit() {
  return {"time_limit_s", Type::number, "--time-limit",
          "stop the search after this many seconds and return the best plan so far; such answers are not certified"};
}

ToolDocument job_document() { return {"job", "job_file", "", "", kJobHelp}; }

Tool plan_tool() {
  return {"plan",
          "Find the fastest plan",
          "Searches the fastest training configuration that fits, predicts step time and memory, and certifies the answer. "
          "Execution only (never changes what is learned beyond rounding): parallel degrees, micro-batch split, recomputation, "
          "ZeRO, schedule, overlap, offload. Changes training: precision, global batch, packing, expert capacity factor, engine "
          "options with numerics; ask the user before you change these.",
          {job_document()},
          {overrides(),
           {"engine", Type::text, "--engine", "plan for this engine; NAME+OPTION switches one of its options on"},
           time_limit()},
          {"espalier.result/2", "espalier.objective/1", "espalier.long-run/1", "espalier.over-time/1"}};
}

Tool estimate_tool() {
  return {"estimate",
          "Predict one configuration",
          "Predicts step time, memory and where the time goes for one given configuration. A configuration that does not fit is "
          "an answer with \"fits\": false.",
          {job_document()},
          {overrides(),
           {"engine", Type::text, "--engine", "predict for this engine, with its defaults, instead of the job's"},
           {"configuration", Type::flags, "",
            "flags of `espalier estimate`: [\"--tp\", \"4\", \"--pp\", \"2\", \"--zero\", \"1\", \"--micro-batch\", \"2\"]"}},
          {"espalier.result/2"}};
}

Tool improve_tool() {
  std::vector<std::string> formats;
  for (const exchange::ConfigurationFormat& format : exchange::configuration_formats()) formats.push_back(format.name);
  return {
      "improve",
      "Improve a present configuration",
      "Reads a launch script or configuration of another framework, predicts what it costs, finds a better plan of the same "
      "engine, and lists the lines to change.",
      {{"configuration", "configuration_file", "", "", "the launch script, log or configuration file"},
       {"cluster", "cluster_file", "--cluster", "cluster.yaml",
        "a cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}"},
       {"model", "model_file", "--model", "config.json", "config.json of the model, where the configuration lacks it", false}},
      {{"from", Type::text, "--from", "format of the configuration", true, formats},
       {"sequence_length", Type::integer, "--sequence-length", "tokens of a sample, where the configuration lacks it"},
       {"global_batch", Type::integer, "--global-batch", "samples of a step, where the configuration lacks it"},
       {"micro_batch", Type::integer, "--micro-batch", "samples of a micro-batch, where the configuration lacks it"},
       {"recompute", Type::text, "--recompute", "recomputation of the training script: none, selective, full, or modules"},
       {"arg", Type::texts, "--arg", "variables and parameters of a launch script, each \"NAME=VALUE\""},
       {"ignore", Type::texts, "--ignore", "keys to leave out, because they do not change the plan"},
       overrides(),
       time_limit()},
      {"espalier.improvement/1"}};
}

Tool check_tool() {
  return {"check",
          "Verify a plan or result",
          "Verifies a plan, a result or an answer to a change with code that shares nothing with the search. It checks every "
          "figure and the rules of the engine. \"ok\": false is an answer; read its findings.",
          {{"document", "document_file", "", "", "plan.json, result.json, or the structured content of another tool"}},
          {{"engine", Type::text, "--engine", "check the rules of this engine instead of the plan's own"},
           {"search", Type::boolean, "--search", "search again and compare; needs a result"}},
          {"espalier.check/1"}};
}

Tool explain_tool() {
  return {"explain",
          "Explain a plan",
          "Explains a plan: its bottleneck, runners-up with what they lose, and configurations removed by each rule. A plan "
          "without its search is searched again.",
          {{"plan", "plan_file", "", "", "plan.json, result.json, or the structured content of the tool plan"}},
          {},
          {"espalier.explanation/1"}};
}

Tool inspect_tool() {
  return {"inspect",
          "Show what was read",
          "Shows how a model, a cluster or a measured run was read, with every default marked.",
          {{"text", "file", "", "", "the file: config.json, a cluster file, or measured runs with one JSON object a line"}},
          {{"what", Type::text, "", "kind of the file", true, {"model", "cluster", "run"}},
           {"id", Type::text, "--id", "the record of a run (default: the first)"}},
          {"espalier.model/1", "espalier.cluster-summary/1", "espalier.run-mapping/1"}};
}

const char* type_name(Type type) {
  switch (type) {
    case Type::text: return "string";
    case Type::texts:
    case Type::flags: return "array";
    case Type::number: return "number";
    case Type::integer: return "integer";
    case Type::boolean: return "boolean";
  }
  return "string";
}

void write_words(JsonWriter& w, const std::vector<std::string>& words) {
  w.begin_array();
  for (const std::string& word : words) w.value(word);
  w.end_array();
}

void write_argument(JsonWriter& w, const ToolArgument& argument) {
  w.key(argument.name).begin_object();
  w.key("type").value(type_name(argument.type)).key("description").value(argument.help);
  if (argument.type == Type::texts || argument.type == Type::flags)
    w.key("items").begin_object().key("type").value("string").end_object();
  if (argument.type == Type::number) w.key("minimum").value(0);
  if (argument.type == Type::integer) w.key("minimum").value(1);
  if (!argument.choices.empty()) {
    w.key("enum");
    write_words(w, argument.choices);
  }
  w.end_object();
}

void write_text_property(JsonWriter& w, const std::string& name, const std::string& help) {
  w.key(name).begin_object().key("type").value("string").key("description").value(help).end_object();
}

/// The schema has no `oneOf` at its top: interfaces of language models reject it there. The help names the alternative.
void write_input_schema(JsonWriter& w, const Tool& tool) {
  std::vector<std::string> required;
  w.key("inputSchema").begin_object().key("type").value("object").key("properties").begin_object();
  for (const ToolDocument& document : tool.documents) {
    write_text_property(w, document.name, cat(document.help, document.required ? cat("; required, or ", document.file) : ""));
    write_text_property(w, document.file, cat("path of a file, instead of the text in ", document.name));
  }
  for (const ToolArgument& argument : tool.arguments) {
    write_argument(w, argument);
    if (argument.required) required.push_back(argument.name);
  }
  w.end_object();
  if (!required.empty()) {
    w.key("required");
    write_words(w, required);
  }
  w.key("additionalProperties").value(false).end_object();
}

/// Names the shipped schema instead of embedding it: with all of them a list of tools would take 200 kB.
void write_output_schema(JsonWriter& w, const Tool& tool) {
  std::vector<std::string> schemas = tool.schemas;
  schemas.emplace_back("espalier.error/1");
  w.key("outputSchema").begin_object().key("type").value("object").key("properties").begin_object();
  w.key("schema").begin_object().key("enum");
  write_words(w, schemas);
  w.key("description").value("which document this is: docs/schema and docs/file-formats.md describe each");
  w.end_object().end_object().key("required");
  write_words(w, {"schema"});
  w.end_object();
}

}  // namespace

std::vector<Tool> all_tools() {
  return {plan_tool(), estimate_tool(), improve_tool(), check_tool(), explain_tool(), inspect_tool()};
}

void write_tool(JsonWriter& w, const Tool& tool) {
  w.begin_object();
  w.key("name").value(tool.name).key("title").value(tool.title).key("description").value(tool.help);
  write_input_schema(w, tool);
  write_output_schema(w, tool);
  w.key("annotations").begin_object();
  w.key("readOnlyHint").value(true).key("openWorldHint").value(false);
  w.end_object().end_object();
}

}  // namespace espalier::cli
