//! A partitioned graph in the language of Graphviz: a cluster for each task, dashed control edges,
//! and the bytes of each value sent between tasks.

use super::drawing::Drawing;
use crate::say::escaped;

/// The `digraph`.
pub(super) fn render(drawing: &Drawing) -> String {
    let mut dot = format!("digraph {} {{\n  node [shape=box];\n", quoted(&drawing.title));
    for (i, part) in drawing.parts.iter().enumerate() {
        append!(dot, "  subgraph cluster_{i} {{\n    label={};\n", quoted(&part.task));
        for node in &part.nodes {
            let types: Vec<String> = node.types.iter().map(ToString::to_string).collect();
            let label = quoted(&format!("{}\n{} {}", node.name, node.kind, types.join(", ")));
            append!(dot, "    {} [label={label}];\n", quoted(&node.name));
        }
        dot += "  }\n";
    }
    for arrow in &drawing.arrows {
        let style = if arrow.is_control { "style=dashed" } else { "style=solid" };
        let label = arrow
            .label
            .as_ref()
            .map(|label| format!(", label={}", quoted(label)))
            .unwrap_or_default();
        append!(dot, "  {} -> {} [{style}{label}];\n", quoted(&arrow.from), quoted(&arrow.to));
    }
    dot += "}\n";
    dot
}

/// A quoted identifier, with line breaks as `\n`. Graphviz shows what a terminal would obey as
/// [`escaped`] does.
fn quoted(text: &str) -> String {
    let text = escaped(text).replace('\\', "\\\\");
    format!("\"{}\"", text.replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_quote_is_escaped() {
        assert_eq!(quoted("a \"b\" \\ c\nd"), r#""a \"b\" \\ c\nd""#);
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped_once_more_for_graphviz() {
        assert_eq!(quoted("a\u{202e}b"), r#""a\\u{202e}b""#);
    }
}
