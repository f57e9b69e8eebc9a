//! How a command prints its result.

use crate::report::Layout;

/// How a command prints its result; a table for a terminal where nothing is said.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FormatArgs {
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    json: bool,

    /// Print the tables in Markdown, as for an issue on GitHub.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// The form of a printed result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Tables and lines.
    Text(Layout),
    /// One value in JSON.
    Json,
}

impl FormatArgs {
    pub(crate) fn format(self) -> Format {
        match (self.json, self.markdown) {
            (true, _) => Format::Json,
            (false, true) => Format::Text(Layout::Markdown),
            (false, false) => Format::Text(Layout::Plain),
        }
    }
}
