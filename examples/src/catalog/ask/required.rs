//! Which packages the others depend on.
//!
//! The database has no say in this: the application reads the dependencies alone, a batch at a time, and counts.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use odm::prelude::*;

use crate::catalog::{
    Db,
    model::Package,
    table::{Table, thousands},
};

/// What is read of a package.
#[derive(Debug, Deserialize, Projection)]
#[projection(of = Package)]
struct Needs {
    #[serde(rename = "_id")]
    id: String,
    depends: Vec<Ref<Package>>,
}

/// How many packages depend on each name.
#[derive(Debug, Default)]
pub struct Requirements {
    required: HashMap<Ref<Package>, u64>,
    packages: HashSet<String>,
}

impl Requirements {
    /// Counts the dependencies of all packages.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn count(db: &Db) -> odm::Result<Self> {
        let mut counted = Self::default();
        let mut needs = db.find::<Package>().select::<Needs>().stream();
        while let Some(package) = needs.next().await.transpose()? {
            for required in package.depends {
                *counted.required.entry(required).or_default() += 1;
            }
            counted.packages.insert(package.id);
        }
        Ok(counted)
    }

    /// All dependencies together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.required.values().sum()
    }

    /// The required names with the number of packages that depend on them, most required first.
    #[must_use]
    pub fn by_number(&self) -> Vec<(&Ref<Package>, u64)> {
        let mut sorted: Vec<_> = self.required.iter().map(|(r, n)| (r, *n)).collect();
        sorted.sort_by_key(|(reference, number)| (Reverse(*number), reference.id()));
        sorted
    }

    /// Those of them that no package has.
    #[must_use]
    pub fn missing(&self) -> Vec<(&Ref<Package>, u64)> {
        let mut missing = self.by_number();
        missing.retain(|(reference, _)| !self.packages.contains(reference.id()));
        missing
    }
}

/// The most required names and the packages that have them, in one query.
///
/// # Errors
///
/// Those of the database.
pub async fn most_required(db: &Db, required: &[(&Ref<Package>, u64)]) -> odm::Result<Table<3>> {
    let packages = db
        .get_many::<Package>(required.iter().map(|(reference, _)| *reference))
        .await?;
    let mut table = Table::new([" required by", "package", "what it is"]);
    for ((_, number), package) in required.iter().zip(&packages) {
        let number = thousands(*number);
        match package {
            Loaded(package) => table.row([&number, &package.id, &package.summary]),
            Missing(name) => table.row([&number, name, &"(no package has this name)"]),
        }
    }
    Ok(table)
}
