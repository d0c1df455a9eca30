//! Loads the catalog into a database.
//!
//! A package can be inserted after all dependencies, and the first packages of a file may depend on the last packages. Therefore
//! the loader keeps a whole index in memory.

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

/// The number of packages in a single insert.
///
/// With transactions, a batch is a single transaction, with a single write to each dependency of the batch.
const BATCH: usize = 2_000;

/// The source of an index.
#[derive(Debug, Clone)]
pub enum Source {
    /// The sample inside this program.
    Sample,
    /// A file, plain or gzip.
    File(PathBuf),
}

impl Source {
    /// Reads the whole index.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is not readable, or has a different format.
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

/// A parsed index.
#[derive(Debug)]
pub struct Input {
    name: String,
    sections: Vec<NewSection>,
    maintainers: Vec<NewMaintainer>,
    ordered: Ordered,
}

impl Input {
    /// Reads an index as text or gzip.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is not readable, or has a different format.
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

/// Returns the import record of the database, if any.
///
/// # Errors
///
/// Returns database errors.
pub async fn import(db: &Db) -> odm::Result<Option<Import>> {
    db.find_by_id::<Import>(Import::ID).await
}

/// Deletes the whole catalog.
///
/// `delete_many` would update the inverses of every deleted package. Here all referrers and targets are deleted together, so the
/// function drops the collections directly, without odm.
///
/// # Errors
///
/// Returns database errors.
pub async fn clear(db: &Db) -> odm::Result<()> {
    // First mark the import as unfinished: an interrupted clear must not look like a complete catalog or an empty database.
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

/// Loads an index into an empty database. Creates the indexes first.
///
/// # Errors
///
/// Returns database errors. Loaded documents stay, and the [`Import`] stays unfinished.
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

/// Returns a progress bar over the packages, which is hidden if the output is not a terminal.
fn progress_bar(packages: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % {pos} packages {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(packages as u64).with_style(style)
}
