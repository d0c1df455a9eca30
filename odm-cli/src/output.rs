use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::failure::Result;

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

    /// Writes a text and the end of the line.
    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> Result<()> {
        Ok(writeln!(self.writer, "{text}")?)
    }

    /// Writes a value as JSON on one line.
    pub(crate) fn json_line(&mut self, value: &Value) -> Result<()> {
        serde_json::to_writer(&mut self.writer, value).map_err(io::Error::from)?;
        Ok(self.writer.write_all(b"\n")?)
    }

    /// Writes the buffered bytes.
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}
