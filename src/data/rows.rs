//! The rows of CSV files: numbers and the text of a label, read one after the other.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use csv::{Reader, StringRecord};

use super::pipeline::{Elements, Pipeline, Source};
use super::{DataError, file};

/// A row of a CSV file.
#[derive(Clone, Debug)]
pub struct Row {
    /// The numbers, in the order of the columns.
    pub features: Vec<f32>,
    /// The label, as it is written.
    pub label: String,
    file: Arc<Path>,
    line: u64,
}

impl Row {
    /// The label as a class below `classes`.
    ///
    /// # Errors
    /// If it is no such number.
    pub fn class(&self, classes: usize) -> Result<i32, DataError> {
        let class = self.label.parse::<u32>().ok().filter(|class| (*class as usize) < classes);
        class.map(|class| class as i32).ok_or_else(|| {
            let (last, label) = (classes.max(1) - 1, &self.label);
            let next = match label.parse::<f64>() {
                Ok(_) => "",
                Err(_) => {
                    "; number the classes from 0: only a CSV file that is read as a whole, without \
                     `classes`, may have names"
                }
            };
            self.mistaken(format!("the label `{label}` is no class from 0 to {last}{next}"))
        })
    }

    /// The error that the row is not what a program asks for. It names the row's file and line.
    ///
    /// ```no_run
    /// # use trainyard::data::Pipeline;
    /// let prices = Pipeline::csv(["houses.csv".into()], "price").map(|row| {
    ///     row.label.parse::<f32>().map_err(|_| row.mistaken("the price is no number"))
    /// });
    /// ```
    pub fn mistaken(&self, problem: impl Into<String>) -> DataError {
        DataError::mistaken(&self.file, &format!("line {}", self.line), problem.into())
    }

    /// The error that the row has a `problem`.
    pub(super) fn malformed(&self, problem: String) -> DataError {
        DataError::malformed(&self.file, &format!("line {}", self.line), problem)
    }
}

impl Pipeline<Row> {
    /// The rows of `files`, gzipped or not, each with a header of its own: the column `label` has
    /// the class, every other one a number (TensorFlow: `make_csv_dataset`). An error names the
    /// file, the line and the column; files whose columns are not those of the first one, in the
    /// same order, are an error.
    pub fn csv(files: impl IntoIterator<Item = PathBuf>, label: &str) -> Self {
        Self::csv_files(files.into_iter().collect(), label, OnceLock::new())
    }

    /// The same, of files with the features `columns`.
    pub(super) fn csv_with(files: Vec<PathBuf>, label: &str, columns: Columns) -> Self {
        Self::csv_files(files.into(), label, OnceLock::from(columns))
    }

    /// The same, where `columns` has the features of all files once the first is open.
    fn csv_files(files: Arc<[PathBuf]>, label: &str, columns: OnceLock<Columns>) -> Self {
        let label = label.to_owned();
        Self::of_files(files, move |files, index| {
            let rows = Rows::open(&files[index], &label)?;
            let own = rows.columns();
            own.check_like(columns.get_or_init(|| own.clone()))?;
            Ok(Box::new(rows) as Elements<_>)
        })
    }
}

/// The names of a file's features, in their order.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    file: Arc<Path>,
    names: Vec<String>,
}

impl Columns {
    /// The number of features.
    pub(super) fn width(&self) -> usize {
        self.names.len()
    }

    /// The file and the column of the value at `index` of those of all rows.
    pub(super) fn place(&self, index: usize) -> String {
        format!("{}: column `{}`", self.file.display(), self.names[index % self.width()])
    }

    /// Checks that they are those of `first`, in the same order: a model knows a feature by its
    /// place alone.
    pub(super) fn check_like(&self, first: &Self) -> Result<(), DataError> {
        let (own, wanted, other) = (&self.names, &first.names, first.file.display());
        let place = own.iter().zip(wanted).position(|(own, wanted)| own != wanted);
        let problem = if let Some(missing) = wanted.iter().find(|name| !own.contains(name)) {
            format!("no column `{missing}`, which {other} has; it has {}", own.join(", "))
        } else if let Some(added) = own.iter().find(|name| !wanted.contains(name)) {
            format!("the column `{added}` is not in {other}: remove it from the one, or add it")
        } else if let Some(at) = place {
            format!(
                "the column `{}` stands where {other} has `{}`: write the columns of both in one \
                 order",
                own[at], wanted[at]
            )
        } else if own.len() != wanted.len() {
            format!("{} features, where {other} has {}", own.len(), wanted.len())
        } else {
            return Ok(());
        };
        Err(DataError::mistaken(&self.file, "the header", problem))
    }
}

/// The rows of one file.
pub(super) struct Rows {
    file: Arc<Path>,
    reader: Reader<Box<dyn BufRead + Send>>,
    header: StringRecord,
    /// The column of the label.
    column: usize,
    row: StringRecord,
}

