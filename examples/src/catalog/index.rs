//! A reader of a Debian `Packages` index.
//!
//! An index is a text of stanzas with an empty line between stanzas. A stanza has lines `Field: value`, and a line that begins
//! with a space continues the previous field. The reader makes three kinds of items, and the totals count these items:
//!
//! - **Package**: a stanza. An index can have several versions of a name. The first version has the name as `_id`, so that
//!   dependencies find the package. Each further version has `name=version`.
//! - **Maintainer**: a distinct `Maintainer` field with name and address.
//! - **Dependency**: a distinct name in `Pre-Depends` and `Depends` of a stanza. Every alternative (`a | b`) counts. Versions
//!   (`(>= 2)`), architectures (`[amd64]`, `:any`) and build profiles (`<…>`) are not part of the name. A name without a package
//!   (a virtual package) counts too, as [`missing`](super::model::Package::missing).
//!
//! For example, Debian 12's `main` for amd64 had, in July 2026, 63,440 packages of 2,248 maintainers and 282,436 dependencies,
//! 21,809 of the dependencies on `libc6`.

use std::{
    collections::{HashMap, HashSet},
    io::{BufRead, BufReader, Read},
};

use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use odm::prelude::*;

use super::model::{NewMaintainer, NewPackage, NewSection, Size, Version};

/// A package with the related documents.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The package, without dependencies: the reader knows which names are packages only after the last entry.
    pub package: NewPackage,
    /// The distinct names in the dependencies.
    pub needs: Vec<String>,
    /// The maintainer of the package, possibly shared with further packages.
    pub maintainer: NewMaintainer,
    /// The section of the package.
    pub section: NewSection,
}

/// An iterator over the entries of an index.
pub struct Index<'a> {
    lines: Box<dyn BufRead + Send + 'a>,
    /// The number of read lines.
    line: usize,
    names: HashSet<String>,
}

impl<'a> Index<'a> {
    /// Opens an index as text or gzip, which the first bytes distinguish.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is not readable, or has a different compression.
    pub fn new(input: impl Read + Send + 'a) -> Result<Self> {
        let mut input = BufReader::new(input);
        let lines: Box<dyn BufRead + Send> = match input.fill_buf()? {
            [0x1f, 0x8b, ..] => Box::new(BufReader::new(MultiGzDecoder::new(input))),
            [0xfd, b'7', b'z', ..] => bail!("it is an xz file: unpack it first, by `xz -d`"),
            [0x04, 0x22, 0x4d, ..] => bail!("it is an lz4 file: unpack it first, by `lz4 -d`"),
            _ => Box::new(input),
        };
        Ok(Self {
            lines,
            line: 0,
            names: HashSet::new(),
        })
    }

    /// Returns the next stanza, or `None` at the end.
    fn stanza(&mut self) -> Result<Option<Stanza>> {
        let mut stanza = Stanza::default();
        let mut line = String::new();
        loop {
            line.clear();
            self.line += 1;
            let at_end = self.lines.read_line(&mut line)? == 0;
            let text = line.trim_end();
            if !text.is_empty() {
                stanza.add(text)?;
            } else if !stanza.fields.is_empty() {
                return Ok(Some(stanza));
            } else if at_end {
                return Ok(None);
            }
        }
    }

    fn entry(&mut self, mut stanza: Stanza) -> Result<Entry> {
        let name = stanza.take("Package")?;
        let number = stanza.take("Version")?;
        let section = section(stanza.take("Section")?);
        let maintainer = maintainer(stanza.take("Maintainer")?);
        let package = NewPackage {
            id: if self.names.insert(name.clone()) {
                name
            } else {
                format!("{name}={number}")
            },
            summary: stanza.take_optional("Description").unwrap_or_default(),
            version: Version {
                number,
                architecture: stanza.take("Architecture")?,
            },
            size: Size {
                download: parse("Size", &stanza.take("Size")?)?,
                installed: stanza
                    .take_optional("Installed-Size")
                    .map(|size| parse("Installed-Size", &size))
                    .transpose()?,
            },
            uploaded: DateTime::now(),
            section: Ref::new(section.id.clone()),
            maintainer: Ref::new(maintainer.id.clone()),
            depends: Vec::new(),
            missing: Vec::new(),
        };
        Ok(Entry {
            package,
            needs: needs([
                stanza.take_optional("Pre-Depends"),
                stanza.take_optional("Depends"),
            ]),
            maintainer,
            section,
        })
    }
}

