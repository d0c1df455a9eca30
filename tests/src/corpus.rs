//! The corpus: recorded answers of a real MongoDB, asked of a backend again.
//!
//! A `backend` carries out operations; a format (`case`, `matrix`, `steps`, `spec`, `bytes`) knows how a line of a file is asked
//! and judged; `compare` decides whether an answer is the recorded one, and `report` counts.

mod backend;
mod bytes;
mod case;
mod compare;
mod json;
mod matrix;
mod operation;
mod report;
mod spec;
mod steps;

use std::{
    fmt, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use bson::{Bson, Document};

use backend::Backend;
pub use backend::Kind;
use operation::NotOffered;
use report::Report;

/// What to run, and how much to say.
#[derive(Debug, Clone, clap::Parser)]
#[command(about = "Runs files of recorded answers of a MongoDB")]
pub struct Options {
    /// What is asked.
    #[arg(long, value_enum, default_value_t = Kind::Engine)]
    backend: Kind,
    /// Which cases are asked: the core of the language, or all.
    #[arg(long, value_enum, default_value_t = Scope::Core)]
    scope: Scope,
    /// How many failures of each file are printed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    failures: usize,
    /// Prints what was not offered, and how often.
    #[arg(long)]
    reasons: bool,
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Which cases are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scope {
    /// Those that the corpus calls `core`, and those of the files that make no difference.
    Core,
    /// All.
    All,
}

/// How a case failed.
struct Failure {
    asked: String,
    expected: String,
    got: String,
}

/// What came of a case: nothing if it passed.
type Verdict = Result<Option<Failure>, NotOffered>;

/// Runs the files, prints what comes of it, and returns whether nothing failed.
///
/// # Errors
///
/// A file that cannot be read, a backend that cannot be had.
pub fn run(options: &Options) -> Result<bool, String> {
    let mut backend = backend::open(options.backend)?;
    let mut total = Report::default();
    for file in &options.files {
        let report = run_file(file, options, &mut *backend)?;
        let name = file.file_name().unwrap_or(file.as_os_str());
        println!("{}: {report}", name.display());
        if options.reasons {
            print!("{}", report.reasons());
        }
        total.add(&report);
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn run_file(file: &Path, options: &Options, backend: &mut dyn Backend) -> Result<Report, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut report = Report::default();
    let mut datasets = matrix::Datasets::beside(file);
    for line in text.lines() {
        let line =
            json::parse(line).map_err(|error| format!("{}: {error}: {line}", file.display()))?;
        let scope = line.get_str("scope").unwrap_or("core");
        if options.scope == Scope::Core && scope != "core" {
            continue;
        }
        let Some(verdict) = judge(&line, backend, &mut datasets) else {
            continue;
        };
        if let Ok(Some(failure)) = &verdict
            && report.failed < options.failures
        {
            println!("{}\n{failure}", line.get_str("id").unwrap_or("?"));
        }
        report.count(&verdict);
    }
    Ok(report)
}

/// What comes of a line; none if it is no case.
fn judge(
    line: &Document,
    backend: &mut dyn Backend,
    datasets: &mut matrix::Datasets,
) -> Option<Verdict> {
    let run: &mut dyn FnMut() -> Verdict = if line.contains_key("bson_type") {
        &mut || bytes::judge(line, backend)
    } else if line.contains_key("steps") {
        &mut || steps::judge(line, backend)
    } else if line.contains_key("operations") {
        &mut || spec::judge(line, backend)
    } else if !line.contains_key("op") {
        return None;
    } else if line.contains_key("dataset") {
        &mut || matrix::judge(line, backend, datasets)
    } else {
        &mut || case::judge(line, backend)
    };
    let judged = catch_unwind(AssertUnwindSafe(run));
    Some(judged.unwrap_or_else(|_| Ok(Some(Failure::new(line, line, "a panic")))))
}

impl Failure {
    fn new(asked: &Document, expected: &Document, got: impl fmt::Display) -> Self {
        Self {
            asked: json::print(asked),
            expected: json::print(expected),
            got: got.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  asked    {}", self.asked)?;
        writeln!(f, "  expected {}", self.expected)?;
        writeln!(f, "  got      {}", self.got)
    }
}

/// The documents of an array; none if it is absent.
fn documents<'a>(line: &'a Document, name: &str) -> impl Iterator<Item = &'a Document> {
    let array = line.get_array(name).map_or(&[][..], Vec::as_slice);
    array.iter().filter_map(Bson::as_document)
}

/// A document of a line; empty if it is absent.
fn document<'a>(line: &'a Document, name: &str) -> &'a Document {
    static EMPTY: std::sync::LazyLock<Document> = std::sync::LazyLock::new(Document::new);
    line.get_document(name).unwrap_or(&EMPTY)
}
