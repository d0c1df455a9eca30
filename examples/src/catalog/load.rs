//! Filling a database with the catalog.
//!
//! A package can be inserted when all that it depends on is there, and the end of a file may depend on its beginning and the other way
//! round: so a whole index is in memory while it is loaded.

use std::{collections::HashSet, fs::File, io::Read, path::PathBuf};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use odm::{Filter, prelude::*};

use super::{
    Db,
    index::{Entry, Index},
    model::{Import, Maintainer, NewMaintainer, NewSection, Package, Section},
    order::{Ordered, order},
};

/// How many packages are inserted at a time.
///
/// Where there are transactions, those are one, which writes once to each package that some of them depend on.
const BATCH: usize = 2_000;

/// Where an index comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The sample that comes with this program.
    Sample,
    /// A file, plain or gzip.
    File(PathBuf),
}

impl Source {
    /// Reads all of it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is of another kind.
    pub fn read(&self) -> Result<Input> {
        const SAMPLE: &[u8] = include_bytes!("../../data/debian-12-sample.gz");
        let name = self.to_string();
        match self {
            Self::Sample => Input::read(name, SAMPLE),
            Self::File(path) => {
                let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
                Input::read(name, file)
            }
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sample => f.write_str("the sample"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// An index that was read.
#[derive(Debug)]
pub struct Input {
    name: String,
    sections: Vec<NewSection>,
    maintainers: Vec<NewMaintainer>,
    ordered: Ordered,
}

impl Input {
    /// Reads an index, as text or as gzip.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is of another kind.
    pub fn read(name: String, input: impl Read + Send) -> Result<Self> {
        let entries = Index::new(input).and_then(Iterator::collect);
        let entries: Vec<Entry> = entries.with_context(|| format!("cannot read {name}"))?;
        let (mut sections, mut maintainers) = (Vec::new(), Vec::new());
        let (mut known_sections, mut known_maintainers) = (HashSet::new(), HashSet::new());
        for Entry {
            section,
            maintainer,
            ..
        } in &entries
        {
            if known_sections.insert(&section.id) {
                sections.push(section.clone());
            }
            if known_maintainers.insert(&maintainer.id) {
                maintainers.push(maintainer.clone());
            }
        }
        Ok(Self {
            name,
            sections,
            maintainers,
            ordered: order(entries),
        })
    }
}

/// The catalog that the database has, if any.
///
/// # Errors
///
/// Those of the database.
pub async fn import(db: &Db) -> odm::Result<Option<Import>> {
    db.find_by_id::<Import>(Import::ID).await
}

/// Deletes the whole catalog.
///
/// `delete_many` would see to the links of every package that it deletes. Here everything goes that is on either side of one, so
/// nothing is left to be seen to: the collections are dropped, around the framework.
///
/// # Errors
///
/// Those of the database.
pub async fn clear(db: &Db) -> odm::Result<()> {
    // A clear that is broken off leaves what is not finished, and neither a catalog nor an empty database.
    db.update_many::<Import>(|_| Filter::all())
        .unset(|i| i.finished())
        .await?;
    for collection in [
        Package::COLLECTION,
        Maintainer::COLLECTION,
        Section::COLLECTION,
    ] {
        db.backend().drop_collection(collection).await?;
    }
    db.delete::<Import>(Import::ID).await?;
    Ok(())
}

/// Loads an index into a database that has none, indexes first.
///
/// # Errors
///
/// Those of the database. What was loaded before stays; its [`Import`] is not finished.
pub async fn load(db: &Db, input: Input) -> odm::Result<()> {
    db.sync_indexes().await?;
    db.insert(Import {
        id: Import::ID.into(),
        source: input.name,
        finished: None,
    })
    .await?;
    db.insert_many(input.sections).await?;
    db.insert_many(input.maintainers).await?;

    let Ordered { packages, circles } = input.ordered;
    let progress = progress_bar(packages.len());
    let mut packages = packages.into_iter().peekable();
    while packages.peek().is_some() {
        let batch = db.insert_many(packages.by_ref().take(BATCH)).await?;
        progress.inc(batch.len() as u64);
    }
    for (package, depends) in circles {
        db.update::<Package>(package)
            .set(|p| p.depends(), depends)
            .await?;
    }
    progress.finish_and_clear();

    db.update::<Import>(Import::ID)
        .set(|i| i.finished(), DateTime::now())
        .await?;
    Ok(())
}

/// Over the packages; hidden where the output is no terminal.
fn progress_bar(packages: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % {pos} packages {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(packages as u64).with_style(style)
}
