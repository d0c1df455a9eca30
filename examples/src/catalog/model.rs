//! Models of the catalog.

use odm::prelude::*;

/// A package of the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "packages")]
pub struct Package {
    /// The name, or `name=version` (apt syntax) for each further version of a name in the index.
    #[serde(rename = "_id")]
    pub id: String,
    /// The description, in a single line.
    pub summary: String,
    /// The version of the package.
    #[embed]
    pub version: Version,
    /// The size of the package.
    #[embed]
    pub size: Size,
    /// The time of the import, because an index has no dates.
    pub uploaded: DateTime,
    /// The section of the package.
    #[reference]
    #[index]
    pub section: Ref<Section>,
    /// The maintainer of the package.
    #[reference]
    #[index]
    pub maintainer: Ref<Maintainer>,
    /// The maintainer's name, copied so that a list of packages needs no join.
    #[denormalize(from = maintainer.name)]
    pub maintained_by: String,
    /// Dependencies in the catalog. A dependency cannot be deleted before this package.
    #[reference(inverse = required_by, on_delete = restrict, max = 1_000)]
    pub depends: Vec<Ref<Package>>,
    /// Dependency names without a package: virtual names, or packages of a different architecture.
    #[embed(max = 1_000)]
    pub missing: Vec<String>,
    /// The inverse of `depends`, maintained by the framework. In Debian 12, `libc6` has 21,809 dependent packages, and
    /// 107 packages have more than 200.
    #[reference(inverse_of = depends, overflow(after = 200, into = "required_by_more", owner = "package"))]
    pub required_by: Overflow<Ref<Package>>,
}

/// A package without links, for lists of packages.
#[derive(Debug, Clone, PartialEq, Deserialize, Projection)]
#[projection(of = Package)]
pub struct Card {
    /// The name.
    #[serde(rename = "_id")]
    pub id: String,
    /// The description.
    pub summary: String,
    /// The version of the package.
    pub version: Version,
    /// The size of the package.
    pub size: Size,
}

/// The version of a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Version {
    /// The version number, for example `1:2.39.5-0+deb12u2`.
    pub number: String,
    /// The architecture, `all` for architecture-independent packages.
    pub architecture: String,
}

/// The size of a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Size {
    /// The size in bytes.
    pub download: i64,
    /// In KiB; a few packages do not say.
    pub installed: Option<i64>,
}

/// A maintainer of packages: a person or a team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "maintainers")]
pub struct Maintainer {
    /// The complete `Maintainer` field with the address, because two people may share a name.
    #[serde(rename = "_id")]
    pub id: String,
    /// The name without the address.
    #[index]
    pub name: String,
    /// The number of packages of this maintainer.
    #[count(of = Package::maintainer)]
    #[index(descending)]
    pub packages: i64,
}

/// A section of the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sections")]
pub struct Section {
    /// The name: `games`, or `contrib/games` outside of Debian's main part.
    #[serde(rename = "_id")]
    pub id: String,
    /// The part of the archive: `main`, `contrib` or `non-free`.
    pub area: String,
    /// The number of packages in the section.
    #[count(of = Package::section)]
    pub packages: i64,
    /// The latest packages, stored here so that a list of sections needs no join.
    #[latest(3, of = Package::section, by = uploaded)]
    pub uploads: Vec<Upload>,
}

/// The fields of a package that a section stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Package)]
pub struct Upload {
    /// The time of the import.
    pub uploaded: DateTime,
    /// The description, in a single line.
    pub summary: String,
    /// The version of the package.
    #[embed]
    pub version: Version,
}

/// The record of an import, so that an interrupted import is not mistaken for a complete import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "imports")]
pub struct Import {
    /// The `_id` of the single record: [`Import::ID`].
    #[serde(rename = "_id")]
    pub id: String,
    /// The source file.
    pub source: String,
    /// The time at which the import was complete.
    pub finished: Option<DateTime>,
}

impl Import {
    /// The `_id` of the single record.
    pub const ID: &str = "catalog";
}

/// Every model of the catalog.
#[derive(Debug, Schema)]
#[schema(models(Package, Maintainer, Section, Import))]
pub struct Catalog;

/// The catalog's database.
pub type Db = odm::Database<Catalog>;