impl Rows {
    /// Opens the file at `path`, whose column `label` has the class.
    pub(super) fn open(path: &Path, label: &str) -> Result<Self, DataError> {
        // A line ends at its newline alone, and a carriage return before it is trimmed: a
        // terminator of two bytes would be counted with the line after it.
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .terminator(csv::Terminator::Any(b'\n'))
            .flexible(true)
            .from_reader(file::open_text(path)?);
        let header = reader.headers().map_err(|error| in_csv(path, &error))?.clone();
        if header.is_empty() {
            let problem = "the file is empty; its first line names the columns".to_owned();
            return Err(DataError::malformed(path, "line 1", problem));
        }
        check_distinct(path, &header)?;
        let Some(column) = header.iter().position(|name| name == label) else {
            let columns: Vec<&str> = header.iter().collect();
            let columns = columns.join(", ");
            let next = match columns.as_str() {
                one if header.len() == 1 && one.contains([';', '\t']) => {
                    "; fields are separated by commas: write the file so"
                }
                _ => "",
            };
            let problem = format!("no column `{label}`; it has {columns}{next}");
            return Err(DataError::mistaken(path, "the header", problem));
        };
        Ok(Self { file: path.into(), reader, header, column, row: StringRecord::new() })
    }

    /// The columns of a row's features.
    pub(super) fn columns(&self) -> Columns {
        let others = self.header.iter().enumerate().filter(|(at, _)| *at != self.column);
        let names = others.map(|(_, name)| name.to_owned()).collect();
        Columns { file: Arc::clone(&self.file), names }
    }

    /// Reads the next row that is not empty. Returns whether there is one.
    fn read(&mut self) -> Result<bool, DataError> {
        let Self { file, reader, row, .. } = self;
        while reader.read_record(row).map_err(|error| in_csv(file, &error))? {
            if !row.iter().all(str::is_empty) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn number(&self, column: usize, line: u64) -> Result<f32, DataError> {
        let field = &self.row[column];
        let number = field.parse().ok().filter(|number: &f32| number.is_finite());
        number.ok_or_else(|| {
            let problem = match field.parse::<f64>() {
                Ok(wide) if wide.is_finite() => format!(
                    "{field} is too large for a float of 32 bits, which ends at {:e}: scale the \
                     column",
                    f32::MAX
                ),
                _ if field.is_empty() => {
                    "the field is empty: fill it in, or remove the line".to_owned()
                }
                Ok(_) => format!("`{field}` is no number: fill it in, or remove the line"),
                Err(_) => {
                    format!("`{field}` is no number: write the column as numbers, or remove it")
                }
            };
            self.malformed(column, line, problem)
        })
    }

    /// The error that the field in `column` of `line` has a `problem`.
    fn malformed(&self, column: usize, line: u64, problem: String) -> DataError {
        let place = format!("line {line}, column `{}`", &self.header[column]);
        DataError::malformed(&self.file, &place, problem)
    }
}

impl Source<Row> for Rows {
    fn next(&mut self) -> Result<Option<Row>, DataError> {
        if !self.read()? {
            return Ok(None);
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        let (fields, columns) = (self.row.len(), self.header.len());
        if fields != columns {
            let problem = format!("{fields} fields, where the header has {columns}");
            return Err(DataError::malformed(&self.file, &format!("line {line}"), problem));
        }
        let others = (0..columns).filter(|column| *column != self.column);
        let features = others.map(|column| self.number(column, line)).collect::<Result<_, _>>()?;
        let label = self.row[self.column].to_owned();
        if label.is_empty() {
            let problem = "the label is missing; write one, or remove the line".to_owned();
            return Err(self.malformed(self.column, line, problem));
        }
        Ok(Some(Row { features, label, file: Arc::clone(&self.file), line }))
    }

    fn skip(&mut self, count: u64) -> Result<u64, DataError> {
        for passed in 0..count {
            if !self.read()? {
                return Ok(passed);
            }
        }
        Ok(count)
    }
}

/// Checks that no two columns of `header` have one name; those without one, such as pandas' index,
/// may be several.
fn check_distinct(path: &Path, header: &StringRecord) -> Result<(), DataError> {
    let mut known = BTreeSet::new();
    match header.iter().find(|name| !name.is_empty() && !known.insert(*name)) {
        Some(name) => {
            let problem = format!("two columns are called `{name}`; rename one of them");
            Err(DataError::malformed(path, "the header", problem))
        }
        None => Ok(()),
    }
}

fn in_csv(path: &Path, error: &csv::Error) -> DataError {
    let line = error.position().map(|at| format!("line {}", at.line()));
    DataError::malformed(path, line.as_deref().unwrap_or("the file"), error.to_string())
}
