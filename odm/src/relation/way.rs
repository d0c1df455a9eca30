//! The way to references in stored documents.

use bson::{RawBsonRef, RawDocument};

use crate::{
    Result,
    field::{Path, Tag},
};

/// Where the references of a join stand in a stored document.
#[derive(Debug, Clone)]
pub(super) struct Way {
    dotted: String,
    names: Vec<String>,
    /// The enums on the way by how many names lead to them, with the variants that they must be of.
    variants: Vec<(usize, Tag)>,
}

impl Way {
    /// The way that a place describes.
    ///
    /// # Errors
    ///
    /// That of a path which cannot be asked for.
    pub(super) fn to(path: &Path) -> Result<Self> {
        let variants = path.variants().into_iter().map(|(at, tag)| {
            let names = names(at.dotted()?).count();
            Ok((names, tag))
        });
        Ok(Self {
            variants: variants.collect::<Result<_>>()?,
            names: names(path.dotted()?).map(str::to_owned).collect(),
            dotted: path.dotted()?.to_owned(),
        })
    }

    /// The path, as MongoDB writes it.
    pub(super) fn dotted(&self) -> &str {
        &self.dotted
    }

    /// The stored fields that must be in a document: that of the references, and those that say of which variant an enum is.
    pub(super) fn needs(&self) -> Vec<String> {
        let field = |names: &[String], last: Option<&str>| {
            let names = names.iter().map(String::as_str).chain(last);
            // A projection does not know the elements of an array.
            let names = names.take_while(|name| name.parse::<usize>().is_err());
            names.collect::<Vec<_>>().join(".")
        };
        let tags = self.variants.iter().filter_map(|(at, tag)| {
            let tag = tag.field()?;
            Some(field(self.names.get(..*at)?, Some(tag)))
        });
        [field(&self.names, None)].into_iter().chain(tags).collect()
    }

    /// The references of a document, in order, through arrays; null and missing count as none. Nothing where no enum on the way
    /// is of its variant, so that the document has no such place.
    pub(super) fn references<'d>(&self, document: &'d RawDocument) -> Option<Vec<RawBsonRef<'d>>> {
        let mut found = None;
        if self.variants.is_empty() {
            found = Some(Vec::new());
        }
        self.walk(RawBsonRef::Document(document), 0, &mut found);
        found
    }

    /// Goes on from a value that this many names have led to.
    fn walk<'d>(&self, value: RawBsonRef<'d>, at: usize, found: &mut Option<Vec<RawBsonRef<'d>>>) {
        let name = self.names.get(at);
        match value {
            RawBsonRef::Null | RawBsonRef::Undefined => return,
            RawBsonRef::Array(array) => {
                match name.and_then(|name| name.parse::<usize>().ok()) {
                    Some(index) => {
                        if let Ok(Some(element)) = array.get(index) {
                            self.walk(element, at + 1, found);
                        }
                    }
                    None => {
                        for element in array.into_iter().flatten() {
                            self.walk(element, at, found);
                        }
                    }
                }
                return;
            }
            _ => {}
        }
        for (_, tag) in self.variants.iter().filter(|(depth, _)| *depth == at) {
            if !tag.is_of(value) {
                return;
            }
        }
        if self.variants.last().is_some_and(|(depth, _)| *depth == at) {
            found.get_or_insert_default();
        }
        match (value, name) {
            (value, None) => found.get_or_insert_default().push(value),
            (RawBsonRef::Document(document), Some(name)) => {
                if let Ok(Some(value)) = document.get(name) {
                    self.walk(value, at + 1, found);
                }
            }
            _ => {}
        }
    }
}

/// The names in a path; none in that of the document itself.
fn names(dotted: &str) -> impl Iterator<Item = &str> {
    dotted.split('.').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, rawdoc};

    use super::*;

    fn way(path: &str, variants: &[(usize, Tag)]) -> Way {
        Way {
            dotted: path.to_owned(),
            names: names(path).map(str::to_owned).collect(),
            variants: variants.to_vec(),
        }
    }

    fn at(document: &RawDocument, path: &str) -> Vec<Bson> {
        values(way(path, &[]).references(document).unwrap())
    }

    fn values(found: Vec<RawBsonRef<'_>>) -> Vec<Bson> {
        let values = found.into_iter().map(|value| value.try_into().unwrap());
        values.collect()
    }

    #[test]
    fn references_are_found_in_order_through_arrays() {
        let document = rawdoc! {
            "a": 1, "none": null,
            "many": [3, 1, 2, 1],
            "lines": [{"id": 7}, {}, {"id": null}, {"id": 8}, {"id": [9, 10]}],
        };
        assert_eq!(at(&document, "a"), [Bson::Int32(1)]);
        assert!(at(&document, "none").is_empty());
        assert!(at(&document, "absent.below").is_empty());
        assert_eq!(at(&document, "many"), [3, 1, 2, 1].map(Bson::Int32));
        assert_eq!(at(&document, "lines.id"), [7, 8, 9, 10].map(Bson::Int32));
        assert_eq!(at(&document, "lines.3.id"), [Bson::Int32(8)]);
    }

    #[test]
    fn only_those_of_the_variant_are_found() {
        let document = rawdoc! {
            "own": {"kind": "user", "id": 1},
            "all": [{"kind": "user", "id": 2}, {"kind": "team", "id": 3}, "other", {"kind": "user"}, {"kind": "user", "id": 4}],
            "nested": [{"team": {"lead": {"kind": "user", "id": 5}}}, {"team": {"lead": {"kind": "none", "id": 6}}}, {"user": 7}],
        };
        let user = Tag::Field("kind", "user");
        let of = |path, variants: &[_]| {
            way(path, variants)
                .references(&document)
                .map(|found| values(found).into_iter().map(|id| id.as_i32().unwrap()))
                .map(Iterator::collect::<Vec<_>>)
        };
        assert_eq!(of("own.id", &[(1, user)]), Some(vec![1]));
        assert_eq!(of("own.id", &[(1, Tag::Field("kind", "team"))]), None);
        // It is of the variant, but has no such field.
        assert_eq!(of("own.ids", &[(1, user)]), Some(vec![]));
        assert_eq!(of("all.id", &[(1, user)]), Some(vec![2, 4]));
        assert_eq!(of("all.0.id", &[(2, user)]), Some(vec![2]));
        assert_eq!(of("all.1.id", &[(2, user)]), None);
        let lead = [(1, Tag::Key("team")), (3, user)];
        assert_eq!(of("nested.team.lead.id", &lead), Some(vec![5]));
        assert_eq!(of("nested.user", &[(1, Tag::Key("user"))]), Some(vec![7]));
        // The document itself.
        assert_eq!(of("own.id", &[(0, user)]), None);
        assert_eq!(of("own.id", &[(0, Tag::Key("own"))]), Some(vec![1]));
    }

    #[test]
    fn a_projection_reads_what_says_the_variant() {
        let user = Tag::Field("kind", "user");
        assert_eq!(way("a.id", &[(1, user)]).needs(), ["a.id", "a.kind"]);
        assert_eq!(way("id", &[(0, user)]).needs(), ["id", "kind"]);
        assert_eq!(way("a.3.id", &[(2, user)]).needs(), ["a", "a"]);
        assert_eq!(way("a.user", &[(1, Tag::Key("user"))]).needs(), ["a.user"]);
    }
}
