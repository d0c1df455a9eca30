//! Text tables with aligned columns.

use std::fmt;

/// The maximum width of a column. Longer cells are cut off.
const MAX_COLUMN_WIDTH: usize = 48;

/// A table with a heading and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// Creates a table without rows. A column with a leading space in the heading is aligned to the right.
    #[must_use]
    pub fn new(heading: [&'static str; N]) -> Self {
        Self {
            heading,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [&dyn fmt::Display; N]) {
        self.rows.push(cells.map(|cell| shorten(&cell.to_string())));
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([self.heading[column].trim().len()])
            .max()
            .unwrap_or(0)
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading = self.heading.map(|text| text.trim().to_owned());
        for row in [&heading].into_iter().chain(&self.rows) {
            let mut line = String::from("  ");
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                line += &if self.heading[column].starts_with(' ') {
                    format!("{cell:>width$}  ")
                } else {
                    format!("{cell:<width$}  ")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Formats a number with thousands separators: `63,440`.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_COLUMN_WIDTH {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(MAX_COLUMN_WIDTH - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["name", " size"]);
        table.row([&"a", &thousands(1_234)]);
        table.row([&"long name", &thousands(7)]);
        let text = "  name        size\n  a          1,234\n  long name      7\n";
        assert_eq!(table.to_string(), text);
    }
}
