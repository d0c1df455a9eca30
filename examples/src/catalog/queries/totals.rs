//! Totals of the catalog.

use std::fmt;

use super::Requirements;
use crate::catalog::{
    Db,
    model::{Maintainer, Package, Section},
    table::thousands,
};

/// Totals of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Packages.
    pub packages: u64,
    /// Maintainers.
    pub maintainers: u64,
    /// Sections.
    pub sections: u64,
    /// Dependencies of all packages.
    pub dependencies: u64,
    /// Dependency names without a package.
    pub missing: u64,
    /// Packages with an inverse that has overflowed.
    pub outliers: usize,
    /// The most required package, and the number of dependent packages.
    pub most_required: Option<(String, u64)>,
}

/// Counts packages, maintainers, sections and dependencies.
///
/// # Errors
///
/// Returns database errors.
pub async fn totals(db: &Db, requirements: &Requirements) -> odm::Result<Totals> {
    Ok(Totals {
        packages: db.find::<Package>().count().await?,
        maintainers: db.find::<Maintainer>().count().await?,
        sections: db.find::<Section>().count().await?,
        dependencies: requirements.total(),
        missing: requirements.missing.len() as u64,
        outliers: requirements.outliers,
        most_required: requirements.packages.first().cloned(),
    })
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: String| writeln!(f, "  {name:<14}{value:>8}");
        line("packages", thousands(self.packages))?;
        line("maintainers", thousands(self.maintainers))?;
        line("sections", thousands(self.sections))?;
        line("dependencies", thousands(self.dependencies))?;
        line("missing names", thousands(self.missing))?;
        line("outliers", thousands(self.outliers as u64))?;
        if let Some((package, number)) = &self.most_required {
            let number = thousands(*number);
            writeln!(f, "  most required: {package}, by {number} packages")?;
        }
        Ok(())
    }
}
