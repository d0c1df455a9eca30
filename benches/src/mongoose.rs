//! A benchmark of Mongoose's `populate`, in a separate Node.js process.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use crate::{
    contender::{Contender, Result, odm::Odm},
    data::PRODUCTS_PER_CATEGORY,
    measure::{self, MeasureSizes},
};

/// The number of sequential joins in a round.
const JOINS_PER_ROUND: usize = 10;

/// The Node.js process.
struct Mongoose {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mongoose {
    /// Installs Mongoose in the target directory, starts the process and connects to the database.
    fn start(url: &str) -> Result<Self> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("mongoose");
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mongoose");
        std::fs::create_dir_all(&place)?;
        for file in ["package.json", "join.js"] {
            std::fs::copy(sources.join(file), place.join(file))?;
        }
        let install = Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund"])
            .current_dir(&place)
            .status()?;
        if !install.success() {
            return Err("`npm install mongoose` has failed".into());
        }
        let mut child = Command::new("node")
            .args(["join.js", url])
            .current_dir(&place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let asked = child.stdin.take().ok_or("no input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut started = Self {
            child,
            asked,
            answers,
        };
        match started.answer()?.as_str() {
            "ready" => Ok(started),
            other => Err(format!("Mongoose says {other}").into()),
        }
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Returns the number of parts in the products of a category.
    fn join(&mut self, category: i64) -> Result<usize> {
        writeln!(self.asked, "{category}")?;
        self.asked.flush()?;
        Ok(self.answer()?.parse()?)
    }
}

impl Drop for Mongoose {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Joins the same products with the parts in turns, on a filled database.
pub(crate) async fn compare(odm: &mut Odm, url: &str, sizes: MeasureSizes) -> Result<()> {
    let mut mongoose = Mongoose::start(url)?;
    let (mut times_a, mut times_b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=sizes.rounds {
        let category = |n: usize| -> Result<i64> {
            Ok(i64::try_from(round * JOINS_PER_ROUND + n)? * 7
                % (sizes.products / PRODUCTS_PER_CATEGORY))
        };
        let (mut own_parts, mut other_parts) = (0, 0);
        let start = Instant::now();
        for n in 0..JOINS_PER_ROUND {
            let joined = odm.join(category(n)?).await?;
            own_parts += joined.iter().map(|(_, parts)| parts.len()).sum::<usize>();
        }
        let odm_seconds = start.elapsed().as_secs_f64() / JOINS_PER_ROUND as f64;
        let start = Instant::now();
        for n in 0..JOINS_PER_ROUND {
            other_parts += mongoose.join(category(n)?)?;
        }
        let other = start.elapsed().as_secs_f64() / JOINS_PER_ROUND as f64;
        if own_parts != other_parts {
            return Err("the contenders do not agree".into());
        }
        // The first round is a warm-up and does not count.
        if round > 0 {
            times_a.push(odm_seconds);
            times_b.push(other);
            ratios.push(odm_seconds / other);
        }
    }
    measure::print_head("odm, MongoDB", "Mongoose");
    measure::print_line(measure::JOIN_TASK, &times_a, &times_b, &ratios);
    Ok(())
}
