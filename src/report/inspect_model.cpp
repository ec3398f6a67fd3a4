// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "base/document.h"
#include "base/format.h"
#include "espalier/inspect.h"
#include "espalier/text.h"
#include "profile/operator_shape.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

using profile::name_of;

std::string_view name_of(TpSplit split) {
  switch (split) {
    case TpSplit::none: return "none";
    case TpSplit::column: return "column";
    case TpSplit::row: return "row";
    case TpSplit::heads: return "heads";
    case TpSplit::vocab: return "vocab";
  }
  return "";
}

std::string_view name_of(ModelNote::Kind kind) {
  switch (kind) {
    case ModelNote::Kind::defaulted: return "default";
    case ModelNote::Kind::ignored: return "ignored";
    case ModelNote::Kind::derived: return "derived";
    case ModelNote::Kind::left_out: return "left out";
  }
  return "";
}

/// Returns runs of equal kinds in pipeline order: "1 embedding · 32 decoder · 1 head".
std::string layer_runs(const Model& model) {
  std::string out;
  for (std::size_t i = 0; i < model.layers.size();) {
    std::size_t end = i;
    while (end < model.layers.size() && model.layers[end] == model.layers[i]) ++end;
    out.append(out.empty() ? "" : " · ").append(cat(std::to_string(end - i), " ", model.layer(i).name));
    i = end;
  }
  return out;
}

std::int64_t uses_of(const Model& model, std::size_t kind) {
  std::int64_t n = 0;
  for (std::int32_t k : model.layers) n += k == static_cast<std::int32_t>(kind) ? 1 : 0;
  return n;
}

std::string shape_of(const Operator& op) {
  if (op.kind == OperatorKind::attention) {
    std::string out = cat(std::to_string(op.heads), " heads, ", std::to_string(op.kv_heads), " kv, ", std::to_string(op.qk_dim));
    if (op.v_dim != op.qk_dim) out += cat("/", std::to_string(op.v_dim));
    if (op.causal) out += ", causal";
    if (op.window > 0) out += cat(", window ", std::to_string(op.window));
    if (op.chunk > 0) out += cat(", pieces of ", std::to_string(op.chunk));
    if (op.cross) out += ", cross";
    return out;
  }
  std::string out = op.out > 0 ? cat(std::to_string(op.in), " → ", std::to_string(op.out)) : std::to_string(op.in);
  if (op.kind == OperatorKind::causal_conv) out += cat(", ", std::to_string(op.chunk), " taps");
  if (op.kind == OperatorKind::scan) out += cat(", ", std::to_string(op.qk_dim), " states");
  if (op.kind == OperatorKind::chunked_scan || op.kind == OperatorKind::gated_delta)
    out += cat(", ", std::to_string(op.heads), " heads in ", std::to_string(op.kv_heads), " groups, ", std::to_string(op.qk_dim),
               "×", std::to_string(op.v_dim), " states, chunks of ", std::to_string(op.chunk));
  if (op.experts > 0) out += cat(", top ", std::to_string(op.top_k), " of ", std::to_string(op.experts));
  return out;
}

std::string kind_section(const Model& model, std::size_t index) {
  const LayerKind& kind = model.kinds[index];
  std::string out = cat("\n", kind.name, " × ", std::to_string(uses_of(model, index)), ", ", grouped(parameter_count(kind)),
                        " parameters each, hidden ", grouped(kind.hidden));
  if (kind.stream == TokenStream::fixed) out += cat(", ", grouped(kind.fixed_tokens), " tokens");
  std::vector<std::vector<std::string>> rows{{"operator", "kind", "shape", "split", "parameters"}};
  for (const Operator& op : kind.operators) {
    rows.push_back({op.name, std::string(name_of(op.kind)), shape_of(op), std::string(name_of(op.split)),
                    op.parameters > 0 ? grouped(op.parameters) : "–"});
  }
  return cat(out, "\n", table(rows, {1, 2, 3}));
}

std::string note_section(const Model& model) {
  if (model.notes.empty()) return "";
  std::string out = "\nNotes\n";
  for (const ModelNote& note : model.notes) {
    out += cat("  ", note.text.empty() ? note.key : note.text, "  (", name_of(note.kind), ")\n");
  }
  return out;
}

void write_operator(base::JsonWriter& w, const Operator& op) {
  w.compact_next().begin_object();
  w.key("name").value(op.name);
  w.key("kind").value(name_of(op.kind));
  w.key("in").value(op.in);
  w.key("out").value(op.out);
  w.key("split").value(name_of(op.split));
  w.key("parameters").value(op.parameters);
  if (op.kind == OperatorKind::attention) {
    w.key("heads").value(op.heads);
    w.key("kv_heads").value(op.kv_heads);
    w.key("qk_dim").value(op.qk_dim);
    w.key("v_dim").value(op.v_dim);
    w.key("causal").value(op.causal);
    w.key("window").value(op.window);
  }
  if (op.experts > 0) {
    w.key("experts").value(op.experts);
    w.key("top_k").value(op.top_k);
  }
  w.end_object();
}

}  // namespace

std::string inspect_model(const Model& model, std::size_t width) {
  const std::int64_t parameters = parameter_count(model), active = active_parameter_count(model);
  std::string out = cat(model.name, " (", model.family, ")\n");
  out += cat("  parameters   ", short_count(static_cast<double>(parameters)), " (", grouped(parameters), ")");
  if (active != parameters)
    out += cat(", active per token ", short_count(static_cast<double>(active)), " (", grouped(active), ")");
  out += "\n";
  if (model.mtp_parameters > 0)
    out += cat("  of these     ", grouped(model.mtp_parameters), " in multi-token prediction, after the last block\n");
  out += cat("  layers       ", layer_runs(model), "\n");
  if (model.vocabulary > 0) {
    out += cat("  vocabulary   ", grouped(model.vocabulary),
               model.tied_embeddings ? ", output projection tied" : ", output projection separate", "\n");
  }
  if (model.max_positions > 0) out += cat("  positions    at most ", grouped(model.max_positions), "\n");
  for (std::size_t i = 0; i < model.kinds.size(); ++i) out += kind_section(model, i);
  return lay_out(out + note_section(model), width);
}

std::string inspect_model_json(const Model& model) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.model/1");
  w.key("name").value(model.name);
  w.key("family").value(model.family);
  w.key("parameters").value(parameter_count(model));
  w.key("active_parameters").value(active_parameter_count(model));
  w.key("mtp_parameters").value(model.mtp_parameters);
  w.key("vocabulary").value(model.vocabulary);
  w.key("tied_embeddings").value(model.tied_embeddings);
  w.key("max_positions").value(model.max_positions);
  w.key("blocks").value(model.blocks());
  w.key("layers").compact_next().begin_array();
  for (std::int32_t kind : model.layers) w.value(kind);
  w.end_array();
  w.key("kinds").begin_array();
  for (const LayerKind& kind : model.kinds) {
    w.begin_object();
    w.key("name").value(kind.name);
    w.key("hidden").value(kind.hidden);
    w.key("parameters").value(parameter_count(kind));
    w.key("operators").begin_array();
    for (const Operator& op : kind.operators) write_operator(w, op);
    w.end_array();
    w.end_object();
  }
  w.end_array();
  w.key("notes").begin_array();
  for (const ModelNote& note : model.notes) {
    w.compact_next().begin_object();
    w.key("kind").value(name_of(note.kind));
    w.key("key").value(note.key);
    w.key("text").value(note.text);
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

}  // namespace espalier::report
