//! Prints the results as Markdown tables and as JSON lines.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use odm_benches::figures::format_seconds;
use serde_json::json;

use crate::{
    contender::{Kind, Result},
    measure::{FileResult, Times},
    row::Row,
};

/// The results of a row.
pub(crate) struct RowResult {
    pub(crate) row: Row,
    pub(crate) name: String,
    /// The times in the order of the contenders. `None` if a contender does not support the row.
    pub(crate) times: Vec<Option<Times>>,
}

/// The absent value in a table.
const ABSENT: &str = "–";

/// Prints the head of the table of wall times.
pub(crate) fn print_head(kinds: &[Kind]) {
    println!(
        "\nMedian wall time of one operation, and the time divided by the time of SQLite. In the row with relaxed commits"
    );
    println!(
        "a power loss can lose the last writes: SQLite has synchronous=NORMAL, and the engine `durability=relaxed`.\n"
    );
    print_columns("", kinds.iter().map(|kind| kind.name().to_owned()));
}

/// Prints a line of the table of wall times.
pub(crate) fn print_row(result: &RowResult) {
    let cell = |times: &Times| {
        let value = if result.row.is_rate() {
            format!("{}/s", format_count(1.0 / times.median_wall))
        } else {
            format_seconds(times.median_wall)
        };
        match times.ratio {
            Some(ratio) => format!("{value}, {ratio:.2}×"),
            None => value,
        }
    };
    print_line(
        &result.name,
        result.times.iter().map(|times| times.as_ref().map(cell)),
    );
}

/// Prints the table of CPU times.
pub(crate) fn print_cpu(kinds: &[Kind], results: &[RowResult]) {
    println!("\nMedian CPU time of one operation, with all threads of the process:\n");
    print_columns("", kinds.iter().map(|kind| kind.name().to_owned()));
    for result in results {
        let cell = |times: &Times| format_seconds(times.median_cpu);
        print_line(
            &result.name,
            result.times.iter().map(|times| times.as_ref().map(cell)),
        );
    }
}

/// Prints the table of files.
pub(crate) fn print_files(files: &[FileResult]) {
    println!("\nThe files after the last row:\n");
    let columns = ["size", "open again, with one read"];
    print_columns("", columns.into_iter().map(str::to_owned));
    for file in files {
        let size = format!("{:.1} MB", file.bytes as f64 / 1e6);
        let cells = [Some(size), Some(format_seconds(file.open))];
        print_line(file.kind.name(), cells.into_iter());
    }
}

fn print_columns(first: &str, columns: impl Iterator<Item = String>) {
    let columns: Vec<_> = columns.collect();
    println!("| {first} | {} |", columns.join(" | "));
    println!("|---|{}", "---:|".repeat(columns.len()));
}

fn print_line(name: &str, cells: impl Iterator<Item = Option<String>>) {
    let cells = cells.map(|cell| cell.unwrap_or_else(|| ABSENT.to_owned()));
    println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

/// The sizes in each line of JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSizes {
    pub(crate) rounds: u16,
    pub(crate) documents: i64,
    pub(crate) document_bytes: usize,
}

/// Writes a line of JSON for each row and contender, for each file, and for the memory.
pub(crate) fn write_json(
    path: &Path,
    sizes: RunSizes,
    results: &[RowResult],
    files: &[FileResult],
    peak_memory_mib: Option<u64>,
) -> Result<()> {
    let mut output = File::create(path)?;
    let RunSizes {
        rounds,
        documents,
        document_bytes,
    } = sizes;
    for result in results {
        for times in result.times.iter().flatten() {
            let line = json!({
                "row": result.name, "contender": times.kind.name(),
                "mean_wall_us": times.mean_wall * 1e6, "wall_us": times.median_wall * 1e6, "cpu_us": times.median_cpu * 1e6, "ratio": times.ratio,
                "rounds": rounds, "documents": documents, "bytes": document_bytes,
            });
            writeln!(output, "{line}")?;
        }
    }
    for file in files {
        let line = json!({
            "row": "file", "contender": file.kind.name(),
            "file_bytes": file.bytes, "open_us": file.open * 1e6,
            "documents": documents, "bytes": document_bytes,
        });
        writeln!(output, "{line}")?;
    }
    let line = json!({
        "row": "peak memory", "peak_memory_mib": peak_memory_mib,
        "documents": documents, "bytes": document_bytes,
    });
    writeln!(output, "{line}")?;
    Ok(())
}

/// Prints the load of the machine, on Linux. On a busy machine, a caller waits several milliseconds after each sync, and the durable
/// writes of all contenders look equally slow.
pub(crate) fn print_machine_load() {
    let Ok(load) = fs::read_to_string("/proc/loadavg") else {
        return;
    };
    let (minute, _) = load.split_once(' ').unwrap_or((&load, ""));
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    println!("Load of the machine at this time: {minute}, with {processors} processors");
}

pub(crate) fn print_peak_memory(mebibytes: Option<u64>) {
    match mebibytes {
        Some(mebibytes) => println!("\nPeak memory of the process: {mebibytes} MiB"),
        None => println!("\nPeak memory of the process: not known on this system"),
    }
}

/// Returns a rounded number with thousands separators.
fn format_count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
