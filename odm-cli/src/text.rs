//! Texts for people.

use std::borrow::Cow;

const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

/// Returns a size with one decimal and a unit.
pub(crate) fn format_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while tenths >= 10_240
        && let Some(larger) = units.next()
    {
        tenths /= 1024;
        unit = Some(larger);
    }
    let unit = unit.copied().unwrap_or_default();
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Returns the text with escapes in place of control characters, which could change the lines or the state of a terminal.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escape = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Returns the rows as lines with aligned columns. Columns from `first_number` on are aligned to the right.
pub(crate) fn align_columns(rows: &[Vec<String>], first_number: usize) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column < first_number {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = [0, 1023, 1024, 1536, 5 << 20, 3 << 30, 2 << 40, u64::MAX];
        let texts = [
            "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 GiB", "2.0 TiB",
        ];
        for (size, text) in sizes.into_iter().zip(texts) {
            assert_eq!(format_bytes(size), text);
        }
        assert!(format_bytes(u64::MAX).ends_with("TiB"));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_controls("\u{1b}[31m ä\n"), "\\u{1b}[31m ä\\n");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "1"], ["bcd", "100"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(align_columns(&rows, 1), ["a      1", "bcd  100"]);
    }
}
