//! What a derive knows of its model, as plain data.

/// A model: its names and its fields.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// The name of the type.
    pub name: &'static str,
    /// The collection of its documents.
    pub collection: &'static str,
    /// The name of each field in Rust and as it is stored.
    pub fields: &'static [(&'static str, &'static str)],
    /// Whether a stored document may lack a reference that the value read from it has, or hold it under another name:
    /// serde's `default` and `alias`.
    pub rewrites: bool,
    /// Whether a value may be stored less exactly than it is: dates of other crates.
    pub rounds: bool,
    /// The stored names of the fields that the framework writes.
    pub filled: &'static [&'static str],
    /// The stored name of the field in which the framework counts the writes.
    pub version: Option<&'static str>,
    /// The stored name of the field in which the framework keeps the time of the last write.
    pub updated: Option<&'static str>,
    /// The stored name of the field in which the framework keeps when a document was deleted, if that is a mark.
    pub soft_delete: Option<&'static str>,
    /// The stored name of the field that says whose a document is.
    pub scope: Option<&'static str>,
    /// The stored field that tells its documents from others in the collection, and its value there.
    pub tag: Option<(&'static str, &'static str)>,
}

impl Model {
    /// A model of which nothing is known: it stands in for one whose derive failed, and for what a derive does not say.
    #[doc(hidden)]
    pub const UNKNOWN: Self = Self {
        name: "",
        collection: "",
        fields: &[],
        rewrites: false,
        rounds: false,
        filled: &[],
        version: None,
        updated: None,
        soft_delete: None,
        scope: None,
        tag: None,
    };
}

pub(crate) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether no model before this one has its collection; called by derived code, at compile time.
#[must_use]
pub const fn is_first_on_its_collection(models: &[&Model], position: usize) -> bool {
    let mut i = 0;
    while i < position {
        if same(models[i].collection, models[position].collection) {
            return false;
        }
        i += 1;
    }
    true
}
