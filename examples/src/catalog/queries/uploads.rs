//! The latest uploads.

use crate::catalog::{Db, model::Section, table::Table};

/// Returns the latest uploads of the largest sections, in a single query, because each section stores a latest list.
///
/// # Errors
///
/// Returns database errors.
pub async fn latest_uploads(db: &Db, sections: u64) -> odm::Result<Table<3>> {
    let sections = db
        .find::<Section>()
        .sort(|s| (s.packages().desc(), s.id().asc()))
        .limit(sections)
        .all()
        .await?;
    let mut table = Table::new(["section", "version", "what it is"]);
    for section in &sections {
        for upload in &section.uploads {
            table.row([&section.id, &upload.version.number, &upload.summary]);
        }
    }
    Ok(table)
}
