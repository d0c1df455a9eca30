//! A package with its dependencies, and who looks after them.

use odm::prelude::*;

use crate::catalog::{
    Db,
    model::Package,
    table::{Table, thousands},
};

/// Four queries, however many dependencies there are: the package, its maintainer, its dependencies, their maintainers.
/// A fifth asks the other way round who depends on it.
///
/// # Errors
///
/// Those of the database.
pub async fn package(db: &Db, name: &str) -> odm::Result<String> {
    let found = db
        .find::<Package>()
        .filter(|p| p.id().eq(name))
        .with(|p| p.maintainer())
        .with(|p| p.depends().with(|d| d.maintainer()))
        .first()
        .await?;
    let Some((package, maintainer, dependencies)) = found else {
        return Ok(format!("There is no package {name}.\n"));
    };

    let mut table = Table::new(["depends on", "version", "maintainer"]);
    for dependency in &dependencies {
        match dependency {
            Loaded((dependency, maintainer)) => {
                let maintainer = maintainer.loaded().map_or("nobody", |m| &m.name);
                table.row([&dependency.id, &dependency.version.number, &maintainer]);
            }
            Missing(name) => table.row([name, &"(no package has this name)", &""]),
        }
    }

    let required_by = db
        .find::<Package>()
        .filter(|p| p.depends().contains(&package))
        .count()
        .await?;

    Ok(format!(
        "{} {}: {}\n  in {}, {} bytes, maintained by {}, required by {} packages\n\n{table}",
        package.id,
        package.version.number,
        package.summary,
        package.section,
        thousands(package.size.download.unsigned_abs()),
        maintainer.loaded().map_or("nobody", |m| &m.name),
        thousands(required_by),
    ))
}
