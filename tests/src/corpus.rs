//! The corpus: recorded results of a real MongoDB server, replayed against a backend.
//!
//! A `backend` runs operations. A format (`case`, `matrix`, `steps`, `spec`, `bytes`) replays and judges a line of a file.
//! `compare` compares a result with the recorded result, and `report` counts the verdicts.

pub(crate) mod backend;
mod bytes;
mod case;
pub(crate) mod compare;
mod json;
mod matrix;
pub(crate) mod operation;
mod reindexed;
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
pub use backend::BackendKind;
use operation::NotOffered;
use report::Report;

/// The command-line options of the corpus runner.
#[derive(Debug, Clone, clap::Parser)]
#[command(about = "Runs files of recorded answers of a MongoDB")]
pub struct Options {
    /// The backend under test.
    #[arg(long, value_enum, default_value_t = BackendKind::Engine)]
    backend: BackendKind,
    /// The cases to run: the core of the query language, or all cases.
    #[arg(long, value_enum, default_value_t = Scope::Core)]
    scope: Scope,
    /// The maximum number of printed failures per file.
    #[arg(long, value_name = "N", default_value_t = 0)]
    failures: usize,
    /// Runs each passed case again, with indexes on all its paths, and expects the same result.
    #[arg(long)]
    indexes: bool,
    /// Prints the reasons for cases that the backend does not offer, with counts.
    #[arg(long)]
    reasons: bool,
    /// The files with recorded results.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The cases to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scope {
    /// Cases of the scope `core`, and cases without a scope.
    Core,
    /// All cases.
    All,
}

/// A failed case.
struct Failure {
    question: String,
    expected: String,
    got: String,
}

/// The verdict on a case: `None` if the case passed.
type Verdict = Result<Option<Failure>, NotOffered>;

/// Runs the files, prints a summary, and returns whether no case failed.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if the backend cannot be opened.
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
    let (passed, failed) = (total.passed, total.failed);
    match total.reruns {
        0 => println!("{passed} passed, {failed} failed"),
        reruns => println!("{passed} passed, {failed} failed, {reruns} reruns with indexes"),
    }
    Ok(total.failed == 0)
}

fn run_file(file: &Path, options: &Options, backend: &mut dyn Backend) -> Result<Report, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut report = Report::default();
    let mut datasets = matrix::Datasets::beside(file);
    for line in text.lines() {
        let line = json::parse_line(line)
            .map_err(|error| format!("{}: {error}: {line}", file.display()))?;
        let scope = line.get_str("scope").unwrap_or("core");
        if options.scope == Scope::Core && scope != "core" {
            continue;
        }
        let Some(mut verdict) = judge(&line, backend, &mut datasets) else {
            continue;
        };
        if options.indexes && matches!(verdict, Ok(None)) {
            let rerun = || reindexed::rerun_with_indexes(&line, backend, &mut report.reruns);
            verdict = catch_panic(&line, rerun);
        }
        if let Ok(Some(failure)) = &verdict
            && report.failed < options.failures
        {
            println!("{}\n{failure}", line.get_str("id").unwrap_or("?"));
        }
        report.count(&verdict);
    }
    Ok(report)
}

/// Returns the verdict on a line, or `None` if the line is not a case.
fn judge(
    line: &Document,
    backend: &mut dyn Backend,
    datasets: &mut matrix::Datasets,
) -> Option<Verdict> {
    let run: &mut dyn FnMut() -> Verdict = if line.contains_key("bson_type") {
        &mut || bytes::run_bytes_case(line, backend)
    } else if line.contains_key("steps") {
        &mut || steps::run_steps(line, backend)
    } else if line.contains_key("operations") {
        &mut || spec::run_case(line, backend)
    } else if !line.contains_key("op") {
        return None;
    } else if line.contains_key("dataset") {
        &mut || matrix::run_matrix_case(line, backend, datasets)
    } else {
        &mut || case::run_case(line, backend)
    };
    Some(catch_panic(line, run))
}

/// Returns the verdict of a function. A panic is a failure.
fn catch_panic(line: &Document, judge: impl FnOnce() -> Verdict) -> Verdict {
    let judged = catch_unwind(AssertUnwindSafe(judge));
    judged.unwrap_or_else(|_| Ok(Some(Failure::new(line, line, "a panic"))))
}

impl Failure {
    fn new(question: &Document, expected: &Document, got: impl fmt::Display) -> Self {
        Self {
            question: json::print_truncated(question),
            expected: json::print_truncated(expected),
            got: got.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  question {}", self.question)?;
        writeln!(f, "  expected {}", self.expected)?;
        writeln!(f, "  got      {}", self.got)
    }
}

/// Returns the documents of an array, or no documents if the array is absent.
fn documents<'a>(line: &'a Document, name: &str) -> impl Iterator<Item = &'a Document> {
    let array = line.get_array(name).map_or(&[][..], Vec::as_slice);
    array.iter().filter_map(Bson::as_document)
}

/// Returns an embedded document of a line, or an empty document if the field is absent.
fn document<'a>(line: &'a Document, name: &str) -> &'a Document {
    static EMPTY: std::sync::LazyLock<Document> = std::sync::LazyLock::new(Document::new);
    line.get_document(name).unwrap_or(&EMPTY)
}
