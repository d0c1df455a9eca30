//! Mongoose's `populate`, in a process of Node.js beside this one.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use crate::{
    contender::{Contender, Result, odm::Odm},
    data::IN_CATEGORY,
    measure::{self, Sizes},
};

/// How many joins each does in a round, one after the other.
const JOINS: usize = 10;

/// The other process.
struct Mongoose {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mongoose {
    /// Installs what it needs beside the build, and connects it.
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

    /// How many parts the products of a category have.
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

/// Both join the same products with their parts, in turns, on a database that is filled.
pub(crate) async fn compare(odm: &mut Odm, url: &str, sizes: Sizes) -> Result<()> {
    let mut mongoose = Mongoose::start(url)?;
    let (mut times_a, mut times_b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=sizes.rounds {
        let category = |n: usize| -> Result<i64> {
            Ok(i64::try_from(round * JOINS + n)? * 7 % (sizes.products / IN_CATEGORY))
        };
        let (mut own_parts, mut other_parts) = (0, 0);
        let start = Instant::now();
        for n in 0..JOINS {
            let joined = odm.join(category(n)?).await?;
            own_parts += joined.iter().map(|(_, parts)| parts.len()).sum::<usize>();
        }
        let own = start.elapsed().as_secs_f64() / JOINS as f64;
        let start = Instant::now();
        for n in 0..JOINS {
            other_parts += mongoose.join(category(n)?)?;
        }
        let other = start.elapsed().as_secs_f64() / JOINS as f64;
        if own_parts != other_parts {
            return Err("the contenders do not agree".into());
        }
        // The first round warms up and is left out.
        if round > 0 {
            times_a.push(own);
            times_b.push(other);
            ratios.push(own / other);
        }
    }
    measure::head("odm, MongoDB", "Mongoose");
    measure::line(measure::JOIN, &mut times_a, &mut times_b, &mut ratios);
    Ok(())
}
