//! A partitioned graph as text: a list of operations for each task, then the values sent between
//! tasks.

use super::drawing::Drawing;

/// The text.
pub(super) fn render(drawing: &Drawing) -> String {
    let mut text = format!("{}\n", drawing.title);
    for part in &drawing.parts {
        let names = part.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
        let kinds = part.nodes.iter().map(|node| node.kind.len()).max().unwrap_or(0);
        append!(text, "\n{} ({} operations)\n", part.task, part.nodes.len());
        for node in &part.nodes {
            let types: Vec<String> = node.types.iter().map(ToString::to_string).collect();
            let line =
                format!("  {:<names$}  {:<kinds$}  {}", node.name, node.kind, types.join(", "));
            append!(text, "{}\n", line.trim_end());
        }
    }
    append!(text, "\nbetween tasks ({})\n", drawing.crossings.len());
    for crossing in &drawing.crossings {
        append!(
            text,
            "  {} -> {}  {}  {}\n",
            crossing.from,
            crossing.to,
            crossing.name,
            crossing.size()
        );
    }
    text
}
