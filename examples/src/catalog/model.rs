//! How the catalog is laid out.

use odm::prelude::*;

/// A package of the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "packages")]
pub struct Package {
    /// The name; `name=version`, as apt writes it, for the further versions of a name that the index has.
    #[serde(rename = "_id")]
    pub id: String,
    /// What it is, in one line.
    pub summary: String,
    /// Which version of it.
    #[embed]
    pub version: Version,
    /// How large it is.
    #[embed]
    pub size: Size,
    /// When the catalog was given it: an index has no dates.
    pub uploaded: DateTime,
    /// What it is for.
    #[reference]
    #[index]
    pub section: Ref<Section>,
    /// Who looks after it.
    #[reference]
    #[index]
    pub maintainer: Ref<Maintainer>,
    /// The name of whoever that is, so that a list of packages needs no join.
    #[denormalize(from = maintainer.name)]
    pub maintained_by: String,
    /// The packages that it needs, which are there: they cannot be deleted before it.
    #[reference(inverse = required_by, on_delete = restrict, max = 1_000)]
    pub depends: Vec<Ref<Package>>,
    /// The names that it needs and that no package has: other packages provide them, or other architectures have them.
    #[embed(max = 1_000)]
    pub missing: Vec<String>,
    /// The packages that need it, by the framework: whoever has it in `depends`. In Debian 12, `libc6` has 21,809, and 107 packages
    /// have more than 200.
    #[reference(inverse_of = depends, overflow(after = 200, into = "required_by_more", owner = "package"))]
    pub required_by: Overflow<Ref<Package>>,
}

/// A package without its links, to be read where there are many.
#[derive(Debug, Clone, PartialEq, Deserialize, Projection)]
#[projection(of = Package)]
pub struct Card {
    /// The name.
    #[serde(rename = "_id")]
    pub id: String,
    /// What it is.
    pub summary: String,
    /// Which version of it.
    pub version: Version,
    /// How large it is.
    pub size: Size,
}

/// The version of a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Version {
    /// Such as `1:2.39.5-0+deb12u2`.
    pub number: String,
    /// What it runs on, `all` for everything.
    pub architecture: String,
}

/// The size of a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Size {
    /// In bytes.
    pub download: i64,
    /// In KiB; a few packages do not say.
    pub installed: Option<i64>,
}

/// Who looks after packages: a person or a team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "maintainers")]
pub struct Maintainer {
    /// The `Maintainer` field as it stands, with the address: two people may have one name.
    #[serde(rename = "_id")]
    pub id: String,
    /// The name alone.
    #[index]
    pub name: String,
    /// How many packages there are of theirs.
    #[count(of = Package::maintainer)]
    #[index(descending)]
    pub packages: i64,
}

/// What packages are for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "sections")]
pub struct Section {
    /// Such as `games`, or `contrib/games` outside of Debian's main part.
    #[serde(rename = "_id")]
    pub id: String,
    /// The part of the archive: `main`, `contrib` or `non-free`.
    pub area: String,
    /// How many packages are in it.
    #[count(of = Package::section)]
    pub packages: i64,
    /// Those that came last, so that a list of sections needs no join.
    #[latest(3, of = Package::section, by = uploaded)]
    pub uploads: Vec<Upload>,
}

/// What a section has of a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Package)]
pub struct Upload {
    /// When it came.
    pub uploaded: DateTime,
    /// What it is, in one line.
    pub summary: String,
    /// Which version of it.
    #[embed]
    pub version: Version,
}

/// What was loaded, so that a load that was broken off is not taken for a whole one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "imports")]
pub struct Import {
    /// There is one: [`Import::ID`].
    #[serde(rename = "_id")]
    pub id: String,
    /// The file that it came from.
    pub source: String,
    /// When all of it was there.
    pub finished: Option<DateTime>,
}

impl Import {
    /// The id of the only one.
    pub const ID: &str = "catalog";
}

/// Every model of the catalog.
#[derive(Debug, Schema)]
#[schema(models(Package, Maintainer, Section, Import))]
pub struct Catalog;

/// The catalog's database.
pub type Db = odm::Database<Catalog>;
