//! A partitioned graph as text: a list of operations for each task, then the values sent between
//! tasks.

use std::fmt::Write;

use super::drawing::Drawing;

/// The text.
pub(super) fn render(drawing: &Drawing) -> String {
    let mut text = format!("{}\n", drawing.title);
    let mut write = |line: String| writeln!(text, "{line}").expect("a string takes all");
    for part in &drawing.parts {
        let names = part.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
        let kinds = part.nodes.iter().map(|node| node.kind.len()).max().unwrap_or(0);
        write(format!("\n{} ({} operations)", part.task, part.nodes.len()));
        for node in &part.nodes {
            let types: Vec<String> = node.types.iter().map(ToString::to_string).collect();
            let line =
                format!("  {:<names$}  {:<kinds$}  {}", node.name, node.kind, types.join(", "));
            write(line.trim_end().to_owned());
        }
    }
    write(format!("\nbetween tasks ({})", drawing.crossings.len()));
    for crossing in &drawing.crossings {
        write(format!(
            "  {} -> {}  {}  {}",
            crossing.from,
            crossing.to,
            crossing.name,
            crossing.size()
        ));
    }
    text
}
