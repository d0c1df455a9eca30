//! Maintainers and their packages.

use odm::prelude::*;

use crate::catalog::{
    Db,
    model::{Card, Maintainer, Package},
    table::{Table, thousands},
};

/// Returns the largest packages of each maintainer with this name prefix, in two queries for any number of maintainers.
///
/// # Errors
///
/// Returns database errors.
pub async fn of_maintainer(db: &Db, name: &str, limit: u64) -> odm::Result<Table<4>> {
    let maintainers = db
        .find::<Maintainer>()
        .filter(|m| m.name().starts_with(name))
        .sort(|m| m.name().asc())
        .with_children(
            Package::by(|p| p.maintainer())
                .sort(|p| p.size().download().desc())
                .limit(limit)
                .select::<Card>(),
        )
        .all()
        .await?;

    let mut table = Table::new(["maintainer", " bytes", "package", "what it is"]);
    for (maintainer, packages) in &maintainers {
        for package in packages {
            let bytes = thousands(package.size.download.unsigned_abs());
            table.row([&maintainer.name, &bytes, &package.id, &package.summary]);
        }
    }
    Ok(table)
}

/// Returns the maintainers with the most packages, in a single query, because each maintainer stores a count.
///
/// # Errors
///
/// Returns database errors.
pub async fn busiest(db: &Db, limit: u64) -> odm::Result<Table<2>> {
    let maintainers = db
        .find::<Maintainer>()
        .sort(|m| (m.packages().desc(), m.name().asc()))
        .limit(limit)
        .all()
        .await?;
    let mut table = Table::new([" packages", "maintainer"]);
    for maintainer in &maintainers {
        let packages = thousands(maintainer.packages.unsigned_abs());
        table.row([&packages, &maintainer.name]);
    }
    Ok(table)
}
