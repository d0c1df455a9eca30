//! How much there is.

use std::fmt;

use super::Requirements;
use crate::catalog::{
    Db,
    model::{Maintainer, Package, Section},
    table::thousands,
};

/// How much there is of everything.
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
    /// Names that packages depend on and that no package has.
    pub missing: u64,
    /// Packages that so many depend on that not all of these are listed in them.
    pub outliers: usize,
    /// What most packages depend on, and how many these are.
    pub most_required: Option<(String, u64)>,
}

/// Counts everything.
///
/// # Errors
///
/// Those of the database.
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