impl Iterator for Index<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let stanza = self.stanza().transpose()?;
        let entry = stanza.and_then(|stanza| self.entry(stanza));
        Some(entry.with_context(|| {
            format!(
                "it is no `Packages` index, or damaged, at line {}",
                self.line
            )
        }))
    }
}

/// The fields that the reader uses. An index has many more fields.
const FIELDS: [&str; 10] = [
    "Architecture",
    "Depends",
    "Description",
    "Installed-Size",
    "Maintainer",
    "Package",
    "Pre-Depends",
    "Section",
    "Size",
    "Version",
];

#[derive(Default)]
struct Stanza {
    fields: HashMap<&'static str, String>,
    /// The field that a continued line belongs to, if the reader uses the field.
    last: Option<&'static str>,
}

impl Stanza {
    fn add(&mut self, line: &str) -> Result<()> {
        if line.starts_with([' ', '\t']) {
            if let Some(value) = self.last.and_then(|name| self.fields.get_mut(name)) {
                value.push('\n');
                value.push_str(line);
            }
            return Ok(());
        }
        let Some((name, value)) = line.split_once(':') else {
            bail!("a line is no `Field: value`");
        };
        self.last = FIELDS.into_iter().find(|field| *field == name);
        if let Some(field) = self.last {
            self.fields.insert(field, value.trim().to_owned());
        }
        Ok(())
    }

    fn take(&mut self, field: &str) -> Result<String> {
        self.take_optional(field)
            .with_context(|| format!("a package has no `{field}`"))
    }

    fn take_optional(&mut self, field: &str) -> Option<String> {
        self.fields.remove(field)
    }
}

fn section(id: String) -> NewSection {
    let area = id.split_once('/').map_or("main", |(area, _)| area);
    NewSection {
        area: area.to_owned(),
        id,
    }
}

fn maintainer(id: String) -> NewMaintainer {
    let name = id.split_once('<').map_or(&*id, |(name, _)| name);
    NewMaintainer {
        name: name.trim().to_owned(),
        id,
    }
}

fn parse(field: &str, value: &str) -> Result<i64> {
    value
        .parse()
        .with_context(|| format!("`{field}: {value}` is no number"))
}

/// Returns the distinct names in dependency fields, in the original order.
fn needs(fields: [Option<String>; 2]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for alternative in fields.iter().flatten().flat_map(|f| f.split([',', '|'])) {
        let is_end = |c: char| c.is_whitespace() || ":([<".contains(c);
        let name = alternative.trim().split(is_end).next().unwrap_or_default();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Package: hello
Version: 2.10-3
Maintainer: Jane Doe <jane@example.org>
Architecture: amd64
Pre-Depends: libc6 (>= 2.34)
Depends: libc6 (>= 2.36), editor | vim:any [amd64],
 hello-data
Description: says hello
Section: devel
Size: 53000

Package: hello
Version: 2.12-1
Maintainer: Jane Doe <jane@example.org>
Architecture: amd64
Installed-Size: 277
Tag: not,
 of interest
Section: contrib/devel
Size: 54000";

    fn read(text: &str) -> Result<Vec<Entry>> {
        Index::new(text.as_bytes())?.collect()
    }

    #[test]
    fn a_stanza_becomes_a_package_with_related_documents() {
        let entries = read(TEXT).unwrap();
        let Entry {
            package,
            needs,
            maintainer,
            section,
        } = &entries[0];
        assert_eq!(package.id, "hello");
        assert_eq!(package.size.installed, None);
        assert_eq!(*needs, ["libc6", "editor", "vim", "hello-data"]);
        assert_eq!(maintainer.name, "Jane Doe");
        assert_eq!(package.maintainer, Ref::new(maintainer.id.clone()));
        assert_eq!(section.area, "main");
    }

    #[test]
    fn a_further_version_has_a_versioned_id() {
        let entries = read(TEXT).unwrap();
        assert_eq!(entries[1].package.id, "hello=2.12-1");
        assert_eq!(entries[1].package.size.installed, Some(277));
        assert_eq!(entries[1].section.area, "contrib");
    }

    #[test]
    fn an_invalid_index_names_the_line() {
        let error = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(error("\n\nhello").contains("line 3"));
        assert!(error("Package: hello\n\n").contains("no `Version`"));
        let size = TEXT.replace("53000", "large");
        assert!(error(&size).contains("`Size: large`"));
        let xz = Index::new(&b"\xfd7zXZ\0"[..]).err().unwrap().to_string();
        assert!(xz.contains("xz -d"));
    }
}
