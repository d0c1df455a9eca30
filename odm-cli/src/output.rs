use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::extended_json::unreadable;
use crate::failure::Result;
use crate::text::escape_controls;

/// The standard output.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    is_json: bool,
}

impl Output {
    pub(crate) fn new(is_json: bool) -> Output {
        Output {
            writer: BufWriter::new(io::stdout().lock()),
            is_json,
        }
    }

    /// Whether the caller wants JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    pub(crate) fn writer(&mut self) -> &mut impl Write {
        &mut self.writer
    }

    /// Writes a text and the end of the line. Names in the text may have control characters, which are escaped.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        let text = text.to_string();
        Ok(writeln!(self.writer, "{}", escape_controls(&text))?)
    }

    /// Writes the lines of a text.
    pub(crate) fn lines(&mut self, text: impl Display) -> Result<()> {
        text.to_string()
            .lines()
            .try_for_each(|line| self.line(line))
    }

    /// Writes a value as JSON on one line. Writes nothing if the value cannot be serialized.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value).map_err(|error| unreadable(&error))?;
        line.push(b'\n');
        Ok(self.writer.write_all(&line)?)
    }

    /// Writes the buffered bytes.
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}
