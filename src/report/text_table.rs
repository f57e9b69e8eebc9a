//! Tables as text: aligned for a terminal, or in Markdown, as GitHub reads it.

/// How a text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// For a terminal.
    Plain,
    /// For an issue or a note on GitHub.
    Markdown,
}

/// A table; its first row has the columns' names. Its first column is to the left, as any other of
/// words; columns of numbers are to the right.
#[derive(Clone, Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
    /// Whether a column is of words.
    has_words: Vec<bool>,
}

impl Layout {
    /// A line above a table.
    pub(crate) fn title(self, text: &str) -> String {
        match self {
            Self::Plain => format!("{text}\n"),
            Self::Markdown => format!("### {}\n", escape(text)),
        }
    }

    /// Lines under a table, after an empty one; nothing if there are none.
    pub(crate) fn lines(self, lines: &[String]) -> String {
        if lines.is_empty() {
            return String::new();
        }
        let line = |line: &String| match self {
            Self::Plain => format!("{line}\n"),
            Self::Markdown => format!("- {}\n", escape(line)),
        };
        format!("\n{}", lines.iter().map(line).collect::<String>())
    }
}

impl TextTable {
    /// A table of `rows`, all of the same length; the first has the columns' names.
    pub(crate) fn new(rows: Vec<Vec<String>>) -> Self {
        let columns = rows.first().map_or(0, Vec::len);
        Self { rows, has_words: (0..columns).map(|column| column == 0).collect() }
    }

    /// The same, where `columns` are of words.
    pub(crate) fn words(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        for column in columns {
            self.has_words[column] = true;
        }
        self
    }

    /// The table as text, which ends with a newline.
    pub(crate) fn render(&self, layout: Layout) -> String {
        match layout {
            Layout::Plain => self.plain(),
            Layout::Markdown => self.markdown(),
        }
    }

    fn plain(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.has_words.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).zip(&self.has_words);
            let cells = cells.map(|((cell, width), has_words)| match has_words {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text += "\n";
        }
        text
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let row = |row: &Vec<String>| line(row.iter().map(|cell| escape(cell)).collect());
        let side = |has_words: &bool| if *has_words { ":---" } else { "---:" }.to_owned();
        let Some((titles, rows)) = self.rows.split_first() else { return String::new() };
        let mut text = row(titles) + &line(self.has_words.iter().map(side).collect());
        text.extend(rows.iter().map(row));
        text
    }
}

/// `text` with what has a meaning in Markdown spelt out, in one line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '~' | '[' | '#' => escaped.extend(['\\', c]),
            '<' => escaped += "&lt;",
            '&' => escaped += "&amp;",
            '\n' | '\r' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = vec![
            row(["run", "seconds", "limited by"]),
            row(["a|b", "1.50", "ps:0"]),
            row(["sync", "12.25", "the slowest worker"]),
        ];
        TextTable::new(rows).words([2])
    }

    #[test]
    fn a_terminal_s_columns_of_words_are_to_the_left_and_those_of_numbers_to_the_right() {
        let expected = "\
run   seconds  limited by
a|b      1.50  ps:0
sync    12.25  the slowest worker
";
        assert_eq!(table().render(Layout::Plain), expected);
    }

    #[test]
    fn a_table_in_markdown_has_sides_and_no_pipe_of_a_name_ends_a_cell() {
        let expected = "\
| run | seconds | limited by |
| :--- | ---: | :--- |
| a\\|b | 1.50 | ps:0 |
| sync | 12.25 | the slowest worker |
";
        assert_eq!(table().render(Layout::Markdown), expected);
    }

    #[test]
    fn a_name_can_t_be_markup_of_another_kind() {
        assert_eq!(escape("<b>*x*_y_\n`z`&"), "&lt;b>\\*x\\*\\_y\\_ \\`z\\`&amp;");
        assert_eq!(Layout::Markdown.lines(&["a * b".to_owned()]), "\n- a \\* b\n");
        assert_eq!(Layout::Plain.lines(&["a * b".to_owned()]), "\na * b\n");
        assert_eq!(Layout::Markdown.lines(&[]), "");
    }
}
