//! Which packages the others depend on.
//!
//! A package lists those that depend on it, and knows how many they are, though it has no more than 200 of them in itself. The names that
//! no package has stand nowhere but where they are needed: the application counts them, a batch at a time.

use std::{cmp::Reverse, collections::HashMap};

use odm::prelude::*;

use crate::catalog::{
    Db,
    model::{Card, Package},
    table::{Table, thousands},
};

/// What is read of a package.
#[derive(Debug, Deserialize, Projection)]
#[projection(of = Package)]
struct Needs {
    #[serde(rename = "_id")]
    id: String,
    missing: Vec<String>,
    required_by: Overflow<Ref<Package>>,
}

/// How many packages depend on each name.
#[derive(Debug)]
pub struct Requirements {
    /// The packages that others depend on, with the number of these, most required first.
    pub packages: Vec<(String, u64)>,
    /// How many of them are listed outside of the package too.
    pub outliers: usize,
    /// The names that no package has, in the same way.
    pub missing: Vec<(String, u64)>,
}

impl Requirements {
    /// Reads the links of all packages.
    ///
    /// # Errors
    ///
    /// Those of the database.
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

    /// All dependencies together.
    #[must_use]
    pub fn total(&self) -> u64 {
        let all = self.packages.iter().chain(&self.missing);
        all.map(|(_, number)| number).sum()
    }
}

/// The packages with the number of those that depend on them, in one query.
///
/// # Errors
///
/// Those of the database.
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

/// The names with the number of packages that depend on them.
#[must_use]
pub fn most_missed(missing: &[(String, u64)]) -> Table<2> {
    let mut table = Table::new([" required by", "name"]);
    for (name, number) in missing {
        table.row([&thousands(*number), name]);
    }
    table
}
