//! Filling a database with the catalog.

use std::{collections::HashSet, fs::File, io::Read, path::PathBuf};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use odm::{Filter, prelude::*};

use super::{
    Db,
    index::{Entry, Index},
    model::{Import, Maintainer, Package, Section},
};

/// How many packages are inserted at a time.
///
/// Each insert is durable before the next begins: this many make that cheap, and need little memory.
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
    /// Begins to read, with a progress bar.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is of another kind.
    pub fn open(&self) -> Result<Input> {
        const SAMPLE: &[u8] = include_bytes!("../../data/debian-12-sample.gz");
        let open = || -> Result<_> {
            let (input, length): (Box<dyn Read + Send>, _) = match self {
                Self::Sample => (Box::new(SAMPLE), SAMPLE.len() as u64),
                Self::File(path) => {
                    let file = File::open(path)?;
                    let length = file.metadata()?.len();
                    (Box::new(file), length)
                }
            };
            let progress = progress_bar(length);
            let index = Index::new(progress.wrap_read(input))?;
            Ok((index, progress))
        };
        let (index, progress) = open().with_context(|| format!("cannot read {self}"))?;
        Ok(Input {
            name: self.to_string(),
            index,
            progress,
        })
    }
}

/// An index that is being read.
pub struct Input {
    name: String,
    index: Index<'static>,
    progress: ProgressBar,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sample => f.write_str("the sample"),
            Self::File(path) => path.display().fmt(f),
        }
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
/// # Errors
///
/// Those of the database.
pub async fn clear(db: &Db) -> odm::Result<()> {
    // A clear that is broken off leaves what is not finished, and neither a catalog nor an empty database.
    db.update_many::<Import>(|_| Filter::all())
        .unset(|i| i.finished())
        .await?;
    db.delete_many::<Package>(|_| Filter::all()).await?;
    db.delete_many::<Maintainer>(|_| Filter::all()).await?;
    db.delete_many::<Section>(|_| Filter::all()).await?;
    db.delete::<Import>(Import::ID).await?;
    Ok(())
}

/// Loads an index into a database that has none, indexes first.
///
/// # Errors
///
/// Those of the file and of the database. What was loaded before stays; its [`Import`] is not finished.
pub async fn load(db: &Db, mut input: Input) -> Result<()> {
    db.sync_indexes().await?;
    db.insert(Import {
        id: Import::ID.into(),
        source: input.name.clone(),
        finished: None,
    })
    .await?;

    let mut known = Known::default();
    let mut packages = 0;
    loop {
        let batch: Result<Vec<Entry>> = input.index.by_ref().take(BATCH).collect();
        let batch = batch.with_context(|| format!("cannot read {}", input.name))?;
        if batch.is_empty() {
            break;
        }
        packages += batch.len();
        insert(db, batch, &mut known).await?;
        input.progress.set_message(format!("{packages} packages"));
    }
    input.progress.finish_and_clear();

    db.update::<Import>(Import::ID)
        .set(|i| i.finished(), DateTime::now())
        .await?;
    Ok(())
}

/// What was inserted already.
#[derive(Default)]
struct Known {
    maintainers: HashSet<Ref<Maintainer>>,
    sections: HashSet<Ref<Section>>,
}

async fn insert(db: &Db, batch: Vec<Entry>, known: &mut Known) -> odm::Result<()> {
    let (mut packages, mut maintainers, mut sections) = (Vec::new(), Vec::new(), Vec::new());
    for entry in batch {
        if known.maintainers.insert(entry.maintainer.to_ref()) {
            maintainers.push(entry.maintainer);
        }
        if known.sections.insert(entry.section.to_ref()) {
            sections.push(entry.section);
        }
        packages.push(entry.package);
    }
    db.insert_many(sections).await?;
    db.insert_many(maintainers).await?;
    db.insert_many(packages).await?;
    Ok(())
}

/// Over the bytes of the file; hidden where the output is no terminal.
fn progress_bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % {msg} {elapsed}");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
