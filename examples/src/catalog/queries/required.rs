//! The most required packages and names.
//!
//! A package has an array of dependent packages with a known length, and at most 200 elements in the document.
//! Names without a package are stored in the dependent packages only: the application counts these names in batches.

use std::{cmp::Reverse, collections::HashMap};

use odm::prelude::*;

use crate::catalog::{
    Db,
    model::{Card, Package},
    table::{Table, thousands},
};

/// The fields of a package that the example reads.
#[derive(Debug, Deserialize, Projection)]
#[projection(of = Package)]
struct Needs {
    #[serde(rename = "_id")]
    id: String,
    missing: Vec<String>,
    required_by: Overflow<Ref<Package>>,
}

/// The number of dependent packages for each name.
#[derive(Debug)]
pub struct Requirements {
    /// The required packages with the number of dependent packages, most required first.
    pub packages: Vec<(String, u64)>,
    /// The number of packages with an inverse that has overflowed.
    pub outliers: usize,
    /// The names without a package, with the number of dependent packages, most required first.
    pub missing: Vec<(String, u64)>,
}

impl Requirements {
    /// Reads the links of all packages.
    ///
    /// # Errors
    ///
    /// Returns database errors.
    pub async fn count(db: &Db) -> odm::Result<Self> {
        let (mut packages, mut outliers) = (Vec::new(), 0);
        let mut missing = HashMap::new();
        let mut needs = db.find::<Package>().select::<Needs>().stream();
        while let Some(package) = needs.next().await.transpose()? {
            outliers += usize::from(package.required_by.has_more());
            if !package.required_by.is_empty() {
                packages.push((package.id, package.required_by.len()));
            }
            for name in package.missing {
                *missing.entry(name).or_default() += 1;
            }
        }
        let mut counted = Self {
            packages,
            outliers,
            missing: missing.into_iter().collect(),
        };
        for names in [&mut counted.packages, &mut counted.missing] {
            names.sort_by(|(a, n), (b, m)| (Reverse(n), a).cmp(&(Reverse(m), b)));
        }
        Ok(counted)
    }

    /// Returns the number of all dependencies.
    #[must_use]
    pub fn total(&self) -> u64 {
        let all = self.packages.iter().chain(&self.missing);
        all.map(|(_, number)| number).sum()
    }
}

/// Returns the packages with the number of dependent packages, in a single query.
///
/// # Errors
///
/// Returns database errors.
pub async fn most_required(db: &Db, required: &[(String, u64)]) -> odm::Result<Table<3>> {
    let names = required.iter().map(|(name, _)| name.as_str());
    let cards = db
        .find::<Package>()
        .filter(|p| p.id().is_in(names))
        .select::<Card>()
        .all()
        .await?;
    let cards: HashMap<_, _> = cards.iter().map(|card| (&card.id, card)).collect();
    let mut table = Table::new([" required by", "package", "what it is"]);
    for (name, number) in required {
        let summary = cards.get(name).map_or("", |card| &card.summary);
        table.row([&thousands(*number), name, &summary]);
    }
    Ok(table)
}

/// Returns the names with the number of dependent packages.
#[must_use]
pub fn most_missed(missing: &[(String, u64)]) -> Table<2> {
    let mut table = Table::new([" required by", "name"]);
    for (name, number) in missing {
        table.row([&thousands(*number), name]);
    }
    table
}
