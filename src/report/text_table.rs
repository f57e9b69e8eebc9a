//! Tables as text: aligned for a terminal, or in Markdown, as GitHub reads it.

/// The spaces between two columns.
const BETWEEN: usize = 2;

/// How a text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// For a file or a pipe: a line for each row, however long.
    Plain,
    /// For a terminal of so many columns: a wider table is cut, and lines are wrapped at words.
    Within(usize),
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
            Self::Within(columns) => wrapped(text, columns),
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
            Self::Within(columns) => wrapped(line, columns),
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
            Layout::Plain => self.plain(&Vec::from_iter(0..self.has_words.len())),
            Layout::Within(columns) => {
                let parts = self.parts(columns);
                parts.iter().map(|part| self.plain(part)).collect::<Vec<_>>().join("\n")
            }
            Layout::Markdown => self.markdown(),
        }
    }

    /// The columns of each of the tables that this one is cut into, so that none is wider than
    /// `limit`. Each begins with the first column.
    fn parts(&self, limit: usize) -> Vec<Vec<usize>> {
        let (mut parts, mut used) = (vec![vec![0]], self.width(0));
        for column in 1..self.has_words.len() {
            let more = BETWEEN + self.width(column);
            let part = parts.last_mut().expect("there is one from the beginning");
            if part.len() > 1 && used + more > limit {
                parts.push(vec![0, column]);
                used = self.width(0) + more;
            } else {
                part.push(column);
                used += more;
            }
        }
        parts
    }

    /// The width of a column's widest cell.
    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }

    /// The table's `columns`, aligned.
    fn plain(&self, columns: &[usize]) -> String {
        let widths: Vec<usize> = columns.iter().map(|column| self.width(*column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = columns.iter().zip(&widths).map(|(column, width)| {
                let cell = &row[*column];
                match self.has_words[*column] {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                }
            });
            text += cells.collect::<Vec<_>>().join(&" ".repeat(BETWEEN)).trim_end();
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

/// `text` in lines of at most `columns`, unless a word is longer; those after the first are
/// indented.
fn wrapped(text: &str, columns: usize) -> String {
    let (mut wrapped, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > columns {
            wrapped += "\n  ";
            used = 2;
        } else if !wrapped.is_empty() {
            wrapped.push(' ');
            used += 1;
        }
        wrapped += word;
        used += length;
    }
    wrapped + "\n"
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

    #[test]
    fn a_table_wider_than_the_terminal_is_cut_and_lines_are_wrapped_at_words() {
        let expected = "\
run   seconds
a|b      1.50
sync    12.25

run   limited by
a|b   ps:0
sync  the slowest worker
";
        assert_eq!(table().render(Layout::Within(24)), expected);
        assert_eq!(table().render(Layout::Within(33)), table().render(Layout::Plain));
        let lines = Layout::Within(9).lines(&["one two three".to_owned()]);
        assert_eq!(lines, "\none two\n  three\n");
    }
}
