//! A package with dependencies, maintainers and dependent packages.

use crate::catalog::{
    Db,
    model::{Card, Package},
    table::{Table, thousands},
};

/// Runs five queries for any number of dependencies: the package, the maintainer, the dependencies, the maintainers of the
/// dependencies, and some dependent packages.
///
/// # Errors
///
/// Returns database errors.
pub async fn package(db: &Db, name: &str, limit: usize) -> odm::Result<String> {
    let found = db
        .find::<Package>()
        .filter(|p| p.id().eq(name))
        .with(|p| p.maintainer())
        .with(|p| p.depends().select::<Card>().with(|d| d.maintainer()))
        .with(|p| p.required_by().select::<Card>().limit(limit))
        .first()
        .await?;
    let Some((package, maintainer, dependencies, dependents)) = found else {
        return Ok(format!("There is no package {name}.\n"));
    };

    let mut depends = Table::new(["depends on", "version", "maintainer"]);
    for (dependency, maintainer) in dependencies.loaded() {
        let maintainer = maintainer.loaded().map_or("nobody", |m| &m.name);
        depends.row([&dependency.id, &dependency.version.number, &maintainer]);
    }
    for name in &package.missing {
        depends.row([name, &"(no package has this name)", &""]);
    }

    let mut required = Table::new(["required by", "what it is"]);
    for dependent in dependents.loaded() {
        required.row([&dependent.id, &dependent.summary]);
    }

    Ok(format!(
        "{} {}: {}\n  in {}, {} bytes, maintained by {}, required by {} packages\n\n{depends}\n{required}",
        package.id,
        package.version.number,
        package.summary,
        package.section,
        thousands(package.size.download.unsigned_abs()),
        maintainer.loaded().map_or("nobody", |m| &m.name),
        thousands(package.required_by.len()),
    ))
}
